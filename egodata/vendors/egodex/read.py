"""Read one EgoDex recording into a draft."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.calibration import Calibration, CameraCalibration, pinhole_matrix
from egodata.episode import Clip, EpisodeDraft, EpisodeMeta, VideoSource
from egodata.findings import Severity
from egodata.vendors.base import Drafts, Notes, RecordingRef
from egodata.vendors.egodex.config import EgoDexConfig
from egodata.vendors.egodex.joints import other_joints, read_camera, read_hands
from egodata.vendors.frames import frame_times_ns, standard_rate, stored_size
from egodata.vendors.hdf5 import attribute_text, open_hdf5, read_numbers
from egodata.vendors.human import CONVENTION, canonical_embodiment, check_head_motion, human_numbers, report_missing
from egodata.vendors.matching import common_length, report_header
from egodata.video import VideoScan, scan_video

INTRINSIC = "camera/intrinsic"
EXTRA = ("task", "environment", "object", "session_name", "llm_type", "llm_objects", "llm_verbs")
ASPECT_TOLERANCE = 0.01


def video_of(path: Path) -> Path:
    """Return where the video of an HDF5 file lies: beside it, under the same stem."""
    return path.with_suffix(".mp4")


def read_recording(ref: RecordingRef, config: EgoDexConfig) -> Drafts:
    """Read one recording; one clip is the whole of it.

    Raises:
        SetAside: A file is missing or unusable by the rules of docs/vendors/egodex.md.
        VideoError: The video cannot be read.
    """
    notes = Notes(ref.id)
    path = ref.files["media"][0]
    video = video_of(path)
    if not video.is_file():
        notes.refuse("file-missing", f"{video.name}: not delivered. Ask for the file.", stream=video.name)
    scan = scan_video(video)
    report_header(scan, name=video.name, notes=notes)
    with open_hdf5(path, vendor="egodex", notes=notes) as file:
        head = read_camera(file, notes=notes)
        hands = read_hands(file, len(head), config=config, notes=notes)
        k = read_numbers(file, INTRINSIC, notes=notes)
        notes.counts["dropped_joints"] = other_joints(file, notes=notes)
        text = _text(file)
        extra = {name: value for name in EXTRA if (value := attribute_text(file, name))}
    total = common_length(len(head), scan.frames, tail=config.trim_tail_frames, what=path.name, notes=notes)
    head, hands = head[:total], {side: points[:total] for side, points in hands.items()}
    fps, stamps = _times(scan, total, config=config, notes=notes)
    report_missing(head, hands, share=config.missing_hand_share, notes=notes)
    check_head_motion(head, jump_m=config.head_jump_m, notes=notes)
    arrays, features = human_numbers(head, hands, stamps_ns=stamps, notes=notes)
    size = stored_size(scan.width, scan.height, limit=config.stored_size_px)
    calibration = _calibration(k, scan, size, config=config, notes=notes)
    meta = EpisodeMeta(
        episode_id=ref.id,
        recording_id=ref.id,
        clip=Clip(0, 0, total, aliased=False),
        vendor="egodex",
        dataset=ref.dataset,
        delivery=ref.delivery,
        operator=None,
        session=extra.get("session_name"),
        embodiment=canonical_embodiment(config.embodiment, notes),
        task_name=extra.get("task") or text or ref.dataset,
        task_description=text,
        total_frames=total,
        fps=fps,
        clock="frame0",
        reference_camera=config.camera,
        hand_frame_convention=CONVENTION,
        features=features,
        provenance=dict(notes.counts),
        extra=extra,
    )
    videos = {config.camera: VideoSource(video, np.arange(total, dtype=np.int64), size)}
    return Drafts((EpisodeDraft(meta, arrays, videos, {}, calibration, tuple(notes.found)),))


def _text(file: Any) -> str:
    """Return the instruction; of a task done in either direction, the text of this one."""
    second = attribute_text(file, "which_llm_description").strip() == "2"
    own = attribute_text(file, "llm_description2" if second else "llm_description")
    return own or attribute_text(file, "llm_description") or attribute_text(file, "description")


def _times(scan: VideoScan, total: int, *, config: EgoDexConfig, notes: Notes) -> tuple[Fraction, NDArray[np.int64]]:
    """Return frame rate and times from frame 0: t / fps, or the video's pts where its frames are not evenly spaced."""
    fps = standard_rate(scan.fps)
    if fps != config.fps and scan.frames > 1:
        text = f"the data set states {config.fps} fps, the video's pts give {float(fps):g}; the pts count"
        notes.add("fps-differs", text, stream="fps", expected=str(config.fps), got=str(fps))
    even, pts = frame_times_ns(np.arange(total), fps), scan.pts_ns[:total]
    off = np.abs(even - pts)
    if off.max() <= 5e8 / fps:
        return fps, even
    at = int(off.argmax())
    text = f"frames are not evenly spaced: frame {at} is {off[at] / 1e6:.0f} ms from {at} / {float(fps):g}; the video's pts count"
    notes.add("frames-uneven", text, stream="video", frames=(at, at + 1))
    return fps, pts


def _calibration(
    k: NDArray[np.float64] | None, scan: VideoScan, size: tuple[int, int], *, config: EgoDexConfig, notes: Notes
) -> Calibration | None:
    if k is None:
        notes.add("calibration-unknown", f"{INTRINSIC}: not in the file: calibration is unknown", severity=Severity.INFO, stream=INTRINSIC)
        return None
    width, height = config.intrinsic_size_px or (scan.width, scan.height)
    problem = _problem(k, (width, height), scan)
    if problem is not None:
        notes.add("calibration-unusable", f"{INTRINSIC}: {problem}. Calibration is unknown for this episode.", stream=INTRINSIC)
        return None
    camera = CameraCalibration(pinhole_matrix(k[0, 0], k[1, 1], k[0, 2], k[1, 2]), "PINHOLE", (), (width, height), rectified=True)
    return Calibration("head", {config.camera: camera.scaled(*size)})


def _problem(k: NDArray[np.float64], size: tuple[int, int], scan: VideoScan) -> str | None:
    width, height = size
    if k.shape != (3, 3) or not np.isfinite(k).all():
        return f"shape {k.shape}, expected nine finite numbers"
    if min(k[0, 0], k[1, 1]) <= 0 or np.abs(k[[0, 1, 2, 2], [1, 0, 0, 1]]).max() > 1e-6 * k[0, 0] or k[2, 2] != 1:
        return "not a pinhole matrix without skew"
    if not (0 <= k[0, 2] < width and 0 <= k[1, 2] < height):
        return f"principal point ({k[0, 2]:.1f}, {k[1, 2]:.1f}) lies outside the {width}x{height} image"
    if abs(width / height - scan.width / scan.height) > ASPECT_TOLERANCE * width / height:
        return f"made for {width}x{height}, the upright video is {scan.width}x{scan.height}: another aspect ratio, cropped or turned"
    return None
