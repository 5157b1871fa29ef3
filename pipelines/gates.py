"""What must be proven before a dataset is frozen and before training starts, read from the parity table."""

import dagster as dg

from egodata.catalog import DatasetRule, Manifest, build_manifest
from egodata.catalog.known import load_known
from egodata.catalog.rows import catalog_from_lance, catalog_from_store
from egodata.errors import NotFoundError
from egodata.formats import open_store
from egodata.parity import latest, unproven
from egodata.schema.layout import StorePaths

SHOWN = 5


def content_parity_needed(paths: StorePaths) -> bool:
    """Say whether a zarr episode is missing in the Lance copy, or not yet proven equal at its present content."""
    published = [(row.episode_id, row.content) for row in catalog_from_store(open_store(paths, "zarr"))]
    try:
        copied = [(row.episode_id, row.content) for row in catalog_from_lance(paths)]
    except NotFoundError:
        return True
    return published != copied or bool(unproven(paths, published))


def require_content_parity(paths: StorePaths, rule: DatasetRule) -> None:
    """Refuse to freeze episodes whose present content did not pass content parity.

    Raises:
        Failure: Naming the first of them.
    """
    members = build_manifest(load_known(paths).overlay(catalog_from_lance(paths)), rule, provenance={})
    wanted = [(episode.episode_id, episode.content) for head in members.heads.values() for episode in head]
    missing = unproven(paths, wanted)
    if missing:
        more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
        raise dg.Failure(
            description=f"{len(missing)} of {len(wanted)} episodes did not pass content parity: {', '.join(missing[:SHOWN])}{more}. "
            "Materialise parity_report; if it fails, materialise lance_v2 again and look at its findings.",
            allow_retries=False,
        )


def _loader_verdicts(paths: StorePaths, manifest: Manifest) -> dict[str, bool]:
    return {row["recipe"]: bool(row["passed"]) for row in latest(paths, "loader") if row["dataset_digest"] == manifest.digest}


def loader_parity_needed(paths: StorePaths, manifest: Manifest, *, recipe: str) -> bool:
    """Say whether loader parity of a dataset under a recipe was never checked or failed."""
    return not _loader_verdicts(paths, manifest).get(recipe, False)


def require_loader_parity(paths: StorePaths, manifest: Manifest, *, recipe: str) -> None:
    """Refuse to train on a dataset whose loader parity failed or was never checked.

    Raises:
        Failure: Saying which.
    """
    if loader_parity_needed(paths, manifest, recipe=recipe):
        known = recipe in _loader_verdicts(paths, manifest)
        raise dg.Failure(
            description=f"dataset {manifest.ref}: loader parity under recipe {recipe} {'failed' if known else 'was never checked'}. "
            f"Materialise loader_parity for partition {manifest.name}--{manifest.version}--{recipe}; training was not started.",
            allow_retries=False,
        )
