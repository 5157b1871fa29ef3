"""Episodes in memory, so that the Lance copy is tested apart from the zarr format. Video is really encoded."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from egodata.annotations import encode_span
from egodata.calibration import calibration_attributes
from egodata.episode import EpisodeDraft, VideoInfo, semantic_attributes
from egodata.errors import EpisodeNotFoundError
from egodata.schema.digests import (
    EpisodeDigests,
    array_digest,
    calibration_digest,
    combined_digest,
    elements_digest,
    meta_digest,
)
from egodata.schema.features import FeatureSpec
from egodata.schema.layout import open_root
from egodata.testing.drafts import moving_frames, small_draft
from egodata.video import EncodeSettings, FrameReader, encode_frames

SETTINGS = EncodeSettings(profile="test", preset="ultrafast", frames_per_chunk=50)


class MemoryEpisode:
    """What `publish_draft` would store, in memory."""

    def __init__(self, draft: EpisodeDraft, seed: int):
        size = draft.videos["front_1"].size
        frames = moving_frames(draft.meta.total_frames, size, seed=seed)
        self.chunks = list(encode_frames(iter(frames), fps=draft.meta.fps, settings=SETTINGS))
        self.info = VideoInfo(*size, len(frames), 50, draft.meta.fps, SETTINGS.to_json())
        spec = FeatureSpec("h264", (size[1], size[0], 3), ("height", "width", "channel"), video=self.info.to_json())
        self.meta = replace(draft.meta, features={**draft.meta.features, "images.front_1": spec})
        self.arrays, self.calibration = dict(draft.arrays), draft.calibration
        self.annotations, self.structure_keys = {**draft.annotations, **draft.structure}, tuple(sorted(draft.structure))

    @property
    def digests(self) -> EpisodeDigests:
        media = {key: array_digest(key, self.arrays[key]) for key in self.meta.numeric_keys}
        media["images.front_1"] = elements_digest("images.front_1", self.chunks, count=len(self.chunks))
        texts = {key: elements_digest(key, map(encode_span, spans), count=len(spans)) for key, spans in self.annotations.items()}
        attributes = calibration_attributes(self.calibration)
        return EpisodeDigests(
            combined_digest(media),
            combined_digest(texts),
            calibration_digest(attributes),
            meta_digest(semantic_attributes(self.meta, None)),
        )

    @property
    def annotation_keys(self):
        return tuple(sorted(set(self.annotations) - set(self.structure_keys)))

    def spans(self, key):
        return tuple(self.annotations[key]) if key in self.annotations else None

    def rows(self, keys, ranges):
        return {key: self.arrays[key][start:end].copy() for key, (start, end) in zip(keys, ranges, strict=True)}

    def video_info(self, camera):
        return self.info

    def video_chunk(self, camera, index):
        return self.chunks[index]

    def frames(self, camera, indices):
        return FrameReader(self.info, self.chunks.__getitem__, where="memory").frames(indices)

    def close(self):
        pass


@dataclass
class MemoryStore:
    """Stands for the published zarr episodes."""

    folder: Any
    episodes: dict[str, MemoryEpisode] = field(default_factory=dict)

    def put(self, episode_id: str, *, seed: int = 0, frames: int = 60, **options: Any) -> MemoryEpisode:
        draft = small_draft(self.folder, frames=frames, seed=seed, episode_id=episode_id, **options)
        self.episodes[episode_id] = MemoryEpisode(draft, seed)
        return self.episodes[episode_id]

    def add_feature(self, episode_id: str, key: str, array: np.ndarray, *, unit: str = "") -> None:
        episode = self.episodes[episode_id]
        spec = FeatureSpec(array.dtype.name, array.shape[1:], unit=unit)
        episode.arrays[key] = array
        episode.meta = replace(episode.meta, features={**episode.meta.features, key: spec})

    def episode_ids(self):
        return sorted(self.episodes)

    def open(self, episode_id, *, content=None):
        if episode_id not in self.episodes:
            raise EpisodeNotFoundError(f"no {episode_id}")
        return self.episodes[episode_id]


@pytest.fixture
def paths(tmp_path):
    return open_root(tmp_path / "store", create=True)


@pytest.fixture
def source(tmp_path):
    return MemoryStore(tmp_path)


def second_generation(source: MemoryStore) -> MemoryStore:
    """From three episodes: one stays, one changes and gains a feature, one goes, one is new."""
    for seed, name in enumerate("abc"):
        source.put(name, seed=seed, frames=30)
    del source.episodes["c"]
    source.put("b", seed=7, frames=40)
    source.add_feature("b", "obs_joints", np.arange(80, dtype=np.float32).reshape(40, 2))
    source.put("d", seed=4, frames=30)
    return source
