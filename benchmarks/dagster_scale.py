"""Scale of the Dagster side: cost of a partition beyond its work, loading, idle memory, pages with 20,000 partitions, 100,000 recordings.

python benchmarks/dagster_scale.py FOLDER [overhead|load|pages|shards ...]
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import dagster as dg

from egodata.ingest import IngestOptions, ingest
from egodata.schema.layout import open_root
from egodata.testing.world import WorldOptions, write_delivery
from pipelines import remote
from pipelines.assets.raw import RAW_EPISODE, raw_events
from pipelines.deliveries import Delivery, register
from pipelines.events import latest_observed
from pipelines.instance import open_instance
from pipelines.leftovers import leftovers
from pipelines.partitions import RECORDINGS, add_keys
from pipelines.units import is_shard, units
from tests.e2e.served import egopipe, up

KEY = dg.AssetKey("episode_zarr")
LINKS = 30_000
PAGES = {
    "partitions page: keys and statuses": """query($k: AssetKeyInput!) { assetNodeOrError(assetKey: $k) { ... on AssetNode { partitionKeys
      partitionStats { numMaterialized numFailed numPartitions } assetPartitionStatuses { ... on DefaultPartitionStatuses {
      materializedPartitions failedPartitions unmaterializedPartitions materializingPartitions } } } } }""",
    "graph: counts of every asset": """query { assetNodes { assetKey { path } groupName partitionStats { numMaterialized numFailed
      numPartitions } latestMaterializationByPartition { timestamp } } }""",
    "one partition: its last event": """query($k: AssetKeyInput!, $p: [String!]) { assetOrError(assetKey: $k) { ... on Asset {
      assetMaterializations(partitions: $p, limit: 1) { partition timestamp metadataEntries { label } } } } }""",
}


def overhead(folder: Path, *, episodes: int = 200) -> dict[str, object]:
    """A backfill through the daemon of tiny episodes that are built already: whatever it takes beyond looking at their bytes is overhead.

    That includes the daemon's latency, the start of the run, and per partition the event, its metadata with contact sheet, and the checks.
    """
    root = folder / "overhead" / "store"
    paths = open_root(root, create=True)
    raw = paths.raw / "mecka" / "tiny"
    write_delivery(raw, WorldOptions(operators=2, episodes=episodes, seed=9, size=(64, 64), fps=10))
    options = IngestOptions("mecka", root, workers=2)
    assert not ingest(raw, options=options).set_aside
    begun = time.perf_counter()
    assert len(ingest(raw, options=options).skipped) == episodes
    work = time.perf_counter() - begun
    with up(root) as address:
        assert egopipe("watch", str(raw), "--vendor", "mecka", "--store", str(root)).returncode == 0
        with open_instance(paths) as instance:
            ids = sorted(instance.get_dynamic_partitions("recordings"))
            begun = time.perf_counter()
            started = remote.backfill(address, [KEY], partitions=ids, title="200 tiny episodes")
            assert remote.wait_for_backfill(instance, started, alive=lambda: True)
            whole = time.perf_counter() - begun
            run = instance.get_run_records(dg.RunsFilter(tags={"dagster/backfill": started}))[0]
    return {
        "episodes": episodes,
        "backfill_s": round(whole, 1),
        "looking_at_the_bytes_s": round(work, 1),
        "beyond_the_work_s_per_partition": round((whole - work) / episodes, 3),
        "run_itself_s": round(run.end_time - run.start_time, 1),
        "load_average": os.getloadavg()[0],
    }


def load(folder: Path) -> dict[str, object]:
    """A fresh process that loads and validates the code location, three times; and memory of an idle server."""
    code = "import pipelines.definitions as d; d.dg.Definitions.validate_loadable(d.defs)"
    walls = []
    for _ in range(3):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        walls.append(round(time.perf_counter() - begun, 2))
    root = folder / "idle" / "store"
    paths = open_root(root, create=True)
    with up(root):
        time.sleep(40)
        memory = {}
        for pid in leftovers(str(paths.dagster)):
            words = (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            lines = (Path("/proc") / str(pid) / "smaps_rollup").read_text().splitlines()
            name = next((name for name in ("api grpc", "dagster_webserver", "dagster._daemon") if name in words), words[-60:])
            memory[name] = round(int(next(line for line in lines if line.startswith("Pss:")).split()[1]) / 1024)
    return {"definitions_load_s": walls, "idle_pss_mib": memory, "idle_pss_mib_sum": sum(memory.values())}


def pages(folder: Path, *, partitions: int = 20_000, materialized: int = 3_000) -> dict[str, object]:
    """Answers of the webserver with many recordings, some of them materialised: every event costs a transaction to prepare."""
    root = folder / "pages" / "store"
    paths = open_root(root, create=True)
    keys = [f"rec-{number:06d}" for number in range(partitions)]
    with open_instance(paths) as instance:
        begun = time.perf_counter()
        add_keys(instance, RECORDINGS, keys=keys)
        added = time.perf_counter() - begun
        there = instance.get_materialized_partitions(KEY)
        for key in keys[:materialized]:
            if key not in there:
                instance.report_runless_asset_event(dg.AssetMaterialization(KEY, partition=key))
    answers: dict[str, list[float]] = {name: [] for name in PAGES}
    with up(root) as address:
        for _ in range(3):
            for name, query in PAGES.items():
                begun = time.perf_counter()
                found = remote.ask(address, query, variables={"k": {"path": ["episode_zarr"]}, "p": [keys[5]]})
                answers[name].append(round(time.perf_counter() - begun, 2))
                assert found
        begun = time.perf_counter()
        urllib.request.urlopen(f"{address}/assets/episode_zarr?view=partitions").read()
        shell = round(time.perf_counter() - begun, 2)
    with open_instance(paths) as instance:
        there = instance.get_materialized_partitions(KEY)
    return {
        "partitions": partitions,
        "materialized": len(there),
        "keys_added_s": round(added, 1),
        "answers_s": answers,
        "page_shell_s": shell,
    }


def shards(folder: Path, *, recordings: int = 100_000) -> dict[str, object]:
    """A delivery of tiny recordings that share their bytes: one look, its shards, and the whole of one shard built."""
    root = folder / "shards" / "store"
    paths = open_root(root, create=True)
    raw = paths.raw / "mecka" / "huge"
    if not raw.exists():
        _huge(folder / "shards" / "seed", raw, recordings)
    register(paths, Delivery(vendor="mecka", raw=str(raw)))
    begun = time.perf_counter()
    found = units(paths)
    looked = time.perf_counter() - begun
    assert all(is_shard(key) for key in found)
    assert sum(len(unit.recordings) for unit in found.values()) == recordings
    with open_instance(paths) as instance:
        add_keys(instance, RECORDINGS, keys=found)
        for event in raw_events(found.values()):
            instance.report_runless_asset_event(event)
        assert len(latest_observed(instance, RAW_EPISODE)) == len(found)
    smallest = min(found.values(), key=lambda unit: len(unit.recordings))
    begun = time.perf_counter()
    done = egopipe("materialize", "episode_zarr", "--partition", smallest.key, "--store", str(root), timeout=3000)
    assert done.returncode == 0, done.stdout + done.stderr
    built = time.perf_counter() - begun
    sizes = sorted(len(unit.recordings) for unit in found.values())
    return {
        "recordings": recordings,
        "shards": len(found),
        "recordings_per_shard": [sizes[0], sizes[-1]],
        "one_look_s": round(looked, 1),
        "one_shard_built_s": round(built, 1),
        "of_recordings": len(smallest.recordings),
    }


def _huge(seed: Path, raw: Path, count: int) -> None:
    (only,) = write_delivery(seed, WorldOptions(operators=1, episodes=1, seed=3, size=(64, 64), fps=10)).episodes
    source = seed / only
    meta = json.loads((source / f"{only}.json").read_text())
    for number in range(count):
        if number and number % LINKS == 0:  # a file system ends the number of links to one file
            source = Path(shutil.copytree(source, seed / f"{only}-{number}"))
        name = f"{number:024x}"
        folder = raw / name
        folder.mkdir(parents=True)
        for file in source.iterdir():
            if file.name != f"{only}.json":
                os.link(file, folder / file.name)
        (folder / f"{name}.json").write_text(json.dumps({**meta, "id": name}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("what", nargs="*", default=["overhead", "load", "pages", "shards"])
    given = parser.parse_args()
    for name in given.what:
        print(
            json.dumps({name: {"overhead": overhead, "load": load, "pages": pages, "shards": shards}[name](given.folder)}, indent=1),
            flush=True,
        )
