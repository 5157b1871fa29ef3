"""What must be proven before a dataset is frozen and before training starts, read from the parity table."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import dagster as dg

from egodata.catalog import Manifest
from egodata.catalog.rows import catalog_from_lance, catalog_from_store
from egodata.errors import NotFoundError
from egodata.findings import Finding, Severity
from egodata.findings.waivers import read_waivers
from egodata.formats import open_store
from egodata.formats.lance import video_kind
from egodata.parity import latest, proves, unproven
from egodata.schema.layout import StorePaths
from pipelines.metadata import findings_table
from pipelines.waivers import keep_gate_findings

SHOWN = 5


def content_parity_needed(paths: StorePaths) -> bool:
    """Say whether a zarr episode is missing in the Lance copy, or not yet proven equal at its present content."""
    published = [(row.episode_id, row.content) for row in catalog_from_store(open_store(paths, "zarr"))]
    try:
        copied = [(row.episode_id, row.content) for row in catalog_from_lance(paths)]
    except NotFoundError:
        return True
    return published != copied or bool(unproven(paths, published))


def require_content_parity(paths: StorePaths, manifest: Manifest) -> dict[str, Any]:
    """Refuse to freeze episodes whose present content did not pass content parity, unless each of them is waived.

    Args:
        paths: The store.
        manifest: What is about to be frozen.

    Returns:
        The waivers that were used, for the manifest's provenance.

    Raises:
        Failure: Naming the first of them and the ids of their findings.
    """
    members = [episode for head in manifest.heads.values() for episode in head]
    contents = {episode.episode_id: episode.content for episode in members}
    findings = [
        Finding(
            "content-unproven",
            Severity.ERROR,
            episode_id,
            f"episode {episode_id}: its content {contents[episode_id][:16]} did not pass content parity",
            stream="parity/content",
            content=contents[episode_id],
        )
        for episode_id in unproven(paths, list(contents.items()))
    ]
    advice = "Materialise parity_report; if it fails, materialise lance_v2 again and look at its findings"
    headline = f"of {len(contents)} episodes did not pass content parity"
    return _answered(paths, findings, gate=f"freeze of {manifest.ref}", headline=headline, advice=advice)


def _answered(paths: StorePaths, findings: Sequence[Finding], *, gate: str, headline: str, advice: str) -> dict[str, Any]:
    """Return the waivers that answer every finding, or refuse."""
    known = read_waivers(paths.ledger) if findings else {}
    left = [finding for finding in findings if finding.id not in known]
    if left:
        keep_gate_findings(paths, left, gate=gate)
        named = ", ".join(f"{finding.episode} (finding {finding.id})" for finding in left[:SHOWN])
        more = f" and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
        raise dg.Failure(
            description=f"{len(left)} {headline}: {named}{more}. {advice}; or waive it with `egodata waive STORE FINDING --reason ...`.",
            metadata={"blocked": gate, "findings": findings_table(left)},
            allow_retries=False,
        )
    return {"waivers": [asdict(known[finding.id]) for finding in findings]} if findings else {}


def _loader_verdicts(paths: StorePaths, manifest: Manifest) -> dict[str, bool]:
    rows = [row for row in latest(paths, "loader") if row["dataset_digest"] == manifest.digest]
    video = video_kind(paths) if rows else ""
    return {row["recipe"]: proves(row, video=video) for row in rows}


def loader_parity_needed(paths: StorePaths, manifest: Manifest, *, recipe: str) -> bool:
    """Say whether loader parity of a dataset under a recipe was never checked or failed."""
    return not _loader_verdicts(paths, manifest).get(recipe, False)


def require_loader_parity(paths: StorePaths, manifest: Manifest, *, recipe: str) -> dict[str, Any]:
    """Refuse to train on a dataset whose loader parity failed or was never checked, unless that is waived.

    Returns:
        The waiver that was used, if any.

    Raises:
        Failure: Saying which, and the id of the finding.
    """
    if not loader_parity_needed(paths, manifest, recipe=recipe):
        return {}
    known = recipe in _loader_verdicts(paths, manifest)
    headline = f"dataset: loader parity under recipe {recipe} {'failed' if known else 'was never checked'}"
    finding = Finding(
        "loader-unproven",
        Severity.ERROR,
        manifest.ref,
        f"dataset {manifest.ref}: {headline.partition(': ')[2]}",
        stream=f"parity/loader/{recipe}",
        content=manifest.digest,
    )
    advice = f"Materialise loader_parity for partition {manifest.name}--{manifest.version}--{recipe}; training was not started"
    return _answered(paths, [finding], gate=f"training on {manifest.ref}", headline=headline, advice=advice)
