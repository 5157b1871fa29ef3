"""Memory and open files level off: readers of many episodes, and writing a long one. Sizes by environment; the big ones are slow."""

import os
import resource
import subprocess
import sys

import pytest

from egodata.formats.zarr import ZarrStore, publish_draft
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings

MANY = """
import gc, os, sys
from pathlib import Path
from egodata.formats.zarr import ZarrStore
from egodata.sampling.blocks import BlockCache
from egodata.schema.layout import open_root
paths, turns, kept = open_root(Path(sys.argv[1])), int(sys.argv[2]), 128
store, blocks = ZarrStore(paths), BlockCache(Path(sys.argv[1]) / "cache" / "blocks" / "zarr")
ids = store.episode_ids()
def resident_kb():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1])
readers, seen = [], []
for turn in range(turns):
    reader = store.open(ids[turn % len(ids)])
    reader.frames("front_1", [turn % 40])
    reader.rows(["obs_head_pose"], [(0, 30)])
    blocks.block(reader, content=reader.digests.content).rows(["obs_head_pose"], [(0, 30)])
    readers.append(reader)
    if len(readers) > kept:
        readers.pop(0).close()
    if turn % max(1, turns // 8) == 0:
        gc.collect()
        seen.append((resident_kb(), len(os.listdir("/proc/self/fd"))))
print(" ".join(f"{kb}:{fds}" for kb, fds in seen))
"""


def _measured(paths, turns):
    told = subprocess.run([sys.executable, "-c", MANY, str(paths.root), str(turns)], capture_output=True, text=True, check=True)
    return [tuple(map(int, pair.split(":"))) for pair in told.stdout.split()]


@pytest.mark.parametrize("turns", [200, pytest.param(int(os.environ.get("EGODATA_EPISODES", "2000")), marks=pytest.mark.slow)])
@pytest.mark.timeout(600)
def test_a_worker_levels_off_under_its_cap(tmp_path, turns):
    """40 frames of 320x240 decoded: an element is about 100 KB, all of them more than the 64 MB that are kept."""
    paths = open_root(tmp_path / "store", create=True)
    draft = small_draft(tmp_path, frames=40, size=(320, 240))
    count = min(turns // 2, 1000)
    settings = EncodeSettings(preset="ultrafast", crf=12, gop=12, bframes=3)
    publish_draft(paths, draft, settings=settings)
    version = paths.episode_link(draft.meta.episode_id).resolve().parent
    for k in range(count - 1):  # the same episode under many ids, sharing its files
        target = paths.zarr / ".v" / f"ep{k:04}" / version.name
        target.parent.mkdir(parents=True)
        subprocess.run(["cp", "-al", str(version), str(target)], check=True)
        (paths.zarr / f"ep{k:04}.zarr").symlink_to(target.relative_to(paths.zarr) / "episode.zarr")
    assert len(ZarrStore(paths).episode_ids()) == count
    seen = _measured(paths, turns)
    settled = seen[len(seen) // 2 :]
    assert max(kb for kb, _ in settled) - min(kb for kb, _ in settled) < 24_000, seen
    assert max(kb for kb, _ in settled) - seen[0][0] < 200_000, seen
    assert len({files for _, files in seen}) == 1, seen


WRITE = """
import resource, sys
from fractions import Fraction
from pathlib import Path
import numpy as np
from dataclasses import replace
from egodata.episode import VideoSource
from egodata.formats.zarr import publish_draft
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import DEFAULT_SETTINGS
paths, source, frames = open_root(Path(sys.argv[1])), Path(sys.argv[2]), int(sys.argv[3])
draft = small_draft(source.parent, frames=8, size=(32, 32))
arrays = {key: np.repeat(array, -(-frames // 8), axis=0)[:frames] for key, array in draft.arrays.items()}
rows = np.arange(frames, dtype=np.int64)
meta = replace(draft.meta, total_frames=frames, clip=replace(draft.meta.clip, end=frames))
draft = replace(draft, meta=meta, arrays=arrays, videos={"front_1": VideoSource(source, rows, (640, 360))}, annotations={})
publish_draft(paths, draft, settings=DEFAULT_SETTINGS)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_writing_a_long_episode_takes_less_than_600_mb(tmp_path):
    """10 minutes of 1080p, scaled to 640x360."""
    frames = int(os.environ.get("EGODATA_LONG_FRAMES", "18000"))
    source = tmp_path / "long.mp4"
    command = [sys.executable, "-c", LONG, str(source), str(frames)]
    subprocess.run(command, check=True)
    open_root(tmp_path / "store", create=True)
    command = [sys.executable, "-c", WRITE, str(tmp_path / "store"), str(source), str(frames)]
    kb = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert kb < 600_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0


LONG = """
import sys
from fractions import Fraction
from itertools import cycle, islice
from pathlib import Path
from egodata.testing.drafts import moving_frames
from egodata.video.write import write_mp4
few = list(moving_frames(60, (1920, 1080), seed=1))
write_mp4(Path(sys.argv[1]), islice(cycle(few), int(sys.argv[2])), fps=Fraction(30), crf=28)
"""
