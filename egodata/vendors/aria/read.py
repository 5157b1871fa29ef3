"""Read one Aria recording into a draft: RGB frames set the time, poses and hands are matched to them on the device's clock."""

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from egodata.calibration import Calibration
from egodata.episode import CameraSource, Clip, EpisodeDraft, EpisodeMeta, FrameSource
from egodata.findings import Severity
from egodata.geometry.pose import matrix_from_pose, pose_from_matrix, transform_points
from egodata.schema.features import SIDES
from egodata.vendors.aria.camera import UprightCamera, frames_of, upright_camera
from egodata.vendors.aria.config import AriaConfig
from egodata.vendors.aria.layout import HAND_FILES, HANDS, TRACK_FILE, TRACKS, WRIST_FILES
from egodata.vendors.aria.mps import Hands, Track, read_hands, read_track
from egodata.vendors.aria.vrs import dropped_streams, hands_in, open_vrs, stamps_of, stream_numbered, tools, track_in
from egodata.vendors.base import Drafts, Notes, RecordingRef
from egodata.vendors.frames import measured_rate, standard_rate
from egodata.vendors.human import CONVENTION, canonical_embodiment, check_head_motion, human_numbers, report_missing
from egodata.vendors.matching import at_frames

NO_CAMERA = ""
_FALLBACK_FPS = Fraction(30)
_Stream = TypeVar("_Stream", Track, Hands)


@dataclass(frozen=True, slots=True)
class _Source:
    """What a recording gives before anything is matched."""

    stamps_ns: NDArray[np.int64]
    camera: UprightCamera | None
    track: Track | None
    hands: Hands | None
    extra: dict[str, Any]


def read_recording(ref: RecordingRef, config: AriaConfig) -> Drafts:
    """Read one recording; one clip is the whole of it.

    Raises:
        SetAside: A file is unusable by the rules of docs/vendors/aria.md.
        VideoError: The VRS file cannot be read.
        MissingExtraError: It is a VRS file and projectaria-tools is not there.
    """
    notes = Notes(ref.id)
    vrs = None if ref.details["vrs"] is None else ref.root / ref.details["vrs"]
    track, hands = _mps(ref, config, notes)
    source = _without_vrs(track, hands, notes) if vrs is None else _with_vrs(vrs, track, hands, config=config, notes=notes)
    head, points = _in_world(source, config, notes)
    fps = _rate(source.stamps_ns, config, notes)
    report_missing(head, points, share=config.missing_hand_share, notes=notes)
    check_head_motion(head, jump_m=config.head_jump_m, notes=notes)
    arrays, features = human_numbers(head, points, stamps_ns=source.stamps_ns, notes=notes)
    total = len(source.stamps_ns)
    meta = EpisodeMeta(
        episode_id=ref.id,
        recording_id=ref.id,
        clip=Clip(0, 0, total, aliased=False),
        vendor="aria",
        dataset=ref.dataset,
        delivery=ref.delivery,
        operator=None,
        session=None,
        embodiment=canonical_embodiment(config.embodiment, notes),
        task_name=ref.dataset,
        task_description="",
        total_frames=total,
        fps=fps,
        clock="device",
        reference_camera=NO_CAMERA if source.camera is None else config.camera,
        hand_frame_convention=CONVENTION,
        features=features,
        provenance=dict(notes.counts),
        extra=source.extra,
    )
    videos: dict[str, CameraSource] = {}
    calibration = None
    if source.camera is not None and vrs is not None:
        make = partial(frames_of, vrs, source.camera, rows=np.arange(total), stream=config.rgb_stream)
        videos[config.camera] = FrameSource(make, total, source.camera.size)
        calibration = Calibration("head", {config.camera: source.camera.calibration})
    return Drafts((EpisodeDraft(meta, arrays, videos, {}, calibration, tuple(notes.found)),))


def _mps(ref: RecordingRef, config: AriaConfig, notes: Notes) -> tuple[Track | None, Hands | None]:
    """Read the trajectory and the best hand file whose times fall into it; the others are read for what is wrong with them."""
    if ref.details["mps"] is None:
        return None, None
    folder: Path = ref.root / ref.details["mps"]
    track_path = next((folder / name / TRACK_FILE for name in TRACKS if (folder / name / TRACK_FILE).is_file()), None)
    track = None if track_path is None else read_track(track_path, notes)
    chosen: Hands | None = None
    for name in (*HAND_FILES, *WRIST_FILES):
        path = folder / HANDS / name
        if not path.is_file():
            continue
        found = read_hands(path, min_confidence=config.min_confidence, notes=notes)
        if track is not None and not _overlap(found.stamps_ns, track.stamps_ns):
            _note_clock(found.source, found.stamps_ns, track.source, track.stamps_ns, notes=notes)
        elif chosen is None:
            chosen = found
            if name in WRIST_FILES:
                notes.add("hands-wrist-only", f"{name}: wrists without fingers; keypoint 0 only, so no hand pose", stream=name)
    return track, chosen


def _overlap(first_ns: NDArray[np.int64], second_ns: NDArray[np.int64]) -> bool:
    if not len(first_ns) or not len(second_ns):
        return True
    return bool(first_ns[0] <= second_ns[-1] and second_ns[0] <= first_ns[-1])


def _note_clock(name: str, stamps: NDArray[np.int64], other: str, against: NDArray[np.int64], *, notes: Notes) -> None:
    given, wanted = (f"{times[0] / 1e9:.1f} to {times[-1] / 1e9:.1f} s" for times in (stamps, against))
    notes.add(
        "clock-mismatch",
        f"{name}: {given}, {other} has {wanted} of the device's clock: another recording's, or another clock. Not used.",
        stream=name,
        expected=wanted,
        got=given,
    )


def _without_vrs(track: Track | None, hands: Hands | None, notes: Notes) -> _Source:
    if track is None or hands is None or not len(hands.stamps_ns):
        lack = "trajectory" if track is None else "hand tracking whose times fall into the trajectory"
        notes.refuse(
            "recording-absent", f"MPS output without its VRS file and without {lack}: nothing that makes an episode. Ask for the VRS."
        )
    notes.add(
        "camera-absent",
        "MPS output without its VRS file: an episode of poses without images, timed by its hand tracking; its head pose has the axes of "
        "the device, not those of a camera",
    )
    extra = {"poses_source": track.source, "hands_source": hands.source, "head_axes": "device"}
    return _Source(hands.stamps_ns, None, track, hands, extra)


def _with_vrs(path: Path, track: Track | None, hands: Hands | None, *, config: AriaConfig, notes: Notes) -> _Source:
    recording = open_vrs(path)
    stream = stream_numbered(recording, config.rgb_stream)
    if stream is None:
        notes.refuse("no-camera", f"{path.name}: no frames in stream {config.rgb_stream}. Record with the RGB camera on.", stream=path.name)
    stamps = stamps_of(recording, stream)
    if (np.diff(stamps) <= 0).any():
        at = int(np.flatnonzero(np.diff(stamps) <= 0)[0]) + 1
        notes.refuse("time-reset", f"{path.name}: the time of RGB frame {at} is not after that of frame {at - 1}.", stream=path.name)
    generation = 1 if recording.get_device_version() == tools("calibration").DeviceVersion.Gen1 else 2
    device = recording.get_device_calibration()
    camera = None if device is None else upright_camera(device, generation=generation, config=config)
    if camera is None:
        notes.refuse(
            "calibration-unknown",
            f"{path.name}: its calibration does not place the RGB camera on the glasses, so which way is up is unknown.",
            stream=path.name,
        )
    notes.counts["dropped_streams"] = dropped_streams(recording)
    own = (track_in(recording, notes) if track is None else track, hands_in(recording, min_confidence=config.min_confidence, notes=notes))
    track = _on_clock(own[0], stamps, notes)
    hands = _on_clock(hands if hands is not None else own[1], stamps, notes)
    for what, found in (("head pose", track), ("hands", hands)):
        if found is None:
            notes.add(
                "stream-absent", f"no {what}: neither MPS output nor a stream in {path.name}; unknown, masked in every frame", stream=what
            )
    extra = {
        "device_generation": generation,
        "poses_source": None if track is None else track.source,
        "hands_source": None if hands is None else hands.source,
        "quarter_turns_clockwise": camera.quarter_turns,
    }
    return _Source(stamps, camera, track, hands, extra)


def _on_clock(found: _Stream | None, stamps: NDArray[np.int64], notes: Notes) -> _Stream | None:
    if found is None or not len(found.stamps_ns) or _overlap(found.stamps_ns, stamps):
        return found
    _note_clock(found.source, found.stamps_ns, "the RGB stream", stamps, notes=notes)
    return None


def _in_world(source: _Source, config: AriaConfig, notes: Notes) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    """Return the head pose (T, 7) and per side the keypoints (T, 21, 3) in the world, NaN where unknown."""
    total = len(source.stamps_ns)
    device_T_head = np.eye(4) if source.camera is None else source.camera.device_T_camera
    nothing = {side: np.full((total, 21, 3), np.nan) for side in SIDES}
    if source.track is None:
        return np.full((total, 7), np.nan), nothing
    limit = config.pose_limit_s * 1e9
    at = at_frames(source.stamps_ns, (source.track.stamps_ns, source.track.poses), limit_ns=limit)
    head = pose_from_matrix(matrix_from_pose(at) @ device_T_head)
    if source.hands is None:
        return head, nothing
    held = at_frames(source.hands.stamps_ns, (source.track.stamps_ns, source.track.poses), limit_ns=limit)
    lost = int((~np.isfinite(held).all(1)).sum())
    if lost:
        notes.add(
            "hand-without-pose",
            f"{source.hands.source}: {lost} of {len(held)} rows have no head pose within {config.pose_limit_s * 1e3:g} ms, so no place "
            "in the world; invalid",
            stream=source.hands.source,
        )
    world_T_device = matrix_from_pose(held)
    points = {}
    for side, found in source.hands.points.items():
        world = transform_points(world_T_device, found).reshape(len(found), 63)
        points[side] = at_frames(source.stamps_ns, (source.hands.stamps_ns, world), limit_ns=config.hand_limit_s * 1e9).reshape(-1, 21, 3)
    return head, points


def _rate(stamps: NDArray[np.int64], config: AriaConfig, notes: Notes) -> Fraction:
    measured = measured_rate(stamps)
    if measured is None:
        notes.add("fps-unknown", "one frame has no rate; 30 is written", severity=Severity.INFO, stream="fps")
        return _FALLBACK_FPS
    steps = np.diff(stamps)
    far = np.flatnonzero(steps > config.gap_steps * np.median(steps))
    if len(far):
        notes.add(
            "frame-gap",
            f"{len(far)} steps between frames over {config.gap_steps:g} times the median {np.median(steps) / 1e6:.1f} ms, the longest "
            f"{steps.max() / 1e9:.2f} s, first after frame {far[0]}; the time stamps say so, nothing is filled in",
            stream="time",
            frames=(int(far[0]), int(far[-1]) + 2),
        )
    return standard_rate(measured)
