"""Jobs that sensors and schedules start."""

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from pipelines.assets.ingest import EPISODE_ANNOTATIONS, EPISODE_CALIBRATION, EPISODE_ZARR
from pipelines.assets.tables import LANCE_V2, PARITY_REPORT


def _job(name: str, *keys: dg.AssetKey, description: str) -> UnresolvedAssetJobDefinition:
    return dg.define_asset_job(
        name,
        selection=dg.AssetSelection.assets(*keys),
        description=description,
    )


build_episodes = _job("build_episodes", EPISODE_ZARR, description="Build recordings.")
attach_annotations = _job("attach_annotations", EPISODE_ANNOTATIONS, description="Attach delivered annotations.")
attach_calibration = _job("attach_calibration", EPISODE_CALIBRATION, description="Attach delivered calibration.")
refresh_tables = _job("refresh_tables", LANCE_V2, PARITY_REPORT, description="Lance copy, then parity of what is new.")
parity_sample = _job("parity_sample", PARITY_REPORT, description="Parity of a sample.")

JOBS = [build_episodes, attach_annotations, attach_calibration, refresh_tables, parity_sample]
