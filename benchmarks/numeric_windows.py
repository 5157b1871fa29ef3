"""What a sample's numbers and opening an episode cost: direct chunks and mapped blocks beside zarr's own API, in one run.

    python benchmarks/numeric_windows.py

A sample is 10 windows over 6 keys of one random episode (warm): two windows on four keys, one on two. Masks are read on no side.
"""

import argparse
import platform
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import zarr

from egodata.formats.zarr import ZarrStore, publish_draft
from egodata.sampling.blocks import BlockCache
from egodata.sampling.requests import read_windows
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings

TWICE = ("left.obs_ee_pose", "right.obs_ee_pose", "left.obs_keypoints", "right.obs_keypoints")
ONCE = ("obs_head_pose", "left.obs_wrist_pose")
FRAMES = 300


def requests(count: int, seed: int) -> list[tuple[int, dict[str, list[tuple[int, int]]]]]:
    """Random episodes with their windows: 30 frames ahead, and 11 frames of history where a key is asked for twice."""
    rng, out = np.random.default_rng(seed), []
    for _ in range(count):
        at = int(rng.integers(10, FRAMES - 30))
        windows = {key: [(at - 10, at + 1), (at, at + 30)] for key in TWICE} | {key: [(at, at + 30)] for key in ONCE}
        out.append((int(rng.integers(0, 8)), windows))
    return out


def cpu_ms(call: Callable[[int, dict], object], asked: list) -> float:
    """Median of five rounds of the mean CPU milliseconds per sample."""
    rounds = []
    for _ in range(5):
        start = time.process_time()
        for episode, windows in asked:
            call(episode, windows)
        rounds.append((time.process_time() - start) / len(asked) * 1e3)
    return float(np.median(rounds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=40)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        paths = open_root(Path(folder) / "store", create=True)
        ids = [f"ep{k}" for k in range(8)]
        settings = EncodeSettings(preset="ultrafast")
        contents = [
            publish_draft(paths, small_draft(Path(folder), frames=FRAMES, size=(32, 32), seed=k, episode_id=one), settings=settings).content
            for k, one in enumerate(ids)
        ]
        store = ZarrStore(paths)
        readers = [store.open(one) for one in ids]
        cache = BlockCache(paths.cache / "blocks" / "zarr")
        blocks = [cache.block(reader, content=content) for reader, content in zip(readers, contents, strict=True)]
        groups = [zarr.open_group(str(paths.episode_link(one)), mode="r") for one in ids]
        arrays = [{key: group[key] for key in (*TWICE, *ONCE)} for group in groups]

        def opened(episode: int, windows: dict) -> object:
            group = zarr.open_group(str(paths.episode_link(ids[episode])), mode="r")
            return {key: [group[key][a:b] for a, b in ranges] for key, ranges in windows.items()}

        ways = {
            "zarr: open the group, one slice per window": (opened, options.samples // 4),
            "zarr: arrays kept open, one slice per window": (
                lambda e, w: {k: [arrays[e][k][a:b] for a, b in r] for k, r in w.items()},
                options.samples,
            ),
            "direct chunks, one planned request per key": (lambda e, w: read_windows(readers[e], w), options.samples * 10),
            "mapped block": (lambda e, w: blocks[e].windows(w), options.samples * 50),
        }
        expected = opened(3, requests(1, 1)[0][1])
        print(
            f"{platform.machine()}, zarr {zarr.__version__}; CPU ms per sample, median of 5 rounds\n\n| way | ms | faster |\n|---|---|---|"
        )
        base = 0.0
        for name, (way, count) in ways.items():
            found = way(3, requests(1, 1)[0][1])
            assert all(np.array_equal(a, b, equal_nan=True) for key in expected for a, b in zip(found[key], expected[key], strict=True)), (
                name
            )
            spent = cpu_ms(way, requests(max(count, 4), 0))
            base = base or spent
            print(f"| {name} | {spent:.4f} | {base / spent:.0f}x |")

        def by_zarr(episode: int, _: dict) -> object:
            return dict(zarr.open_group(str(paths.episode_link(ids[episode])), mode="r").attrs)

        def by_us(episode: int, _: dict) -> object:
            return store.open(ids[episode]).attributes

        def typed(episode: int, _: dict) -> object:
            return store.open(ids[episode]).meta

        print("\n| opening an episode, metadata only | ms | faster |\n|---|---|---|")
        base = 0.0
        for name, way in {"zarr open_group + attrs": by_zarr, "ours, attributes": by_us, "ours, typed meta": typed}.items():
            spent = cpu_ms(way, requests(options.samples * 2, 0))
            base = base or spent
            print(f"| {name} | {spent:.3f} | {base / spent:.1f}x |")


if __name__ == "__main__":
    main()
