"""Catalog level: the same episodes in the same order, with the same counts and digests."""

from collections.abc import Sequence
from dataclasses import fields

from egodata.catalog.rows import CatalogRow
from egodata.findings import Finding, Severity
from egodata.parity.report import Outcome

REBUILD = "Run `egodata lance build`."


def compare_catalogs(zarr: Sequence[CatalogRow], lance: Sequence[CatalogRow]) -> Outcome:
    """Compare two catalogs row by row.

    Args:
        zarr: Rows of the published episodes, in order: what is expected.
        lance: Rows of the copy, in order.
    """
    expected, got = ({row.episode_id: row for row in rows} for rows in (zarr, lance))
    findings = [_one_sided(expected[name], "parity-missing", "in zarr, not in lance") for name in expected if name not in got]
    findings += [_one_sided(got[name], "parity-extra", "in lance, not in zarr") for name in got if name not in expected]
    for name, row in expected.items():
        if name in got:
            findings += _differing(row, got[name])
    if not findings and [row.episode_id for row in zarr] != [row.episode_id for row in lance]:
        place = next(place for place, (one, other) in enumerate(zip(zarr, lance, strict=True)) if one.episode_id != other.episode_id)
        message = f"position {place}: episode {zarr[place].episode_id} in zarr, {lance[place].episode_id} in lance. {REBUILD}"
        findings.append(Finding("parity-order", Severity.ERROR, zarr[place].episode_id, message, content=zarr[place].content))
    counts = {"episodes": len(expected), "episodes_lance": len(got), "frames": sum(row.n_frames for row in zarr)}
    return Outcome(counts, tuple(findings))


def _one_sided(row: CatalogRow, code: str, text: str) -> Finding:
    return Finding(code, Severity.ERROR, row.episode_id, f"episode {row.episode_id}: {text}. {REBUILD}", content=row.content)


def _differing(expected: CatalogRow, got: CatalogRow) -> list[Finding]:
    found = []
    for field in fields(CatalogRow):
        one, other = getattr(expected, field.name), getattr(got, field.name)
        if one != other:
            message = f"episode {expected.episode_id}: {field.name} is {one!r:.80} in zarr, {other!r:.80} in lance. {REBUILD}"
            found.append(
                Finding(
                    "parity-catalog", Severity.ERROR, expected.episode_id, message, field.name,
                    expected=str(one), got=str(other), content=expected.content,
                )
            )  # fmt: skip
    return found
