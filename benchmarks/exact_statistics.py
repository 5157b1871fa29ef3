"""What do exact statistics of a long head cost? CPU seconds and memory, against numpy on the whole array.

python benchmarks/exact_statistics.py [--windows 300000] [--folder FOLDER]

Windows of 100 steps x 18 channels lie ready in a file, so that their construction is left out on both sides; reading the file
counts on both. The file (2.2 GB) is made first and removed. Each way runs in its own process, one thread, and says its CPU time
and its largest resident memory. numpy: mean, std, min, max and the five quantiles along axis 0, in float32 as the array is, sums in
float64; once with np.quantile and once, faster, with np.partition at just the ranks that are needed.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
import numpy as np

STEPS, CHANNELS = 100, 18
LEVELS = (0.5, 0.01, 0.99, 0.0001, 0.9999)


def make(path: Path, windows: int) -> None:
    """Write (steps, windows, channels): normal, two groups of different spread, heavy tails, constant, by turns; 5 % not counted."""
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        for step in range(STEPS):
            rows = rng.normal(size=(windows, CHANNELS)).astype(np.float32)
            rows[: windows // 10, 1::4] *= 50
            rows[:, 2::4] /= np.maximum(np.abs(rng.normal(size=rows[:, 2::4].shape)), 1e-3).astype(np.float32)
            rows[:, 3::8] = 0.25
            rows *= 1 + step / 10
            rows[rng.random(windows) < 0.05] = np.nan
            file.write(rows.tobytes())


class FileHead:
    """A head whose windows lie in the file, in episodes of 200."""

    def __init__(self, path: Path, windows: int) -> None:
        from egodata.catalog.manifest import HeadEpisode
        from egodata.sampling import Layout, load_recipe

        self.path, self.count = path, windows
        self.recipe = load_recipe("human_wrist6d")
        self.layout = Layout(CHANNELS, 0, tuple(f"c{i}" for i in range(CHANNELS)), (), ())
        self.episodes = tuple(HeadEpisode(f"e{i}", 200, "") for i in range(-(-windows // 200)))

    def __len__(self) -> int:
        return self.count

    def windows(self, *, part=None):
        from egodata.sampling import EpisodeWindows

        steps = part.steps
        nothing = np.zeros((200, 0, 0), np.float32)
        with self.path.open("rb", buffering=0) as file:
            for at, episode in enumerate(self.episodes):
                rows = min(200, self.count - at * 200)
                actions = np.empty((rows, len(steps), CHANNELS), np.float32)
                for turn, step in enumerate(steps):
                    file.seek((step * self.count + at * 200) * CHANNELS * 4)
                    actions[:, turn] = np.fromfile(file, np.float32, rows * CHANNELS).reshape(rows, CHANNELS)
                empty = nothing[:rows]
                mask = np.isfinite(actions)
                yield episode, EpisodeWindows(np.arange(rows), actions, mask, empty, empty.any(-1), empty > 0, empty > 0)


def ours(path: Path, windows: int) -> dict[str, np.ndarray]:
    from egodata.progress import silent
    from egodata.stats.compute import BLOCK_BYTES
    from egodata.stats.walk import plan_walks, walk_all

    head = FileHead(path, windows)
    found = walk_all(head, plan_walks(head, block_bytes=BLOCK_BYTES), workers=1, progress=silent)
    blocks = sorted(found, key=lambda block: block.start)
    return {name: np.concatenate([found[block][name] for block in blocks]) for name in found[blocks[0]]}


def with_numpy(path: Path, windows: int, *, partition: bool) -> dict[str, np.ndarray]:
    values = np.fromfile(path, np.float32).reshape(STEPS, windows, CHANNELS).transpose(1, 0, 2).reshape(windows, -1)
    out = {
        "mean": np.nanmean(values, axis=0, dtype=np.float64),
        "std": np.nanstd(values, axis=0, dtype=np.float64),
        "min": np.nanmin(values, axis=0),
        "max": np.nanmax(values, axis=0),
    }
    names = ("median", "q01", "q99", "q0001", "q9999")
    if not partition:
        found = np.nanquantile(values, LEVELS, axis=0)
        return out | dict(zip(names, found, strict=True))
    # the fastest use of numpy that we found: every step masks the same rows, so ranks are those of its counted rows
    rows = {name: np.empty(STEPS * CHANNELS) for name in names}
    for step in range(STEPS):
        block = values[:, step * CHANNELS : (step + 1) * CHANNELS]
        block = block[np.isfinite(block[:, 0])]
        places = [level * (len(block) - 1) for level in LEVELS]
        ranks = sorted({rank for place in places for rank in (int(place), min(int(place) + 1, len(block) - 1))})
        block = np.partition(block, ranks, axis=0)
        for name, place in zip(names, places, strict=True):
            low, high = block[int(place)].astype(np.float64), block[min(int(place) + 1, len(block) - 1)].astype(np.float64)
            rows[name][step * CHANNELS : (step + 1) * CHANNELS] = low + (high - low) * (place - int(place))
    return out | rows


def child(way: str, path: Path, windows: int) -> None:
    began_cpu, began = time.process_time(), time.perf_counter()
    found = ours(path, windows) if way == "ours" else with_numpy(path, windows, partition=way == "partition")
    cpu, wall = time.process_time() - began_cpu, time.perf_counter() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    np.savez(path.with_name(f"{way}.npz"), **found)
    print(json.dumps({"way": way, "cpu_s": round(cpu, 2), "wall_s": round(wall, 2), "memory_mib": round(memory)}))


def compare(folder: Path, way: str) -> str:
    one, two = np.load(folder / "ours.npz"), np.load(folder / f"{way}.npz")
    worst = {}
    for name in two.files:
        scale = np.maximum(np.abs(two[name]), 1e-6)
        worst[name] = float(np.nanmax(np.abs(one[name] - two[name]) / scale))
    return ", ".join(f"{name} {value:.1e}" for name, value in worst.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=300_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--ways", nargs="*", default=["ours", "partition", "quantile"])
    parser.add_argument("--child", nargs=2)
    options = parser.parse_args()
    if options.child:
        child(options.child[0], Path(options.child[1]), options.windows)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "windows.f32"
        make(path, options.windows)
        print(f"{options.windows} windows of {STEPS} x {CHANNELS}, {path.stat().st_size / 1e9:.2f} GB, numpy {np.__version__}")
        for way in options.ways:
            words = [sys.executable, __file__, "--windows", str(options.windows), "--child", way, str(path)]
            print(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=os.environ).stdout.strip(), flush=True)
        for way in options.ways[1:]:
            print(f"largest relative difference from {way}: {compare(Path(folder), way)}")


if __name__ == "__main__":
    main()
