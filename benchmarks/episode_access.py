"""What publishing, attaching, verifying and reading one zarr episode cost, beside zarr's own array API, in one run.

python benchmarks/episode_access.py
"""

import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import zarr

from egodata.annotations import TASK, Span
from egodata.formats.zarr import ZarrStore, attach_annotations, publish_draft, verify_episode
from egodata.schema.layout import open_root
from egodata.testing.drafts import small_draft
from egodata.video import DEFAULT_SETTINGS, encode_video

FRAMES, SIZE, REPEATS = 300, (640, 360), 50


def ms(call: Callable[[], object], repeats: int = 1) -> float:
    """Mean CPU milliseconds."""
    start = time.process_time()
    for _ in range(repeats):
        call()
    return (time.process_time() - start) / repeats * 1e3


def main() -> None:
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        paths = open_root(Path(folder) / "store", create=True)
        draft = small_draft(Path(folder), frames=FRAMES, size=SIZE)
        episode_id, source = draft.meta.episode_id, draft.videos["front_1"]
        encode = ms(lambda: list(encode_video(source, fps=draft.meta.fps, settings=DEFAULT_SETTINGS)))
        publish = ms(lambda: publish_draft(paths, draft, settings=DEFAULT_SETTINGS))
        content = ZarrStore(paths).open(episode_id).digests.content
        attach = ms(lambda: attach_annotations(paths, episode_id, {TASK: [Span("one", 0, 9)]}, expected=content))
        verify = ms(lambda: verify_episode(paths, episode_id), 5)
        print(f"CPU ms for {FRAMES} frames of {SIZE[0]}x{SIZE[1]}, {len(draft.arrays)} numeric arrays, one core")
        print(f"decode + encode {encode:.0f}; publish, that included {publish:.0f}; attach annotations {attach:.1f}; verify {verify:.1f}")

        keys = [
            "left.obs_ee_pose",
            "left.obs_ee_pose_valid",
            "right.obs_ee_pose",
            "right.obs_ee_pose_valid",
            "obs_head_pose",
            "obs_head_pose_valid",
        ]
        starts = np.random.default_rng(0).integers(0, FRAMES - 30, REPEATS).tolist()
        reader, store = ZarrStore(paths).open(episode_id), ZarrStore(paths)
        group = zarr.open_group(str(paths.episode_link(episode_id)), mode="r")
        arrays = {key: group[key] for key in keys}
        picks = iter([*starts] * 10)
        ways = {
            "zarr, group opened per sample": lambda: _through_zarr(paths.episode_link(episode_id), keys, next(picks)),
            "zarr, arrays kept open": lambda: _from_arrays(arrays, next(picks)),
            "our reader, opened per sample": lambda: store.open(episode_id).rows(keys, [((at := next(picks)), at + 30)] * len(keys)),
            "our reader, kept open": lambda: reader.rows(keys, [((at := next(picks)), at + 30)] * len(keys)),
        }
        print(f"\n30-frame windows of {len(keys)} keys, ms per sample")
        for name, way in ways.items():
            way()
            print(f"{name:32} {ms(way, REPEATS):.2f}")


def _from_arrays(arrays: dict[str, zarr.Array], start: int) -> object:
    return [array[start : start + 30] for array in arrays.values()]


def _through_zarr(path: Path, keys: list[str], start: int) -> object:
    group = zarr.open_group(str(path), mode="r")
    return [group[key][start : start + 30] for key in keys]


if __name__ == "__main__":
    main()
