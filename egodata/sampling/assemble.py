"""Numbers, images and texts of one episode put together into samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from egodata.sampling.cache import Numbers
from egodata.sampling.prompts import choose_prompt, prompt_candidates
from egodata.sampling.recipe import Recipe
from egodata.sampling.types import Bools, EpisodeWindows, Floats, Normaliser, Sample
from egodata.sampling.windows import frames_in, history_frames

IDENTITY_POSE = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class CameraImages:
    """Frames of one camera for n samples: (n, N, H, W, 3) uint8 RGB, and which are recorded (n, N)."""

    frames: NDArray[np.uint8]
    mask: Bools


class FrameGiver(Protocol):
    """What gives decoded frames: an episode's reader, or a run of it that is decoded already."""

    def frames(self, camera: str, indices: Sequence[int]) -> NDArray[np.uint8]:
        """Return frames (N, H, W, 3) uint8 RGB in the order asked for."""
        ...


def read_images(reader: FrameGiver, numbers: Numbers, *, recipe: Recipe, starts: NDArray[np.int64]) -> dict[str, CameraImages]:
    """Read the image history of many samples of an episode, by camera; each distinct frame is decoded once.

    A frame that the camera did not record is black and not in the mask.
    """
    stride = frames_in(recipe.image_history.gap_s, numbers.fps)
    wanted, real = history_frames(starts, count=recipe.image_history.count, stride=stride, before_start=recipe.image_history.before_start)
    distinct, position = np.unique(wanted, return_inverse=True)
    out = {}
    for camera in recipe.cameras:
        frames = reader.frames(camera, distinct.tolist())
        mask = real
        if camera in numbers.camera_valid:
            recorded = numbers.camera_valid[camera]
            frames = np.where(recorded[distinct][:, None, None, None], frames, np.uint8(0))
            mask = real & recorded[wanted]
        out[camera] = CameraImages(frames[position.reshape(wanted.shape)], mask)
    return out


def _normalised(values: Floats, valid: Bools, normaliser: Normaliser | None) -> Floats:
    if normaliser is None:
        return np.where(valid, values, np.float32(0))
    return normaliser.forward(values, valid)


def episode_samples(
    episode_id: str,
    numbers: Numbers,
    *,
    recipe: Recipe,
    windows: EpisodeWindows,
    images: Mapping[str, CameraImages],
    draws: Sequence[tuple[int, int, int]] | None,
    normalisers: Mapping[str, Normaliser],
) -> list[Sample]:
    """Make the samples of one episode's start frames.

    Args:
        episode_id: The episode.
        numbers: Its numbers.
        recipe: What a sample is.
        windows: Actions and proprio of the n start frames.
        images: By camera, for the same frames; empty without images.
        draws: Per sample (base seed, epoch, sample index), to draw prompts; None takes the first.
        normalisers: For ``action`` and ``proprio``.
    """
    action = _normalised(windows.actions, np.isfinite(windows.actions), normalisers.get("action"))
    proprio = _normalised(windows.proprio, windows.proprio_valid, normalisers.get("proprio"))
    reference = numbers.tracks.reference[windows.frames].astype(np.float32)
    reference = np.where(np.isfinite(reference).all(-1, keepdims=True), reference, np.array(IDENTITY_POSE, np.float32))
    samples = []
    for n, frame in enumerate(windows.frames.tolist()):
        prompts = prompt_candidates(recipe, numbers.spans, frame=frame)
        samples.append(
            Sample(
                episode_id=episode_id,
                frame=frame,
                images={camera: found.frames[n] for camera, found in images.items()},
                image_mask={camera: found.mask[n] for camera, found in images.items()},
                proprio=proprio[n],
                proprio_mask=windows.proprio_mask[n],
                arm_valid=windows.arm_valid[n],
                action=action[n],
                action_mask=windows.action_mask[n],
                reference=reference[n],
                prompts=prompts,
                prompt=choose_prompt(prompts, default=recipe.default_prompt, draw=None if draws is None else draws[n]),
                fps=float(numbers.fps),
                embodiment=numbers.embodiment,
                draw=None if draws is None else draws[n],
            )
        )
    return samples
