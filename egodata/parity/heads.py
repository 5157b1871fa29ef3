"""Order and membership of a frozen dataset's heads, against what each format says about its episodes."""

from collections.abc import Iterable, Mapping, Sequence

from egodata.catalog.manifest import Manifest
from egodata.catalog.rows import CatalogRow
from egodata.catalog.splits import split_keys
from egodata.findings import Finding, Severity
from egodata.parity.report import Outcome
from egodata.schema.ids import sorted_ids


def compare_heads(manifest: Manifest, zarr: Sequence[CatalogRow], *, lance: Sequence[CatalogRow]) -> Outcome:
    """Check that heads are in id order and disjoint by recording, and that both formats give every episode the same split key.

    Args:
        manifest: The dataset as it is used.
        zarr: Catalog rows of its episodes.
        lance: The same of the copy.
    """
    findings = [*_order(manifest), *_membership(manifest)]
    keys = [split_keys(rows) for rows in (zarr, lance)]
    contents = {row.episode_id: row.content for row in zarr}
    for name in sorted_ids(set(keys[0]) & set(keys[1])):
        if keys[0][name] != keys[1][name]:
            message = f"episode {name}: is split by {keys[0][name]} on zarr, by {keys[1][name]} on lance. Run `egodata lance build`."
            findings.append(Finding("parity-split", Severity.ERROR, name, message, "split_key", content=contents[name]))
    return Outcome({"heads": len(manifest.heads)}, tuple(findings))


def _order(manifest: Manifest) -> Iterable[Finding]:
    for head, members in manifest.heads.items():
        found = [member.episode_id for member in members]
        place = next((at for at, (one, other) in enumerate(zip(found, sorted_ids(found), strict=True)) if one != other), None)
        if place is not None:
            wanted = sorted_ids(found)[place]
            message = f"head {head}: position {place} is episode {found[place]}, in id order it is {wanted}. Freeze the dataset again."
            yield Finding("parity-order", Severity.ERROR, found[place], message, head, content=members[place].content)


def _membership(manifest: Manifest) -> Iterable[Finding]:
    owners: dict[str, str] = {}
    for head, members in manifest.heads.items():
        for member in members:
            other = owners.setdefault(member.episode_id, head)
            if other != head:
                message = f"episode {member.episode_id}: is in heads {other} and {head}. Freeze the dataset again."
                yield Finding("parity-split", Severity.ERROR, member.episode_id, message, head, content=member.content)


def held_contents(manifest: Manifest) -> Mapping[str, str]:
    """Return the content of every episode of a dataset, by id."""
    return {episode.episode_id: episode.content for episodes in manifest.heads.values() for episode in episodes}
