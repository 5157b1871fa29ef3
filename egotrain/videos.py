"""Overlay videos of pinned episodes: every frame, at the episode's own rate, with what the policy predicts at it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from egodata.episode import EpisodeReader
from egodata.geometry.pose import matrix_from_pose, transform_points
from egodata.progress import Progress, silent
from egodata.reports.overlay import enlarged
from egodata.reports.prediction import ChunkPath, JointChunk, draw_prediction, png_bytes
from egodata.reports.tracks import Tracks, load_tracks, pick_camera
from egodata.sampling import ArmParts, HeadSource, Recipe, Sample, actions_to_parts, pin_clips
from egodata.schema.features import HEAD_POSE
from egodata.stats import NormStats
from egodata.torch import make_loader
from egodata.video.write import write_mp4
from egotrain.evaluation import predict_chunks
from egotrain.metrics import arm_masks, chunk_metrics, common_frame
from egotrain.module import TrainModule
from egotrain.run_data import RunData

WIDTH_PX = 960
_BATCH_FRAMES = 16
_SHOWN = (
    ("xyz_l2_early_m", "early", "{:.1f} cm", 100.0),
    ("xyz_l2_mid_m", "mid", "{:.1f} cm", 100.0),
    ("xyz_l2_late_m", "late", "{:.1f} cm", 100.0),
    ("rotation_deg", "rotation", "{:.0f} deg", 1.0),
)


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a policy says at every usable frame of an episode, un-normalised, beside the samples it saw.

    Attributes:
        samples: Without images, not normalised, by frame.
        actions: (n, S, D).
    """

    samples: Sequence[Sample]
    actions: NDArray[np.float32]


def predict_clip(module: TrainModule, source: HeadSource, *, indices: NDArray[np.int64], stats: NormStats, batch_size: int) -> Predicted:
    """Predict at samples of a head, deterministically."""
    training = module.training
    module.eval()
    inverse = stats.normalisers(module.data.normalisation)["action"].inverse
    chunks, at = [], 0
    with torch.inference_mode(), module.scored_weights():
        for batch in make_loader(source, batch_size=batch_size, indices=indices):
            chunks.append(inverse(predict_chunks(module, batch, indices=indices[at : at + len(batch["frame"])])))
            at += len(batch["frame"])
    module.train(training)
    return Predicted(source.with_normalisers({}).samples(indices.tolist(), with_images=False), np.concatenate(chunks))


def head_videos(
    module: TrainModule,
    data: RunData,
    *,
    head: str,
    pins: Sequence[str],
    out: Path,
    batch_size: int,
    progress: Progress = silent,
) -> list[Path]:
    """Write ``<out>/<head>/<episode>.mp4`` for each pin, and a picture of its middle frame beside it.

    Raises:
        GateError: A pin is not in the head.
    """
    written = []
    part = data.part_of(head)
    source = part.sources[head]
    for clip in pin_clips(source, pins):
        found = predict_clip(module, source, indices=clip.indices, stats=part.stats, batch_size=batch_size)
        path = out / head.replace(":", "/") / f"{clip.episode_id}.mp4"
        reader = source.reader(source.index.locate(clip.indices[:1])[0].item())
        write_video(reader, path, recipe=part.recipe, predicted=found, progress=progress)
        written.append(path)
    return written


def write_video(reader: EpisodeReader, path: Path, *, recipe: Recipe, predicted: Predicted, progress: Progress = silent) -> int:
    """Write the overlay video of an episode; frames without a sample are shown and say so. Returns the number of frames."""
    total = reader.meta.total_frames
    path.parent.mkdir(parents=True, exist_ok=True)
    middle = total // 2

    def pictures() -> Iterator[NDArray[np.uint8]]:
        for frame, picture in enumerate(overlay_frames(reader, recipe=recipe, predicted=predicted)):
            progress("video", frame, total)
            if frame == middle:
                path.with_suffix(".png").write_bytes(png_bytes(picture))
            yield picture

    count = write_mp4(path, pictures(), fps=reader.meta.fps, preset="veryfast", crf=22)
    progress("video", total, total)
    return count


def overlay_frames(reader: EpisodeReader, *, recipe: Recipe, predicted: Predicted) -> Iterator[NDArray[np.uint8]]:
    """Yield every frame of an episode with the prediction at it."""
    camera = pick_camera(reader, recipe.cameras[0] if recipe.cameras else None)
    tracks = load_tracks(reader, camera)
    world_T_head = _head_poses(reader)
    at = {sample.frame: n for n, sample in enumerate(predicted.samples)}
    total = reader.meta.total_frames
    for first in range(0, total, _BATCH_FRAMES):
        frames = range(first, min(first + _BATCH_FRAMES, total))
        for frame, picture in zip(frames, reader.frames(camera, frames), strict=True):
            canvas = enlarged(picture, WIDTH_PX)
            header = (
                f"{reader.meta.episode_id} | {frame}/{total} | {tracks.seconds[frame]:.2f} s | {reader.meta.operator or 'operator unknown'}"
            )
            if frame not in at:
                lines = ["no hand is valid at this frame: nothing is predicted"]
                yield draw_prediction(canvas, tracks, frame=frame, paths={}, joints=None, header=header, lines=lines)
                continue
            sample, action = predicted.samples[at[frame]], predicted.actions[at[frame]]
            yield _drawn(canvas, tracks, sample, action, recipe=recipe, world_T_head=world_T_head, header=header)


def _drawn(
    canvas: NDArray[np.uint8],
    tracks: Tracks,
    sample: Sample,
    action: NDArray[np.float32],
    *,
    recipe: Recipe,
    world_T_head: NDArray[np.float64] | None,
    header: str,
) -> NDArray[np.uint8]:
    scores = chunk_metrics(
        action[None], sample.action[None], mask=sample.action_mask[None], recipe=recipe, reference=sample.reference[None]
    )
    lines = [f"prompt: {sample.prompt or '(none)'}", f"error: {_errors_line(scores)}"]
    if recipe.action_layout.of_joints:
        truth = np.where(sample.action_mask, sample.action, np.nan).astype(np.float64)
        joints = JointChunk(truth, action.astype(np.float64))
        return draw_prediction(canvas, tracks, frame=sample.frame, paths={}, joints=joints, header=header, lines=lines)
    frame_pose = world_T_head[sample.frame] if world_T_head is not None and common_frame(recipe) == "head" else None
    there, true = (_positions(actions_to_parts(chunk, recipe, reference=sample.reference)) for chunk in (action, sample.action))
    known = arm_masks(sample.action_mask, recipe).poses
    paths = {}
    for arm, side in enumerate(recipe.arms):
        if sample.arm_valid[-1, arm]:
            truth = np.where(known[:, arm, None], true[:, arm], np.nan)
            paths[side] = ChunkPath(_in_world(truth, frame_pose), _in_world(there[:, arm], frame_pose))
    return draw_prediction(canvas, tracks, frame=sample.frame, paths=paths, joints=None, header=header, lines=lines)


def _positions(parts: ArmParts) -> NDArray[np.float64]:
    """Return where arms are (S, A, 3): their poses, else the wrist among their keypoints."""
    if parts.poses is not None:
        return parts.poses.positions
    if parts.points is not None:
        return np.asarray(parts.points[..., 0, :])
    raise ValueError("arms without poses and keypoints")


def _in_world(points: NDArray[np.float64], world_T_head: NDArray[np.float64] | None) -> NDArray[np.float64]:
    return points if world_T_head is None else transform_points(world_T_head, points)


def _head_poses(reader: EpisodeReader) -> NDArray[np.float64] | None:
    if HEAD_POSE not in reader.meta.features:
        return None
    rows = reader.rows([HEAD_POSE], [(0, reader.meta.total_frames)])[HEAD_POSE]
    return matrix_from_pose(np.asarray(rows, np.float64))


def _errors_line(scores: Mapping[str, float]) -> str:
    """Return the errors of one chunk as a caption, in the coordinate frame named first; parts that were not recorded are left out."""
    frame = next(iter(scores)).partition(".")[0]
    known = {name: value for name, value in scores.items() if value == value}
    parts = [f"{word} {text.format(scale * known[f'{frame}.{name}'])}" for name, word, text, scale in _SHOWN if f"{frame}.{name}" in known]
    if not parts:
        parts = [f"{name.partition('.')[2]} {value:.3g}" for name, value in known.items()]
    return ", ".join(parts) or "nothing recorded ahead"
