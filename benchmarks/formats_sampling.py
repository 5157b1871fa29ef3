"""Is sampling from the Lance copy as fast as from zarr, and what does a worker's memory come to?

    python benchmarks/formats_sampling.py STORE NAME@VERSION [--recipe human_wrist6d] [--samples 300]

Uniform random samples (numbers of all windows and one frame) of one head, through the block cache. The two formats take turns in blocks
of 50 in one process, so that a busy machine slows both; medians and their ratio. Cold: 50 samples of a fresh process whose format has no
mapped blocks yet (they are removed first; the page cache is not dropped). PSS is that of a process that sampled one format alone, from
/proc/self/smaps_rollup.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np

from egodata.catalog import load_dataset
from egodata.sampling import HeadSource, load_recipe
from egodata.schema.layout import open_root

FORMATS = ("zarr", "lance")
BLOCK = 50


def opened(args: argparse.Namespace, format: str) -> HeadSource:
    paths = open_root(args.store)
    return HeadSource.open(paths, load_dataset(paths, args.dataset), head="train", recipe=load_recipe(args.recipe), format=format)


def timed(source: HeadSource, indices: list[int]) -> list[float]:
    times = []
    for index in indices:
        start = time.perf_counter()
        source.sample(index, epoch=0)
        times.append((time.perf_counter() - start) * 1e3)
    return times


def pss_mb() -> float:
    text = Path("/proc/self/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 1024


def alone(args: argparse.Namespace) -> None:
    """Sample one format in this process: cold times, and the memory afterwards."""
    shutil.rmtree(open_root(args.store).cache / "blocks" / args.alone, ignore_errors=True)
    start = time.perf_counter()
    with closing(opened(args, args.alone)) as source:
        opening_s = time.perf_counter() - start
        indices = np.random.default_rng(1).integers(0, len(source), BLOCK).tolist()
        cold = timed(source, indices)
    with closing(opened(args, args.alone)) as source:
        timed(source, np.random.default_rng(2).integers(0, len(source), args.samples).tolist())
        print(json.dumps({"opening_s": opening_s, "cold_ms": statistics.median(cold), "pss_mb": pss_mb()}))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    parser.add_argument("dataset")
    parser.add_argument("--recipe", default="human_wrist6d")
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--alone", choices=FORMATS)
    args = parser.parse_args()
    if args.alone:
        alone(args)
        return
    times: dict[str, list[float]] = {name: [] for name in FORMATS}
    with ExitStack() as stack:
        sources = {name: stack.enter_context(closing(opened(args, name))) for name in FORMATS}
        rng = np.random.default_rng(0)
        timed(sources["zarr"], [0]), timed(sources["lance"], [0])
        for turn in range(0, args.samples, BLOCK):
            indices = rng.integers(0, len(sources["zarr"]), BLOCK).tolist()
            for name in FORMATS if turn % (2 * BLOCK) == 0 else FORMATS[::-1]:
                times[name] += timed(sources[name], indices)
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(f"{'':8}{'median ms':>12}{'p95 ms':>10}{'cold ms':>10}{'opening s':>11}{'PSS MB':>9}")
    for name in FORMATS:
        command = [sys.executable, __file__, str(args.store), args.dataset, "--recipe", args.recipe, "--samples", str(args.samples)]
        found = json.loads(subprocess.run([*command, "--alone", name], check=True, capture_output=True, text=True).stdout)
        p95 = float(np.percentile(times[name], 95))
        print(f"{name:8}{medians[name]:12.2f}{p95:10.2f}{found['cold_ms']:10.2f}{found['opening_s']:11.2f}{found['pss_mb']:9.0f}")
    print(f"lance / zarr: {medians['lance'] / medians['zarr']:.2f} over {args.samples} samples each")


if __name__ == "__main__":
    main()
