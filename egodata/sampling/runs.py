"""Decoded frames of runs that block order keeps open, so that a run is decoded once for all its samples."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.episode import EpisodeReader
from egodata.sampling.assemble import CameraImages, read_images
from egodata.sampling.cache import Numbers
from egodata.sampling.recipe import Recipe
from egodata.sampling.windows import frames_in

RunKey = tuple[str, int]


class _Run:
    """Frames of one run by camera; what `read_images` reads from."""

    def __init__(self, reader: EpisodeReader, cameras: Sequence[str], *, first: int, end: int) -> None:
        self._first = first
        self._frames = {camera: reader.frames(camera, range(first, end)) for camera in cameras}
        self.size_bytes = sum(frames.nbytes for frames in self._frames.values())

    def frames(self, camera: str, indices: Sequence[int]) -> NDArray[np.uint8]:
        """Return a copy of frames by their number in the episode."""
        return self._frames[camera][np.asarray(indices, np.int64) - self._first]


class DecodedRuns:
    """The runs that this process has decoded, the last used ones; a pickled copy starts empty."""

    def __init__(self, run_frames: int, *, kept: int) -> None:
        """Remember sizes; nothing is decoded.

        Args:
            run_frames: Frames per run.
            kept: Runs kept at most.
        """
        self._run_frames, self._kept = run_frames, kept
        self._runs: OrderedDict[RunKey, _Run] = OrderedDict()
        self.decoded = 0

    def __getstate__(self) -> dict[str, Any]:
        return {"run_frames": self._run_frames, "kept": self._kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["run_frames"], kept=state["kept"])  # type: ignore[misc]

    def images(
        self, reader: EpisodeReader, numbers: Numbers, *, recipe: Recipe, starts: NDArray[np.int64], content: str
    ) -> dict[str, CameraImages]:
        """Read what `read_images` reads, from whole runs. The frames before a run that its image history needs are decoded with it.

        Args:
            reader: The episode.
            numbers: Its numbers.
            recipe: What a sample is.
            starts: (n,) start frames.
            content: Content digest of the episode.
        """
        number = starts // self._run_frames
        found: dict[str, list[CameraImages]] = {camera: [] for camera in recipe.cameras}
        places = []
        for run in np.unique(number).tolist():
            at = np.flatnonzero(number == run)
            view = self._run(reader, (content, run), recipe=recipe, lead=_lead(recipe, numbers))
            for camera, images in read_images(view, numbers, recipe=recipe, starts=starts[at]).items():
                found[camera].append(images)
            places.append(at)
        back = np.argsort(np.concatenate(places), kind="stable") if places else np.zeros(0, np.int64)
        return {
            camera: CameraImages(np.concatenate([p.frames for p in parts])[back], np.concatenate([p.mask for p in parts])[back])
            for camera, parts in found.items()
        }

    def _run(self, reader: EpisodeReader, key: RunKey, *, recipe: Recipe, lead: int) -> _Run:
        run = self._runs.get(key)
        if run is None:
            start = key[1] * self._run_frames
            end = min(reader.meta.total_frames, start + self._run_frames)
            run = self._runs[key] = _Run(reader, recipe.cameras, first=max(0, start - lead), end=end)
            self.decoded += 1
            while len(self._runs) > self._kept:
                self._runs.popitem(last=False)
        self._runs.move_to_end(key)
        return run


def _lead(recipe: Recipe, numbers: Numbers) -> int:
    """Frames before a sample that its image history reaches back to."""
    return (recipe.image_history.count - 1) * frames_in(recipe.image_history.gap_s, numbers.fps)
