"""Read one Scale recording into drafts, one per piece."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.annotations import Span
from egodata.calibration import Calibration
from egodata.episode import Clip, EpisodeDraft, EpisodeMeta, VideoSource
from egodata.vendors.base import Drafts, Notes, RecordingRef
from egodata.vendors.frames import measured_rate, standard_rate, stored_size
from egodata.vendors.human import (
    CONVENTION,
    Arrays,
    Specs,
    add_filled,
    canonical_embodiment,
    check_head_motion,
    human_numbers,
    poses_from_xyz_quat,
    report_missing,
)
from egodata.vendors.matching import at_frames, check_clock, common_length, increasing, report_header
from egodata.vendors.scale.annotation import AnnotationFile, TextClip, read_annotation_file, read_clips, read_hands
from egodata.vendors.scale.config import ScaleConfig
from egodata.vendors.scale.discover import VIDEOS
from egodata.vendors.scale.fill import fill_gaps
from egodata.vendors.scale.intrinsics import read_calibration
from egodata.vendors.scale.pieces import covered, cut, inside, span_of
from egodata.vendors.scale.scene import Sensor, read_sensor
from egodata.video import VideoScan, scan_video

SUB_GOAL, ISSUE, TRACKING_ERROR = "Sub-goal", "Collector Issue", "Hand Tracking Error"
UNIX_FROM_NS = 10**17
MIN_RATE, MAX_RATE = Fraction(1), Fraction(480)


@dataclass(frozen=True, slots=True)
class _Recording:
    """One recording on its frames; T frames."""

    frames_ns: NDArray[np.int64]
    fps: Fraction
    numbers: tuple[Arrays, Specs]
    spans: Mapping[str, tuple[Span, ...]]
    extra: Mapping[str, Any]
    clips: tuple[Mapping[str, Any], ...]
    task: str
    video: tuple[Path, tuple[int, int]]
    calibration: Calibration | None


def read_recording(ref: RecordingRef, config: ScaleConfig) -> Drafts:
    """Read one recording; each piece of it is an episode.

    Raises:
        SetAside: A file is missing or unusable by the rules of docs/vendors/scale.md, or no piece is long enough.
        VideoError: The video cannot be read.
    """
    notes = Notes(ref.id)
    scene, video, camera = _files(ref, notes)
    file = read_annotation_file([path for path in ref.files["media"] if path.suffix.lower() == ".json"], notes)
    scan = scan_video(video)
    report_header(scan, name=video.name, notes=notes)
    sensor = read_sensor(scene, camera, notes=notes)
    frames_ns, fps = _frames(sensor, scan, config, notes)
    size = stored_size(scan.width, scan.height, limit=config.stored_size_px)
    calibration = read_calibration(sensor, size=size, scan=scan, config=config, notes=notes)
    clips, labels = read_clips(file, notes)
    head = _head(sensor, frames_ns, fps, config=config, notes=notes)
    hands, filled = _hands(file, frames_ns, clips, limit_ns=float(config.match_tolerance * 10**9 / fps), config=config, notes=notes)
    report_missing(head, hands, share=config.missing_hand_share, notes=notes)
    check_head_motion(head, jump_m=config.head_jump_m, notes=notes)
    arrays, specs = human_numbers(head, hands, stamps_ns=frames_ns, notes=notes)
    for side, mask in filled.items():
        add_filled((arrays, specs), side, filled=mask)
    spans = _spans(clips, labels, frames_ns, config=config, notes=notes)
    told = tuple(_told(clip, frames_ns) for clip in clips if clip.attributes)
    recording = _Recording(frames_ns, fps, (arrays, specs), spans, _extra(file, sensor), told, _task(file), (video, size), calibration)
    present = np.any([np.isfinite(points).any((1, 2)) for points in hands.values()], axis=0)
    inactive = covered([clip for clip in clips if _is_inactive(clip, config)], frames_ns)
    pieces = cut(inactive, np.asarray(present, np.bool_), frames_ns=frames_ns, config=config, notes=notes)
    if not pieces:
        notes.refuse("no-piece", f"no run of {config.piece_frames[0]} usable frames among {len(frames_ns)}: nothing to build.")
    canonical_embodiment(config.embodiment, notes)
    drafts = [_draft(ref, recording, config, notes, place=(index, start, end)) for index, (start, end) in enumerate(pieces)]
    return Drafts(tuple(drafts), tuple(notes.found))


def _files(ref: RecordingRef, notes: Notes) -> tuple[Path, Path, str]:
    media = ref.files["media"]
    scenes = [path for path in media if path.suffix.lower() == ".sfs"]
    if len(scenes) != 1:
        notes.refuse("file-missing", f"{len(scenes)} .sfs scenes, expected 1. Ask for the files again.", stream="scene")
    videos = {name: [path for path in media if path.suffix.lower() == ".mp4" and name in path.name] for name in VIDEOS}
    name = next((name for name, found in videos.items() if found), VIDEOS[0])
    if len(videos[name]) != 1:
        text = f"{len(videos[name])} videos called {' or '.join(VIDEOS)}, expected 1. Ask for the file."
        notes.refuse("file-missing", text, stream="video")
    return scenes[0], videos[name][0], name


def _frames(sensor: Sensor, scan: VideoScan, config: ScaleConfig, notes: Notes) -> tuple[NDArray[np.int64], Fraction]:
    """Settle the frames' times: the scene's own for the video, else one pose per frame."""
    stamps, _ = increasing(sensor.stamps_ns, sensor.poses, stream=f"{sensor.id} poses", notes=notes)
    given, what = (stamps, "poses") if sensor.frames_ns is None else (sensor.frames_ns, "frame times")
    total = common_length(len(given), scan.frames, tail=config.trim_tail_frames, what=f"{sensor.id} {what}", notes=notes)
    frames = given[:total]
    rate = measured_rate(frames)
    if rate is not None and not MIN_RATE <= rate <= MAX_RATE:
        notes.refuse(
            "time-unit", f"{sensor.id} {what}: {float(rate):.3g} frames per second if its times are microseconds. Ask for the unit."
        )
    fps = standard_rate(scan.fps) if rate is None else standard_rate(rate)
    drift = np.abs((frames - frames[0]) - scan.pts_ns[:total])
    if drift.max() > config.clock_drift_s * 1e9:
        at = int(drift.argmax())
        notes.add(
            "clock-drift",
            f"the scene's clock and the video's pts are {drift[at] / 1e6:.0f} ms apart at frame {at}, "
            f"allowed {config.clock_drift_s * 1e3:.0f} ms",
            stream=sensor.id,
            frames=(at, at + 1),
        )
    return frames, fps


def _head(sensor: Sensor, frames_ns: NDArray[np.int64], fps: Fraction, *, config: ScaleConfig, notes: Notes) -> NDArray[np.float64]:
    stamps, rows = increasing(sensor.stamps_ns, sensor.poses, stream=f"{sensor.id} poses", notes=Notes(notes.recording))
    check_clock(frames_ns, stamps, stream=f"{sensor.id} poses", tolerance_s=config.clock_drift_s, notes=notes)
    poses, usable = poses_from_xyz_quat(rows[:, :3], rows[:, [6, 3, 4, 5]], tolerance=config.quat_norm_tolerance)
    if not usable.all():
        at = int(np.flatnonzero(~usable)[0])
        notes.add(
            "head-pose-invalid",
            f"{sensor.id} poses: {int((~usable).sum())} rows have no usable position or a quaternion whose norm is off by more than "
            f"{config.quat_norm_tolerance:g}, first row {at}; masked",
            stream="obs_head_pose",
            frames=(at, at + 1),
        )
    return at_frames(frames_ns, (stamps, poses), limit_ns=float(config.match_tolerance * 10**9 / fps))


def _hands(
    file: AnnotationFile, frames_ns: NDArray[np.int64], clips: list[TextClip], *, limit_ns: float, config: ScaleConfig, notes: Notes
) -> tuple[dict[str, NDArray[np.float64]], dict[str, NDArray[np.bool_]]]:
    hands, times = read_hands(file, frames_ns, limit_ns=limit_ns, notes=notes)
    check_clock(frames_ns, times, stream="points", tolerance_s=config.clock_drift_s, notes=notes)
    filled: dict[str, NDArray[np.bool_]] = {}
    for side, points in hands.items():
        count = np.isfinite(points).all(-1).sum(1)
        few = (count > 0) & (count < config.min_points)
        if few.any():
            text = f"{int(few.sum())} times the {side} hand has fewer than {config.min_points} points; it is missing there"
            notes.add("hand-incomplete", text, stream=f"{side}.obs_keypoints")
        wrong = covered([clip for clip in clips if clip.label == TRACKING_ERROR and _concerns(clip, side)], frames_ns)
        if wrong.any():
            at = np.flatnonzero(wrong)
            text = f"{len(at)} frames of the {side} hand lie in a {TRACKING_ERROR} clip, first {at[0]}; masked"
            notes.add("tracking-error", text, stream=f"{side}.obs_keypoints", frames=(int(at[0]), int(at[-1]) + 1))
        points[few | wrong] = np.nan
        if config.fill is not None:
            seconds = (frames_ns - frames_ns[0]) / 1e9
            hands[side], filled[side], left_open = fill_gaps(points, seconds, config=config.fill)
            text = f"{int(filled[side].sum())} frames of the {side} hand were filled, {left_open} short gaps stayed open"
            notes.add("hand-filled", text, stream=f"{side}.obs_keypoints")
    return hands, filled


def _concerns(clip: TextClip, side: str) -> bool:
    named = [value.lower() for name in ("Hand", "Hand Used") for value in clip.attributes.get(name, ())]
    return not named or side in named or "both" in named


def _is_inactive(clip: TextClip, config: ScaleConfig) -> bool:
    return clip.label == ISSUE and bool(set(clip.attributes.get("Collector Quality Issue", ())) & set(config.drop_issues))


def _spans(
    clips: list[TextClip], labels: list[str], frames_ns: NDArray[np.int64], *, config: ScaleConfig, notes: Notes
) -> dict[str, tuple[Span, ...]]:
    if SUB_GOAL not in labels:
        return {}
    spans, refused = [], 0
    for clip in clips:
        if clip.label != SUB_GOAL:
            continue
        start, end = span_of(clip, frames_ns)
        if start < end and clip.text.strip():
            spans.append(Span(clip.text, start, end))
        else:
            refused += 1
    if refused:
        notes.counts["refused_spans"] = refused
        notes.add("spans-refused", f"{refused} {SUB_GOAL} clips have no text, or lie outside the video or between two frames; left out")
    return {config.subtask_key: tuple(spans)}


def _extra(file: AnnotationFile, sensor: Sensor) -> dict[str, Any]:
    attributes = {name: list(values) for name, values in sorted(file.attributes.items())}
    return {"scale_sensor": sensor.id, **({"scale_attributes": attributes} if attributes else {})}


def _told(clip: TextClip, frames_ns: NDArray[np.int64]) -> dict[str, Any]:
    start, end = span_of(clip, frames_ns)
    return {
        "label": clip.label,
        "start": start,
        "end": end,
        "attributes": {name: list(values) for name, values in sorted(clip.attributes.items())},
    }


def _clips_inside(clips: Sequence[Mapping[str, Any]], piece: tuple[int, int]) -> dict[str, Any]:
    """Return the clips that touch a piece, in its frames: what is said of other pieces is no part of it."""
    start, end = piece
    here = [
        {**clip, "start": max(clip["start"], start) - start, "end": min(clip["end"], end) - start}
        for clip in clips
        if max(clip["start"], start) < min(clip["end"], end)
    ]
    return {"scale_clips": here} if here else {}


def _task(file: AnnotationFile) -> str:
    return "; ".join(text for text in file.attributes.get("Demonstration", ()) if text.strip())


def _draft(ref: RecordingRef, recording: _Recording, config: ScaleConfig, notes: Notes, *, place: tuple[int, int, int]) -> EpisodeDraft:
    (index, start, end), (arrays, specs) = place, recording.numbers
    whole = (start, end) == (0, len(recording.frames_ns))
    name = ref.id if whole else f"{ref.id}-c{start}-{end}"
    meta = EpisodeMeta(
        episode_id=name,
        recording_id=ref.id,
        clip=Clip(index, start, end, aliased=whole),
        vendor="scale",
        dataset=ref.dataset,
        delivery=ref.delivery,
        operator=None,
        session=None,
        embodiment=canonical_embodiment(config.embodiment, Notes(ref.id)),
        task_name=recording.task or ref.dataset,
        task_description=recording.task,
        total_frames=end - start,
        fps=recording.fps,
        clock="unix" if int(recording.frames_ns[0]) >= UNIX_FROM_NS else "device",
        reference_camera=config.camera,
        hand_frame_convention=CONVENTION,
        features=specs,
        provenance=dict(notes.counts),
        extra={**recording.extra, **_clips_inside(recording.clips, (start, end))},
    )
    video, size = recording.video
    videos = {config.camera: VideoSource(video, np.arange(start, end, dtype=np.int64), size)}
    cut_arrays = {key: array[start:end] for key, array in arrays.items()}
    annotations = {key: inside(spans, (start, end)) for key, spans in recording.spans.items()}
    return EpisodeDraft(meta, cut_arrays, videos, annotations, recording.calibration)
