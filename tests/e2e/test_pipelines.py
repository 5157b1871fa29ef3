"""Assets on a persistent instance: batches tell the truth, discovery is idempotent, gates hold, the server stops cleanly."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from egodata.catalog import freeze, load_dataset, load_rule
from egodata.catalog.rows import catalog_from_store
from egodata.cli.main import cli, run
from egodata.errors import GateError
from egodata.formats import open_store
from egodata.formats.lance import build_lance
from egodata.schema.layout import StorePaths, open_root
from egodata.testing.world import WorldOptions, write_delivery
from pipelines.assets.datasets import DATASET, NORM_STATS
from pipelines.assets.ingest import EPISODE_ANNOTATIONS, EPISODE_CALIBRATION, EPISODE_ZARR
from pipelines.assets.tables import LANCE_V2, PARITY_REPORT
from pipelines.assets.training import TRAINING_RUN
from pipelines.definitions import defs
from pipelines.deliveries import Delivery, register
from pipelines.due import table_state
from pipelines.episode_checks import EPISODE_CHECKS
from pipelines.events import latest_versions
from pipelines.executors import EXECUTOR_VARIABLE
from pipelines.instance import open_instance
from pipelines.launch import Launcher
from pipelines.partitions import RECORDINGS
from pipelines.resources import STORE_VARIABLE, StoreResource
from pipelines.sensors import build_new, discovery
from pipelines.units import SHARD_ABOVE_VARIABLE
from pipelines.uploads import SETTLE_VARIABLE
from pipelines.work import run_partitions
from tests.e2e import served
from tests.unit.ingest.earlier import CONVERTER, earlier

SMALL = {"operators": 2, "size": (64, 64), "seed": 5, "fps": 10}


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StorePaths:
    paths = open_root(tmp_path / "store", create=True)
    monkeypatch.setenv(STORE_VARIABLE, str(paths.root))
    monkeypatch.setenv(SETTLE_VARIABLE, "0")
    monkeypatch.setenv(EXECUTOR_VARIABLE, "in_process")
    return paths


@pytest.fixture
def instance(paths: StorePaths) -> Iterator[dg.DagsterInstance]:
    with open_instance(paths) as instance:
        yield instance


def evaluations(instance: dg.DagsterInstance) -> dict[str, tuple[str, int, int]]:
    """Return by check of the episodes: status of its last record in Dagster, how many verdicts it sums up, how many of them say no."""
    keys = [dg.AssetCheckKey(EPISODE_ZARR, name) for name in EPISODE_CHECKS]
    found = {}
    for key, record in instance.event_log_storage.get_latest_asset_check_execution_by_key(keys).items():
        evaluation = record.event.dagster_event.event_specific_data
        seen = evaluation.metadata if isinstance(evaluation, dg.AssetCheckEvaluation) else None
        counts = (-1, -1) if seen is None else (seen["looked_at"].value, seen["failed"].value)
        found[key.name] = (record.status.value, *counts)
    return found


def deliver(paths: StorePaths, *, episodes: int, fault: str | None = None) -> tuple[str, ...]:
    raw = paths.raw / "mecka" / "monday"
    summary = write_delivery(raw, WorldOptions(episodes=episodes, fault=fault, **SMALL))
    register(paths, Delivery(vendor="mecka", raw=str(raw)))
    return summary.episodes


def look(instance: dg.DagsterInstance, cursor: list[str | None] | None = None) -> dg.SensorResult | dg.SkipReason:
    """Evaluate the discovery sensor and do what it asks, as the daemon would: twice, so that news settle, or once with a cursor kept."""
    if cursor is None:
        remembered: list[str | None] = [None]
        look(instance, remembered)
        return look(instance, remembered)
    context = dg.build_sensor_context(instance=instance, resources={"store": StoreResource()}, definitions=defs, cursor=cursor[0])
    result = discovery(context)
    assert isinstance(result, (dg.SensorResult, dg.SkipReason))
    cursor[0] = context.cursor
    if isinstance(result, dg.SensorResult):
        for request in result.dynamic_partitions_requests or []:
            instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
        for event in result.asset_events:
            instance.report_runless_asset_event(event)
    return result


def statuses(instance: dg.DagsterInstance, ids: tuple[str, ...]) -> dict[str, str]:
    found = instance.get_status_by_partition(EPISODE_ZARR, list(ids), RECORDINGS) or {}
    return {recording: status.value for recording, status in found.items() if status is not None}


def test_discovery_reports_what_is_new_once(paths: StorePaths, instance: dg.DagsterInstance) -> None:
    ids = deliver(paths, episodes=3)
    first = look(instance)
    assert isinstance(first, dg.SensorResult)
    assert sorted(instance.get_dynamic_partitions("recordings")) == sorted(ids)
    assert {event.partition for event in first.asset_events} == set(ids)
    assert isinstance(look(instance), dg.SkipReason)

    frames = paths.raw / "mecka" / "monday" / ids[1] / "frames.csv"
    frames.write_bytes(frames.read_bytes() + b"\n")
    again = look(instance)
    assert isinstance(again, dg.SensorResult)
    assert [event.partition for event in again.asset_events] == [ids[1]]


def test_a_delivery_that_is_still_arriving_waits(paths: StorePaths, instance: dg.DagsterInstance) -> None:
    cursor: list[str | None] = [None]
    ids = deliver(paths, episodes=2)
    assert isinstance(look(instance, cursor), dg.SkipReason)  # seen once: it may still grow
    more = deliver(paths, episodes=3)
    waiting = look(instance, cursor)
    assert isinstance(waiting, dg.SkipReason)
    assert "still arriving" in str(waiting.skip_message)
    assert instance.get_dynamic_partitions("recordings") == []
    done = look(instance, cursor)
    assert isinstance(done, dg.SensorResult)
    assert {event.partition for event in done.asset_events} == set(more) > set(ids)
    assert len(cursor[0] or "") < 100


def due(instance: dg.DagsterInstance) -> list[tuple[str, str]]:
    """Return the ranges for which the sensor asks for runs."""
    result = build_new(dg.build_sensor_context(instance=instance, definitions=defs))
    if isinstance(result, dg.SkipReason):
        return []
    return [tuple(request.tags[f"dagster/asset_partition_range_{end}"] for end in ("start", "end")) for request in result.run_requests]


@pytest.mark.timeout(300)
def test_a_correction_makes_exactly_its_own_downstream_stale_and_is_rebuilt_once(paths: StorePaths, instance: dg.DagsterInstance) -> None:
    ids = sorted(deliver(paths, episodes=3, fault="truncated-video:0"))
    look(instance)
    launcher = Launcher(instance)
    assert due(instance) == [(ids[0], ids[2])]
    for key in (EPISODE_ZARR, EPISODE_ANNOTATIONS, EPISODE_CALIBRATION):
        launcher.partitions(key, RECORDINGS, keys=ids)
    (broken,) = [recording for recording, found in statuses(instance, tuple(ids)).items() if found == "FAILED"]
    assert due(instance) == []  # what was set aside waits for other bytes
    good = [recording for recording in ids if recording != broken]
    assert {recording: stale(instance, EPISODE_ZARR, recording) for recording in good} == dict.fromkeys(good, "FRESH")
    before = contents(paths, good)

    annotations = next(path for recording in good for path in (paths.raw / "mecka" / "monday" / recording).glob("*annot*"))
    corrected = annotations.parent.name
    (other,) = [recording for recording in good if recording != corrected]
    annotations.write_text("\n".join(annotations.read_text().splitlines()[:2]) + "\n")
    assert isinstance(look(instance), dg.SensorResult)
    for key in (EPISODE_ZARR, EPISODE_ANNOTATIONS, EPISODE_CALIBRATION):
        assert stale(instance, key, corrected) == "STALE"
        assert stale(instance, key, other) == "FRESH"
    assert due(instance) == [(corrected, corrected)]
    for key in (EPISODE_ZARR, EPISODE_ANNOTATIONS, EPISODE_CALIBRATION):
        assert launcher.partitions(key, RECORDINGS, keys=[corrected]) == 0
        assert stale(instance, key, corrected) == "FRESH"
    assert due(instance) == []
    after = contents(paths, good)
    assert after[other] == before[other]
    assert after[corrected] != before[corrected]
    versions = [path.name[:16] for path in paths.episode_versions(corrected).iterdir() if not path.name.startswith(".")]
    assert sorted(versions) == sorted([before[corrected][:16], after[corrected][:16]])  # built once more; the old content is still there

    os.utime(annotations)  # equal bytes: seen, skipped by digest, and fresh again
    look(instance)
    assert stale(instance, EPISODE_ZARR, corrected) == "STALE"
    assert launcher.partitions(EPISODE_ZARR, RECORDINGS, keys=[corrected]) == 0
    assert stale(instance, EPISODE_ZARR, corrected) == "FRESH"
    assert contents(paths, good) == after


def contents(paths: StorePaths, ids: list[str]) -> dict[str, str]:
    return {row.episode_id: row.content for row in catalog_from_store(open_store(paths, "zarr")) if row.episode_id in ids}


def stale(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str) -> str:
    """Return Dagster's own verdict on a partition, as the UI shows it."""
    graph = defs.resolve_asset_graph()
    resolver = CachingStaleStatusResolver(instance=instance, asset_graph=graph, loading_context=LoadingContextForTest(instance))
    return resolver.get_status(key, partition).value


@pytest.mark.timeout(300)
def test_exactly_the_failed_partition_fails_and_a_rerun_after_repair_does_only_that_one(
    paths: StorePaths, instance: dg.DagsterInstance
) -> None:
    ids = deliver(paths, episodes=3, fault="truncated-video:1")
    look(instance)
    launcher = Launcher(instance)
    assert launcher.partitions(EPISODE_ZARR, RECORDINGS, keys=ids) == 1
    assert statuses(instance, ids) == {ids[0]: "MATERIALIZED", ids[1]: "FAILED", ids[2]: "MATERIALIZED"}
    assert paths.quarantine("mecka", "monday", ids[1]).exists()
    (page,) = (paths.reports / "ingest").glob("monday-*.html")
    assert ids[1] in page.read_text() and "video-unreadable" in page.read_text()
    before = instance.get_latest_storage_id_by_partition(EPISODE_ZARR, dg.DagsterEventType.ASSET_MATERIALIZATION)
    # Dagster skips the steps of the checks: the batch gives the verdicts on what was built, also when a recording failed.
    assert evaluations(instance) == dict.fromkeys(EPISODE_CHECKS, ("SUCCEEDED", 2, 0))

    deliver(paths, episodes=3)  # the vendor sends the whole file
    assert isinstance(look(instance), dg.SensorResult)
    assert launcher.partitions(EPISODE_ZARR, RECORDINGS, keys=[ids[1]]) == 0
    after = instance.get_latest_storage_id_by_partition(EPISODE_ZARR, dg.DagsterEventType.ASSET_MATERIALIZATION)
    assert set(after) == set(ids)
    assert {recording: after[recording] for recording in before} == dict(before)
    assert statuses(instance, ids) == dict.fromkeys(ids, "MATERIALIZED")
    without_texts = {"annotation_coverage": ("FAILED", 3, 1)}  # what was repaired has none, which stops nothing
    assert evaluations(instance) == dict.fromkeys(EPISODE_CHECKS, ("SUCCEEDED", 3, 0)) | without_texts
    assert not paths.quarantine("mecka", "monday", ids[1]).exists()

    assert launcher.partitions(EPISODE_ANNOTATIONS, RECORDINGS, keys=ids) == 0
    event = instance.fetch_materializations(EPISODE_ANNOTATIONS, limit=1).records[0].asset_materialization
    assert event is not None
    assert event.metadata["changed"].value == 0  # ingest attached them already


@pytest.mark.timeout(300)
def test_a_shard_with_a_broken_recording_fails_names_it_and_keeps_the_others(
    paths: StorePaths, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SHARD_ABOVE_VARIABLE, "2")
    ids = deliver(paths, episodes=3, fault="truncated-video:1")
    look(instance)
    (shard,) = instance.get_dynamic_partitions("recordings")
    asked = run_partitions(instance, paths, key=EPISODE_ZARR, partitions=[shard])
    (reason,) = asked.failed.values()
    assert "1 of 3 recordings" in reason
    assert [recording for recording in ids if recording in reason] == [ids[1]]
    assert set(open_store(paths, "zarr").episode_ids()) == {ids[0], ids[2]}


@pytest.mark.timeout(300)
def test_what_was_migrated_outside_shows_as_new_content(
    paths: StorePaths, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = deliver(paths, episodes=2)
    look(instance)
    launcher = Launcher(instance)
    keys = (EPISODE_ZARR, EPISODE_ANNOTATIONS, EPISODE_CALIBRATION)
    with monkeypatch.context() as patch:
        patch.setattr(CONVERTER, earlier())
        for key in keys:
            assert launcher.partitions(key, RECORDINGS, keys=ids) == 0
    launcher.asset(LANCE_V2)
    before, versions = contents(paths, list(ids)), latest_versions(instance, EPISODE_ZARR)
    assert not table_state(paths).behind
    assert run(cli, ["migrate", str(paths.root), "--workers", "0"], program="egodata") == 0
    assert all(contents(paths, list(ids))[recording] != before[recording] for recording in ids)
    assert due(instance) == []  # its delivery did not change
    assert table_state(paths).behind  # so the tables are made again
    assert launcher.partitions(EPISODE_ZARR, RECORDINGS, keys=ids) == 0  # skipped by digest, and reported
    after = latest_versions(instance, EPISODE_ZARR)
    assert all(after[recording] != versions[recording] for recording in ids)
    for key in keys[1:]:
        assert {stale(instance, key, recording) for recording in ids} == {"STALE"}
        assert launcher.partitions(key, RECORDINGS, keys=ids) == 0
    assert {stale(instance, key, recording) for key in keys for recording in ids} == {"FRESH"}


@pytest.mark.timeout(300)
def test_training_is_not_started_on_a_dataset_without_loader_parity(
    paths: StorePaths, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    ids = deliver(paths, episodes=3)
    look(instance)
    launcher = Launcher(instance)
    assert launcher.partitions(EPISODE_ZARR, RECORDINGS, keys=ids) == 0
    build_lance(paths)
    rule = tmp_path / "mine.yaml"
    rule.write_text("name: mine\nheads: [train, seen]\nvalid_ratio: 0.34\nwhere: {vendor: mecka}\n")
    frozen = freeze(paths, load_rule(str(rule)))
    config = {"run": "r", "experiment": "synthetic", "dataset": frozen.manifest.ref, "recipe": "human_wrist6d"}
    with pytest.raises(GateError, match=r"loader parity under recipe human_wrist6d was never checked.*training was not started"):
        launcher.asset(TRAINING_RUN, config=config)
    assert not (paths.runs / "r").exists()
    (finding,) = (paths.reports / "gates").glob("*.json")
    assert json.loads(finding.read_text())["code"] == "loader-unproven"


@pytest.mark.timeout(300)
def test_a_freeze_waits_for_content_parity(paths: StorePaths, instance: dg.DagsterInstance) -> None:
    ids = deliver(paths, episodes=8)
    look(instance)
    launcher = Launcher(instance)
    assert launcher.partitions(EPISODE_ZARR, RECORDINGS, keys=ids) == 0
    build_lance(paths)
    instance.add_dynamic_partitions("datasets", ["synthetic--v1"])
    with pytest.raises(GateError, match="8 of 8 episodes did not pass content parity"):
        launcher.asset(dg.AssetKey("dataset"), partition="synthetic--v1")
    assert not paths.manifest("synthetic", "v1").exists()
    findings = [json.loads(path.read_text()) for path in sorted((paths.reports / "gates").glob("*.json"))]
    assert {finding["episode"] for finding in findings} == set(ids)

    waive(paths, [finding["id"] for finding in findings[:7]])  # one is left
    with pytest.raises(GateError, match="1 of 8 episodes did not pass content parity"):
        launcher.asset(dg.AssetKey("dataset"), partition="synthetic--v1")
    waive(paths, [finding["id"] for finding in findings[7:]])
    launcher.asset(dg.AssetKey("dataset"), partition="synthetic--v1")
    provenance = load_dataset(paths, "synthetic@v1").provenance
    assert {waiver["reason"] for waiver in provenance["waivers"]} == {"compared by hand"}
    assert len(provenance["waivers"]) == 8
    key = "synthetic--v1--human_wrist6d"
    instance.add_dynamic_partitions("dataset_recipes", [key])
    launcher.asset(NORM_STATS, partition=key)
    event = instance.get_latest_materialization_event(dg.AssetKey("dataset"))
    assert event is not None
    assert provenance["run_id"] == event.run_id

    launcher.asset(PARITY_REPORT)
    instance.add_dynamic_partitions("datasets", ["synthetic--v2"])
    launcher.asset(dg.AssetKey("dataset"), partition="synthetic--v2")
    proven = load_dataset(paths, "synthetic@v2").provenance
    assert "waivers" not in proven
    assert proven["made_from"]["parity_report"]["run_id"]
    assert stale(instance, DATASET, "synthetic--v1") == "STALE"  # its own inputs are newer, and yet it will stay what it is
    assert stale(instance, NORM_STATS, key) == "FRESH"  # another version is nothing to it


def waive(paths: StorePaths, ids: list[str]) -> None:
    for finding in ids:
        assert run(cli, ["waive", str(paths.root), finding, "--reason", "compared by hand"], program="egodata") == 0


@pytest.mark.timeout(400)
def test_the_server_starts_once_backfills_and_stops_on_sigterm_also_in_the_background(tmp_path: Path) -> None:
    root = tmp_path / "store"
    paths, ids = served.deliver(root, episodes=3, fault="truncated-video:1")
    port = str(served.free_port())
    command = [*served.PROGRAM, "up", "--store", str(root), "--port", port]
    given = served.environment({EXECUTOR_VARIABLE: "in_process"})
    # As a shell without job control starts it: SIGINT is ignored.
    server = subprocess.Popen(["sh", "-c", f"trap '' INT; exec {subprocess.list2cmdline(command)}"], env=given, stdout=subprocess.PIPE)
    try:
        served.wait_until(lambda: served.answers(f"http://127.0.0.1:{port}/server_info") or server.poll() is not None, "the webserver")
        second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert second.returncode == 2
        assert "already runs on its Dagster home" in second.stderr
        assert server.poll() is None

        done = served.egopipe("backfill", "episode_zarr", "--store", str(root))
        assert done.returncode == 1
        assert f"2 done, 1 failed (http://127.0.0.1:{port})" in done.stdout
        found = served.status(root)
        assert found["address"] == f"http://127.0.0.1:{port}"
        ((broken, reason),) = found["assets"]["episode_zarr"]["failed"].items()
        assert broken in ids
        assert "not a readable video" in reason
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=90) == 0
    left = subprocess.run(["pgrep", "-f", str(paths.root)], capture_output=True, text=True, check=False).stdout
    assert left == "", left
    assert served.status(root)["address"] is None
