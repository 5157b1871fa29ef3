"""SIGKILL of run worker, daemon and webserver in the middle of backfills; afterwards everything is there, once.

As a program it writes what it saw: ``python tests/e2e/kills.py FOLDER [--kills 20]``.
"""

import argparse
import json
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from egodata.formats.zarr import verify_episode
from egodata.schema.layout import StorePaths
from egodata.testing.world import WorldOptions, write_delivery
from pipelines import remote
from pipelines.instance import open_instance
from pipelines.leftovers import leftovers
from pipelines.partitions import RECORDINGS
from tests.e2e.served import egopipe, up, wait_until

KEY = dg.AssetKey("episode_zarr")
TARGETS = ("run worker", "daemon", "webserver")
PER_BACKFILL = 5
EPISODES = 18


@dataclass
class Seen:
    """What one round came to."""

    kills: list[str] = field(default_factory=list)
    wall_s: float = 0.0
    partitions: int = 0
    materialized: int = 0
    built_twice: list[str] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    runs: dict[str, int] = field(default_factory=dict)


def _words(pid: int) -> str:
    return (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode()


def _parent(pid: int) -> int:
    return int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])


def find(paths: StorePaths, target: str) -> int | None:
    """Return the process id of a service, or of a run that works now."""
    found = {}
    for pid in leftovers(str(paths.dagster)):
        try:
            found[pid] = (_words(pid), _parent(pid))
        except OSError:
            continue
    code = [pid for pid, (words, _) in found.items() if "api grpc" in words]
    wanted = {
        "daemon": lambda words, _: "dagster._daemon" in words,
        "webserver": lambda words, _: "dagster_webserver" in words,
        "run worker": lambda words, parent: "spawn_main" in words and parent in code,
    }[target]
    return next((pid for pid, (words, parent) in found.items() if wanted(words, parent)), None)


def round_of_kills(root: Path, address: str, paths: StorePaths, *, number: int, targets: list[str]) -> Seen:
    """Deliver, start a backfill, kill one process after the other while it goes on, and look at what is there."""
    raw = paths.raw / "mecka" / f"round-{number}"
    world = WorldOptions(operators=2, episodes=EPISODES, seed=100 + number, size=(64, 64), fps=10)
    ids = sorted(write_delivery(raw, world).episodes)
    assert egopipe("watch", str(raw), "--vendor", "mecka", "--store", str(root)).returncode == 0
    seen, begun = Seen(partitions=len(ids)), time.monotonic()
    with open_instance(paths) as instance:
        backfill = remote.backfill(address, [KEY], partitions=ids, title=f"round {number}")
        for target in targets:
            before = _done(instance, ids)
            wait_until(lambda: (_done(instance, ids) > before and find(paths, target) is not None) or _over(instance, backfill), target)
            assert not _over(instance, backfill), f"the backfill ended before {target} could be killed; deliver more episodes"
            pid = find(paths, target)
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            seen.kills.append(f"{target} at {_done(instance, ids)} of {len(ids)}")
        remote.wait_for_backfill(instance, backfill, alive=lambda: True)
        seen.wall_s = round(time.monotonic() - begun, 1)
        statuses = instance.get_status_by_partition(KEY, ids, RECORDINGS) or {}
        seen.materialized = sum(status is not None and status.value == "MATERIALIZED" for status in statuses.values())
        runs = instance.get_runs(dg.RunsFilter(tags={"dagster/backfill": backfill}))
        seen.runs = {status.value: sum(run.status == status for run in runs) for status in {run.status for run in runs}}
    for episode in ids:
        versions = [path.name for path in paths.episode_versions(episode).iterdir() if not path.name.startswith(".")]
        if len(versions) != 1:
            seen.built_twice.append(f"{episode}: {versions}")
        seen.damaged += [finding.message for finding in verify_episode(paths, episode)]
    return seen


def _done(instance: dg.DagsterInstance, ids: list[str]) -> int:
    return len(set(instance.get_materialized_partitions(KEY)) & set(ids))


def _over(instance: dg.DagsterInstance, backfill: str) -> bool:
    found = instance.get_backfill(backfill)
    return found is not None and found.status in remote._ENDED


def kill_often(folder: Path, *, kills: int) -> list[Seen]:
    """Kill so many processes in all, at most five per backfill."""
    from egodata.schema.layout import open_root

    root = folder / "store"
    paths = open_root(root, create=True)
    order = [TARGETS[number % len(TARGETS)] for number in range(kills)]
    rounds = [order[start : start + PER_BACKFILL] for start in range(0, kills, PER_BACKFILL)]
    with up(root) as address:
        return [round_of_kills(root, address, paths, number=number, targets=targets) for number, targets in enumerate(rounds)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=20)
    given = parser.parse_args()
    for one in kill_often(given.folder, kills=given.kills):
        print(json.dumps(one.__dict__, indent=1))
