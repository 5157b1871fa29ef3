"""The code location: everything that Dagster loads."""

import dagster as dg

from pipelines.assets.datasets import dataset, loader_parity, norm_stats_asset
from pipelines.assets.ingest import episode_annotations, episode_calibration, episode_zarr
from pipelines.assets.raw import raw_episode
from pipelines.assets.tables import lance_v2, parity_report
from pipelines.assets.training import training_run
from pipelines.checks import CHECKS
from pipelines.jobs import JOBS
from pipelines.resources import StoreResource
from pipelines.sensors import SCHEDULES, SENSORS

defs = dg.Definitions(
    assets=[
        raw_episode,
        episode_zarr,
        episode_annotations,
        episode_calibration,
        lance_v2,
        parity_report,
        dataset,
        norm_stats_asset,
        loader_parity,
        training_run,
    ],
    asset_checks=CHECKS,
    jobs=JOBS,
    sensors=SENSORS,
    schedules=SCHEDULES,
    executor=dg.in_process_executor,
    resources={"store": StoreResource(), "pipes": dg.PipesSubprocessClient()},
)
