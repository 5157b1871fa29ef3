"""Uniform random sampling beside a loader that decodes whole elements, and what loaders hold in memory.

    python benchmarks/sampling_random.py WORK speed  [--episodes 60] [--samples 1280]
    python benchmarks/sampling_random.py WORK memory [--long 50000]
    python benchmarks/sampling_random.py WORK tree   [--workers 4]

A generated delivery at 640x360 becomes a store and its Lance copy. A sample is one frame and the numbers of `human_wrist6d`.

speed: the takers take turns in blocks, in one process. The whole-element loader does what is usual where video lies in zarr: it keeps
groups and arrays open, slices once per window (10 windows over 6 keys), decodes the element that holds the frame with PyAV and converts
all of its frames. It reads the same store, and the same footage joined to recordings of full 300-frame elements as they are usually
encoded (GOP 30, no B-frames). It neither re-expresses nor resamples nor normalises. CPU time.

memory: one worker, from /proc/<pid>/smaps_rollup every 1,000 samples: PSS, and the anonymous part of it, which does not change when other
processes that share torch's libraries end.

tree: batches of 64 samples of two frames 0.5 s apart, as RDT takes them; the highest sum of PSS over the training process and its workers.
"""

import argparse
import io
import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import zarr

from egodata.catalog import load_dataset
from egodata.cli.main import cli, run
from egodata.episode import EpisodeDraft, FrameSource, read_all_numeric
from egodata.formats.zarr import ZarrStore, publish_draft
from egodata.sampling import HeadSource, ImageHistory, Recipe, load_recipe
from egodata.schema.layout import StorePaths, open_root
from egodata.torch.bench import random_batches
from egodata.torch.bench_workers import measure_workers
from egodata.torch.process import anonymous_bytes, pss_bytes
from egodata.video import EncodeSettings

BLOCK, WHOLE_BLOCK = 64, 8
RECIPE = "human_wrist6d"
POSES = ("left.obs_ee_pose", "right.obs_ee_pose")
USUAL = EncodeSettings(profile="usual", crf=18, preset="veryfast", tune="", gop=30, bframes=0)
JOINED_FRAMES = 600


def egodata(*words: object) -> None:
    if run(cli, [str(word) for word in words], program="egodata"):
        raise SystemExit(f"egodata {' '.join(map(str, words))} failed")


def build(work: Path, episodes: int) -> StorePaths:
    store = work / "store"
    if not (store / "datasets").is_dir():
        egodata("synth", work / "delivery", "--episodes", episodes, "--operators", 6, "--size", "640x360")
        egodata("ingest", work / "delivery", "--vendor", "mecka", "--store", store, "--dataset", "cubes")
        egodata("lance", "build", store)
        egodata("dataset", "freeze", store, "synthetic", "--no-card")
    return open_root(store)


def open_head(paths: StorePaths, format: str, *, recipe: Recipe | None = None) -> HeadSource:
    return HeadSource.open(paths, load_dataset(paths, "synthetic@v1"), head="train", recipe=recipe or load_recipe(RECIPE), format=format)


def join(paths: StorePaths, target: Path, *, recordings: int) -> StorePaths:
    """The store's footage end to end, as recordings of 600 frames in full elements and the usual encoding."""
    if (target / "done").exists():
        return open_root(target)
    joined, store = open_root(target, create=True), ZarrStore(paths)
    readers, parts, number = iter([store.open(one) for one in store.episode_ids()]), [], 0
    while number < recordings:
        parts.append(next(readers))
        if sum(part.meta.total_frames for part in parts) < JOINED_FRAMES:
            continue
        numbers = [read_all_numeric(part) for part in parts]
        arrays = {key: np.concatenate([one[key] for one in numbers])[:JOINED_FRAMES] for key in numbers[0]}
        arrays["obs_rgb_timestamps_ns"] = np.arange(JOINED_FRAMES, dtype=np.int64) * 1_000_000_003 // 30
        features = {key: spec for key, spec in parts[0].meta.features.items() if not key.startswith("images.")}
        meta = replace(
            parts[0].meta, episode_id=f"joined{number}", recording_id=f"joined{number}", total_frames=JOINED_FRAMES, features=features
        )
        meta = replace(meta, clip=replace(meta.clip, start=0, end=JOINED_FRAMES), clock="frame0")
        kept = tuple(parts)

        def frames(kept: tuple = kept) -> Iterator[np.ndarray]:
            left = JOINED_FRAMES
            for part in kept:
                count = min(left, part.meta.total_frames)
                for at in range(0, count, 30):
                    yield from part.frames("front_1", range(at, min(at + 30, count)))
                left -= count

        video = FrameSource(frames, JOINED_FRAMES, (640, 360))
        publish_draft(joined, EpisodeDraft(meta, arrays, {"front_1": video}, {}, None), settings=USUAL)
        parts, number = [], number + 1
    (target / "done").touch()
    return joined


class WholeElements:
    """The usual loader over video in zarr."""

    def __init__(self, paths: StorePaths) -> None:
        self.groups = [zarr.open_group(str(paths.episode_link(one)), mode="r") for one in ZarrStore(paths).episode_ids()]
        self.frames = [int(group.attrs["total_frames"]) for group in self.groups]
        self.keys = [f"{key}{mask}" for key in (*POSES, "obs_head_pose") for mask in ("", "_valid")]
        self.arrays = [{key: group[key] for key in (*self.keys, "images.front_1")} for group in self.groups]
        self.decoded = 0

    def __call__(self, rng: np.random.Generator) -> np.ndarray:
        episode = int(rng.integers(len(self.groups)))
        arrays, total, t = self.arrays[episode], self.frames[episode], int(rng.integers(self.frames[episode]))
        history = [arrays[key][max(0, t - 10) : t + 1] for key in self.keys]
        actions = [arrays[key][t : min(total, t + 31)] for key in self.keys if key.startswith(POSES)]
        element = bytes(arrays["images.front_1"][t // 300 : t // 300 + 1][0])
        with av.open(io.BytesIO(element)) as container:
            container.streams.video[0].thread_count = 1
            frames = np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])
        self.decoded += len(frames)
        assert len(history) + len(actions) == 10
        return frames[t % 300].copy()


def own(source: HeadSource) -> Callable[[], int]:
    batches = random_batches(source, batch_size=BLOCK)

    def take() -> int:
        epoch, indices = next(batches)
        return len(source.samples(indices.tolist(), epoch=epoch))

    return take


def usual(loader: WholeElements, seed: int) -> Callable[[], int]:
    rng = np.random.default_rng(seed)
    return lambda: len([loader(rng) for _ in range(WHOLE_BLOCK)])


def speed(work: Path, args: argparse.Namespace) -> None:
    paths = build(work, args.episodes)
    joined = join(paths, work / "joined", recordings=args.recordings)
    loaders = {"whole elements, same store": WholeElements(paths), "whole elements, 300 frames, usual encoding": WholeElements(joined)}
    with ExitStack() as stack:
        sources = [stack.enter_context(closing(open_head(paths, name))) for name in ("zarr", "lance")]
        takers = dict(zip(("egodata zarr", "egodata lance"), map(own, sources), strict=True))
        takers |= {name: usual(loader, seed) for seed, (name, loader) in enumerate(loaders.items())}
        found: dict[str, list[float]] = {name: [] for name in takers}
        for turn in range(-1, args.samples // BLOCK):  # the first turn warms up
            for name in sorted(takers, reverse=turn % 2 == 0):
                began = time.process_time()
                count = takers[name]()
                if turn >= 0:
                    found[name].append((time.process_time() - began) / count * 1e3)
    base = statistics.median(found["egodata zarr"])
    print("| loader | CPU ms / sample, median (range) | against egodata, zarr |\n|---|---|---|")
    for name, spent in found.items():
        middle = statistics.median(spent)
        print(f"| {name} | {middle:.2f} ({min(spent):.2f} to {max(spent):.2f}) | {middle / base:.0f}x |", flush=True)
    for name, loader in loaders.items():
        print(f"{name}: {loader.decoded / (WHOLE_BLOCK * (args.samples // BLOCK + 1)):.0f} frames decoded per sample")


def memory(work: Path, args: argparse.Namespace) -> None:
    paths, seen = build(work, args.episodes), []
    with closing(open_head(paths, args.format)) as source:

        def look(samples: int, children: list[int]) -> None:
            if samples // 1000 != (samples - BLOCK) // 1000:
                seen.append((samples, pss_bytes(children[0]), anonymous_bytes(children[0])))
                if len(seen) % 5 == 1:
                    print(f"{samples} samples: PSS {seen[-1][1] / 1e6:.1f} MB, of it anonymous {seen[-1][2] / 1e6:.1f} MB", flush=True)

        found = measure_workers(source, batch_size=BLOCK, workers=1, samples=args.long, each=look)
    samples, pss, anonymous = np.array(seen, np.float64).T
    late = slice(len(seen) // 5, None)
    slope = np.polyfit(samples[late] / 1e4, anonymous[late] / 1e6, 1)[0]
    first, highest, last = (size / 1e6 for size in (anonymous[0], anonymous.max(), anonymous[-1]))
    print(f"{args.format}: {found.samples} samples, one worker, PSS at most {pss.max() / 1e6:.1f} MB")
    print(
        f"anonymous {first:.1f} MB first, {highest:.1f} highest, {last:.1f} last; after the first fifth {slope:+.2f} MB per 10,000 samples"
    )
    print(f"{found.worker_cpu_ms:.2f} CPU ms/sample in the worker")


def tree(work: Path, args: argparse.Namespace) -> None:
    paths, highest = build(work, args.episodes), [0, 0, 0]
    recipe = replace(load_recipe(RECIPE), name="two_frames", image_history=ImageHistory(count=2, gap_s=0.5))
    with closing(open_head(paths, args.format, recipe=recipe)) as source:

        def look(samples: int, children: list[int]) -> None:
            sizes = [pss_bytes(one) for one in children]
            here = pss_bytes(os.getpid())
            highest[:] = max(highest, [sum(sizes) + here, here, max(sizes)])

        found = measure_workers(source, batch_size=64, workers=args.workers, samples=args.samples, each=look)
    whole, here, worker = (size / 1e6 for size in highest)
    print(
        f"{args.format}: {found.samples} samples in batches of 64 with two frames, {args.workers} workers: highest PSS of the process tree"
    )
    print(f"{whole:.0f} MB, of it {here:.0f} MB in the training process and at most {worker:.0f} MB in a worker")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("part", choices=("speed", "memory", "tree"))
    parser.add_argument("--episodes", type=int, default=60)
    parser.add_argument("--recordings", type=int, default=8)
    parser.add_argument("--samples", type=int, default=1280)
    parser.add_argument("--long", type=int, default=50_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--format", choices=("zarr", "lance"), default="zarr")
    args = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*does not have a Zarr V3 specification.*")
    {"speed": speed, "memory": memory, "tree": tree}[args.part](args.work, args)


if __name__ == "__main__":
    main()
