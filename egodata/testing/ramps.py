"""Ramp episodes as drafts, so that a real store holds them: every number is known, and every frame has its number drawn in."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from egodata.annotations import divided
from egodata.episode import EpisodeDraft, FrameSource
from egodata.schema.features import TIMESTAMPS, is_camera, timestamps_spec
from egodata.testing.memory import MemoryEpisode

SIZE = (64, 48)
_BLOCK_PX = 16
_DARK, _BRIGHT = 40, 215
_NUMBER_BITS, _BITS = 10, 12


def numbered_frame(number: int, camera: int) -> NDArray[np.uint8]:
    """Draw a frame (48, 64, 3): its number in the first ten blocks of 16 pixels as bits, lowest first, then the camera's in two."""
    image = np.empty((SIZE[1], SIZE[0], 3), np.uint8)
    word = number | camera << _NUMBER_BITS
    columns = SIZE[0] // _BLOCK_PX
    for bit in range(_BITS):
        row, column = divmod(bit, columns)
        value = _BRIGHT if word >> bit & 1 else _DARK
        image[row * _BLOCK_PX : (row + 1) * _BLOCK_PX, column * _BLOCK_PX : (column + 1) * _BLOCK_PX] = value
    return image


def read_number(image: NDArray[np.uint8]) -> tuple[int, int]:
    """Read back what `numbered_frame` drew, from the means of the blocks: the number and the camera."""
    blocks = image.reshape(SIZE[1] // _BLOCK_PX, _BLOCK_PX, SIZE[0] // _BLOCK_PX, _BLOCK_PX, 3).mean((1, 3, 4)).ravel()
    word = sum(1 << bit for bit in range(_BITS) if blocks[bit] > (_DARK + _BRIGHT) / 2)
    return word % (1 << _NUMBER_BITS), word >> _NUMBER_BITS


def _frames(total: int, camera: int) -> Iterator[NDArray[np.uint8]]:
    return (numbered_frame(number, camera) for number in range(total))


def ramp_draft(episode: MemoryEpisode) -> EpisodeDraft:
    """Turn a ramp episode into a draft with time stamps and numbered frames; camera numbers follow their sorted names."""
    meta, total = episode.meta, episode.meta.total_frames
    step_ns = 1_000_000_000 * meta.fps.denominator
    stamps = np.arange(total, dtype=np.int64) * step_ns // meta.fps.numerator
    features = {key: spec for key, spec in meta.features.items() if not is_camera(key, spec)}
    videos = {camera: FrameSource(partial(_frames, total, at), total, SIZE) for at, camera in enumerate(meta.cameras)}
    texts, structure = divided(episode.annotations)
    return EpisodeDraft(
        meta=replace(meta, features={**features, TIMESTAMPS: timestamps_spec()}),
        arrays={**episode.arrays, TIMESTAMPS: stamps},
        videos=videos,
        annotations=texts,
        calibration=episode.calibration,
        structure=structure,
    )
