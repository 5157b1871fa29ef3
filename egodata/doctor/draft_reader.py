"""A draft seen as an episode that can be read, so that the checks of stored episodes work before anything is stored."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.annotations import Span
from egodata.calibration import Calibration
from egodata.episode import EpisodeDraft, EpisodeMeta, VideoInfo
from egodata.errors import FeatureNotFoundError, HandleError
from egodata.names import nearest
from egodata.schema.digests import EpisodeDigests
from egodata.schema.features import FeatureSpec, camera_key


class DraftReader:
    """Numbers, spans and calibration of a draft behind `egodata.episode.EpisodeReader`; its pictures are still in the vendor's files."""

    def __init__(self, draft: EpisodeDraft) -> None:
        self.draft = draft
        cameras = {
            camera_key(name): FeatureSpec("h264", (source.size[1], source.size[0], 3), ("height", "width", "channel"))
            for name, source in draft.videos.items()
        }
        self._meta = replace(draft.meta, features={**draft.meta.features, **cameras})

    @property
    def meta(self) -> EpisodeMeta:
        """Attributes, with the cameras that the writer would add."""
        return self._meta

    @property
    def digests(self) -> EpisodeDigests:
        """Refuse: a draft has none."""
        raise HandleError(f"episode {self._meta.episode_id}: not stored yet, so it has no digests.")

    @property
    def calibration(self) -> Calibration | None:
        """Calibration, or None where unknown."""
        return self.draft.calibration

    @property
    def annotation_keys(self) -> tuple[str, ...]:
        """Keys that are present, sorted."""
        return tuple(sorted(self.draft.annotations))

    @property
    def structure_keys(self) -> tuple[str, ...]:
        """Keys of structural spans that are present, sorted."""
        return tuple(sorted(self.draft.structure))

    def spans(self, key: str) -> tuple[Span, ...] | None:
        """Return the spans of a key; None if it is absent."""
        found = self.draft.annotations.get(key, self.draft.structure.get(key))
        return None if found is None else tuple(found)

    def rows(self, keys: Sequence[str], ranges: Sequence[tuple[int, int]]) -> dict[str, NDArray[Any]]:
        """Return a copy of a row range per key.

        Raises:
            FeatureNotFoundError: No such key.
        """
        for key in keys:
            if key not in self.draft.arrays:
                raise FeatureNotFoundError(f"episode {self._meta.episode_id}: no array {key!r}; {nearest(key, self.draft.arrays)}")
        return {key: np.array(self.draft.arrays[key][start:end]) for key, (start, end) in zip(keys, ranges, strict=True)}

    def frames(self, camera: str, indices: Sequence[int]) -> NDArray[np.uint8]:
        """Refuse: read the vendor's file instead."""
        raise HandleError(f"episode {self._meta.episode_id}: not stored yet, so camera {camera} has no frames {list(indices)[:1]}.")

    def video_info(self, camera: str) -> VideoInfo:
        """Refuse: nothing is encoded yet."""
        raise HandleError(f"episode {self._meta.episode_id}: not stored yet, so camera {camera} has no elements.")

    def video_chunk(self, camera: str, index: int) -> bytes:
        """Refuse: nothing is encoded yet."""
        raise HandleError(f"episode {self._meta.episode_id}: not stored yet, so camera {camera} has no element {index}.")

    def close(self) -> None:
        """Hold nothing."""
