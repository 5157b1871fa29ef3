"""The week of a lab on a real instance with daemon and webserver: everything that happens by itself, and what people do about it."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from egodata.catalog import load_dataset
from egodata.cli.main import cli, run
from egodata.schema.layout import StorePaths, open_root
from pipelines.history import read_history
from pipelines.instance import open_instance
from pipelines.remote import ask
from pipelines.state import AssetState
from tests.e2e.kills import kill_often
from tests.e2e.served import deliver, egopipe, state, status, up, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3000)]
AUTOMATIC = {"EGO_SETTLE_S": "1", "EGO_EXECUTOR": "in_process"}
EPISODES, LONG_S = 8, 600


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    root = tmp_path_factory.mktemp("week") / "store"
    open_root(root, create=True)
    with up(root, "--automate", env=AUTOMATIC) as address:
        yield root, address


def asset(root: Path, name: str) -> AssetState:
    return state(root, name)


def events(root: Path, name: str) -> list[dg.EventLogRecord]:
    with open_instance(open_root(root)) as instance:
        return list(instance.fetch_materializations(dg.AssetKey(name), limit=500).records)


def proven(root: Path) -> bool:
    tables, parity = state(root, "lance_v2"), state(root, "parity_report")
    return parity.materialized == 1 and not tables.stale and not parity.stale


def test_a_delivery_becomes_proven_tables_by_itself(served: tuple[Path, str]) -> None:
    root, _ = served
    _, ids = deliver(root, episodes=EPISODES, fault="truncated-video:2")
    wait_until(lambda: asset(root, "episode_zarr").materialized == EPISODES - 1, "built by the sensor", timeout_s=LONG_S)
    assert len(asset(root, "episode_zarr").failed) == 1
    wait_until(lambda: proven(root), "tables and parity by the sensor", timeout_s=LONG_S)
    wait_until(lambda: asset(root, "episode_calibration").materialized == EPISODES - 1, "attached by the sensor", timeout_s=LONG_S)
    assert len({record.partition_key for record in events(root, "episode_zarr")}) == len(events(root, "episode_zarr")) == EPISODES - 1
    notices = (open_root(root).reports / "failed_runs.jsonl").read_text().splitlines()
    (reason,) = json.loads(notices[0])["reasons"]
    assert reason.startswith(f"1 of {EPISODES} partitions failed")
    assert "not a readable video" in reason
    assert len(ids) == EPISODES


def test_a_correction_is_rebuilt_once_and_everything_follows(served: tuple[Path, str]) -> None:
    root, _ = served
    before = len(events(root, "episode_zarr"))
    deliver(root, episodes=EPISODES)  # whole files, into the same folder
    wait_until(lambda: asset(root, "episode_zarr").materialized == EPISODES, "rebuilt by the sensor", timeout_s=LONG_S)
    wait_until(lambda: proven(root), "refreshed", timeout_s=LONG_S)
    wait_until(lambda: not unfinished(root), "quiet again", timeout_s=LONG_S)
    assert len(events(root, "episode_zarr")) == before + 1
    assert status(root)["assets"]["episode_zarr"]["failed"] == {}


def unfinished(root: Path) -> bool:
    with open_instance(open_root(root)) as instance:
        waiting = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]
        return bool(instance.get_runs_count(dg.RunsFilter(statuses=waiting)))


def damage(paths: StorePaths) -> tuple[str, Path]:
    """Change one byte of one episode's video in the zarr store; a copy of the good file lies beside the store."""
    episode = sorted(path.name.removesuffix(".zarr") for path in paths.zarr.glob("*.zarr"))[0]
    file = max((path for path in paths.episode_link(episode).resolve().rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    kept = paths.root.parent / "kept"
    shutil.copyfile(file, kept)
    body = bytearray(file.read_bytes())
    body[len(body) // 2] ^= 0xFF
    replacement = file.with_name("changed")
    replacement.write_bytes(body)
    os.replace(replacement, file)
    return episode, file


def test_failing_parity_blocks_the_freeze_until_it_is_waived_or_resolved(served: tuple[Path, str]) -> None:
    root, address = served
    paths = open_root(root)
    episode, file = damage(paths)
    egopipe("materialize", "parity_report", "--store", str(root))
    refused = egopipe("backfill", "dataset", "--partition", "synthetic--v1", "--store", str(root))
    assert refused.returncode == 1
    assert address in refused.stdout
    assert not paths.manifest("synthetic", "v1").exists()
    findings = [json.loads(path.read_text()) for path in (paths.reports / "gates").glob("*.json")]
    assert [finding["episode"] for finding in findings] == [episode]
    reason = next(iter(status(root)["assets"]["dataset"]["failed"].values()))
    assert "1 of 8 episodes did not pass content parity" in reason and findings[0]["id"] in reason

    assert run(cli, ["waive", str(root), findings[0]["id"], "--reason", "one changed byte, looked at"], program="egodata") == 0
    waived = egopipe("backfill", "dataset", "--partition", "synthetic--v1", "--store", str(root))
    assert waived.returncode == 0, waived.stdout
    (waiver,) = load_dataset(paths, "synthetic@v1").provenance["waivers"]
    assert (waiver["id"], waiver["episode"], waiver["reason"]) == (findings[0]["id"], episode, "one changed byte, looked at")

    assert run(cli, ["waive", str(root), findings[0]["id"], "--withdraw", "--reason", "repaired"], program="egodata") == 0
    os.replace(paths.root.parent / "kept", file)  # resolved
    assert egopipe("materialize", "parity_report", "--store", str(root)).returncode == 0
    again = egopipe("backfill", "dataset", "--partition", "synthetic--v2", "--store", str(root))
    assert again.returncode == 0, again.stdout
    provenance = load_dataset(paths, "synthetic@v2").provenance
    assert "waivers" not in provenance
    assert provenance["made_from"]["lance_v2"]["data_version"]
    said = [row["passed"] for row in read_history(paths, asset="parity_report") if row["check"] == "parity_content"]
    assert said[-2:] == [False, True]  # every verdict is kept


def test_a_run_from_elsewhere_is_reported_and_lineage_goes_both_ways(served: tuple[Path, str]) -> None:
    root, _ = served
    paths = open_root(root)
    key = "synthetic--v2--human_wrist6d"
    for name in ("norm_stats", "loader_parity"):
        done = egopipe("backfill", name, "--partition", key, "--store", str(root))
        assert done.returncode == 0, done.stdout
    train(root, "elsewhere")
    wait_until(lambda: bool(events(root, "training_run")), "the run trained elsewhere", timeout_s=120)
    found = events(root, "training_run")[0].asset_materialization
    assert found is not None
    manifest = load_dataset(paths, "synthetic@v2")
    assert found.metadata["dataset_digest"].value == manifest.digest
    assert found.metadata["started"].value == "outside Dagster"

    copied = root.parent / "copied.ckpt"
    shutil.copyfile(paths.runs / "elsewhere" / "checkpoints" / "last.ckpt", copied)
    for checkpoint in (paths.runs / "elsewhere", copied):
        told = egopipe("lineage", str(checkpoint), "--store", str(root), "--json")
        assert told.returncode == 0, told.stderr
        origin = json.loads(told.stdout.splitlines()[-1])
        assert origin["dataset"]["digest"] == manifest.digest
        assert origin["problems"] == []
        assert origin["parity"] == {"content": {"passed": 8}, "loader": {"human_wrist6d": origin["parity"]["loader"]["human_wrist6d"]}}
        assert len(origin["episodes"]) == 8
        first = origin["episodes"][0]
        entry = json.loads((paths.ledger / "ingest" / f"{first['recording_id']}.json").read_text())
        assert (first["raw"], first["uri"], first["converter"]) == (entry["raw"], entry["uri"], entry["converter"])
    back = json.loads(egopipe("lineage", "--episode", first["episode_id"], "--store", str(root), "--json").stdout.splitlines()[-1])
    assert {use["dataset"] for use in back["datasets"]} == {"synthetic@v1", "synthetic@v2"}
    assert [run["run"] for run in back["runs"]] == ["elsewhere"]


def test_another_dataset_version_leaves_statistics_and_loader_parity_fresh(served: tuple[Path, str]) -> None:
    root, address = served
    done = egopipe("backfill", "dataset", "--partition", "synthetic--v3", "--store", str(root))
    assert done.returncode == 0, done.stdout
    wanted = "assetNodeOrError(assetKey: $key) { ... on AssetNode { staleStatus(partition: $part) } }"
    query = f"query($key: AssetKeyInput!, $part: String) {{ {wanted} }}"
    for name in ("norm_stats", "loader_parity"):
        asked = {"key": {"path": [name]}, "part": "synthetic--v2--human_wrist6d"}
        assert ask(address, query, variables=asked)["assetNodeOrError"] == {"staleStatus": "FRESH"}


def train(root: Path, run: str) -> None:
    import subprocess
    import sys

    words = {"experiment": "synthetic", "store": root, "dataset": "synthetic@v2", "recipe": "human_wrist6d", "run": run}
    brief = ["trainer.max_steps=2", "evaluation.samples_per_head=4", "data.batch_size=4"]
    command = [sys.executable, "-m", "egotrain", "fit", *(f"{key}={value}" for key, value in words.items()), *brief]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr


def test_kills_in_the_middle_of_backfills_lose_nothing_and_build_nothing_twice(tmp_path: Path) -> None:
    for seen in kill_often(tmp_path, kills=int(os.environ.get("EGO_KILLS", "3"))):
        assert seen.materialized == seen.partitions
        assert seen.built_twice == []
        assert seen.damaged == []
