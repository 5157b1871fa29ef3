"""Scale of the Dagster side: cost of a partition beyond its work, loading, idle memory, pages with 20,000 partitions, 100,000 recordings.

python benchmarks/dagster_scale.py FOLDER [overhead|load|pages|browser|dialog|shards ...]

`browser` and `dialog` need Chromium as tests/e2e/test_browser.py does; `pages` and `browser` share a store that takes minutes to fill.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import dagster as dg
from dagster_pages import browser, dialog, pages
from dagster_shards import shards

from egodata.ingest import IngestOptions, ingest
from egodata.schema.layout import open_root
from egodata.testing.world import WorldOptions, write_delivery
from pipelines import remote
from pipelines.instance import open_instance
from pipelines.leftovers import leftovers
from tests.e2e.served import egopipe, up

KEY = dg.AssetKey("episode_zarr")


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


MEASURES = {"overhead": overhead, "load": load, "pages": pages, "browser": browser, "dialog": dialog, "shards": shards}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("what", nargs="*", default=list(MEASURES), choices=MEASURES)
    given = parser.parse_args()
    for name in given.what:
        print(json.dumps({name: MEASURES[name](given.folder)}, indent=1), flush=True)
