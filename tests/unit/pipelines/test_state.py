"""Reasons of failed partitions: one look at a run, however many of its partitions failed."""

from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import AssetMaterializationPlannedData, DagsterEvent

from egodata.schema.layout import open_root
from pipelines.assets.ingest import EPISODE_ZARR
from pipelines.history import Verdict, keep_verdicts
from pipelines.partitions import RECORDINGS, add_keys
from pipelines.state import failed_partitions

PLANNED = dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED.value


def test_a_run_that_died_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths, keys = open_root(tmp_path / "store", create=True), ["a", "b", "c", "d"]
    with dg.DagsterInstance.ephemeral() as instance:
        add_keys(instance, RECORDINGS, keys=keys)
        run = dg.DagsterRun(job_name="build", status=dg.DagsterRunStatus.STARTED)
        instance.add_run(run)
        for key in keys:
            planned = AssetMaterializationPlannedData(asset_key=EPISODE_ZARR, partition=key)
            instance.report_dagster_event(DagsterEvent(PLANNED, "build", message="planned", event_specific_data=planned), run.run_id)
        instance.report_run_failed(run)
        keep_verdicts(paths, {"b": [Verdict("built", False, "no video", blocking=True)]}, asset="episode_zarr", run_id=run.run_id)
        read: list[str] = []
        real = instance.all_logs
        monkeypatch.setattr(instance, "all_logs", lambda run_id, **more: read.append(run_id) or real(run_id, **more))
        reasons = failed_partitions(instance, paths, key=EPISODE_ZARR, definition=RECORDINGS)
    assert set(reasons) == set(keys)
    assert reasons["b"] == "no video"
    assert {reasons[key] for key in "acd"} == {f"run {run.run_id} failed before its assets began; see it in the UI"}
    assert read == [run.run_id]
