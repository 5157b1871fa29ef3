"""`egopipe quickstart`: one delivery to two trained policies, on generated and on real input."""

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from egodata.schema.layout import open_root
from pipelines.instance import open_instance

ASSETS = (
    "episode_zarr",
    "episode_annotations",
    "episode_calibration",
    "lance_v2",
    "dataset",
    "norm_stats",
    "parity_report",
    "training_run",
)
SMALL = ("--steps", "3", "--set", "evaluation.samples_per_head=8", "--set", "data.batch_size=8")


def quickstart(store: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "DAGSTER_DISABLE_TELEMETRY": "1"}
    command = [sys.executable, "-c", "from pipelines.cli import main; main()", "quickstart", "--store", str(store), *SMALL, *options]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)


def materialisations(store: Path) -> dict[str, int]:
    with open_instance(open_root(store)) as instance:
        return {name: len(instance.fetch_materializations(dg.AssetKey(name), limit=1000).records) for name in ASSETS}


def assert_trained_equally(output: str) -> None:
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in output.splitlines() if line.startswith("│")]
    losses = {row[0]: row[3] for row in rows if row[-1] in ("equal", "DIFFERENT")}
    assert {"train", "validation seen"} <= set(losses)
    assert set(losses.values()) == {"equal"}
    for level in ("catalog", "content", "loader"):
        assert any(level in line and "passed" in line for line in output.splitlines()), level


@pytest.mark.timeout(600)
def test_generated_delivery_becomes_two_equal_policies_and_nothing_is_done_twice(tmp_path: Path) -> None:
    store = tmp_path / "store"
    first = quickstart(store, "--episodes", "7")
    assert first.returncode == 0, first.stderr[-3000:]
    assert_trained_equally(first.stdout)
    before = materialisations(store)
    assert before["episode_zarr"] == before["episode_annotations"] == before["episode_calibration"] == 7
    assert before["training_run"] == 2

    with open_instance(open_root(store)) as instance:
        newest = instance.fetch_materializations(dg.AssetKey("episode_zarr"), limit=1).records[0].asset_materialization
    assert newest is not None
    assert "data:image/png;base64," in str(newest.metadata["preview"].value)

    second = quickstart(store, "--episodes", "7")
    assert second.returncode == 0, second.stderr[-3000:]
    assert "already done before, not done again: " in second.stdout
    assert_trained_equally(second.stdout)
    assert materialisations(store) == before


@pytest.mark.realdata
@pytest.mark.timeout(600)
def test_real_joint_robot_episodes_become_two_equal_policies(tmp_path: Path, shared_data: Path) -> None:
    store = tmp_path / "store"
    done = quickstart(store, "--raw", str(shared_data / "lerobot_v21_g1"), "--vendor", "lerobot")
    assert done.returncode == 0, done.stderr[-3000:]
    assert_trained_equally(done.stdout)
    built, absent = (next(line for line in done.stdout.splitlines() if word in line) for word in ("│ built", "│ absent"))
    assert built.split("│")[2].strip() == "4"
    assert absent.split("│")[2].strip() == "96"
    assert materialisations(store)["training_run"] == 2
