"""Read one Mecka recording into a draft."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.episode import Clip, EpisodeDraft, EpisodeMeta, VideoSource
from egodata.findings import Severity
from egodata.geometry.hand import hand_poses
from egodata.geometry.pose import compose, pose_from_matrix, transform_points
from egodata.schema.features import (
    HEAD_POSE,
    TIMESTAMPS,
    FeatureSpec,
    keypoints_spec,
    mask_spec,
    pose_spec,
    timestamps_spec,
    valid_key,
)
from egodata.vendors.base import Drafts, Notes, RecordingRef
from egodata.vendors.files import Listing, entry_name
from egodata.vendors.frames import cast_float32, stored_size
from egodata.vendors.human import canonical_embodiment
from egodata.vendors.matching import report_header
from egodata.vendors.mecka.clock import Clock, read_clock
from egodata.vendors.mecka.config import MeckaConfig
from egodata.vendors.mecka.discover import episode_json, recording_files
from egodata.vendors.mecka.intrinsics import read_calibration
from egodata.vendors.mecka.spans import read_annotations
from egodata.vendors.mecka.streams import OPENCV_FROM_VENDOR, check_head, read_cameras, read_hands
from egodata.video import scan_video

CONVENTION = "anat-v1"
OPTIONAL = ("frames", "annotations", "intrinsics")
EXTRA = ("scene_id", "scene_desc", "environment_id", "objects")


def read_recording(ref: RecordingRef, config: MeckaConfig) -> Drafts:
    """Read one recording; one clip is the whole of it.

    Raises:
        SetAside: A file is missing or unusable by the rules of docs/vendors/mecka.md.
        VideoError: The video cannot be read.
    """
    notes = Notes(ref.id)
    there = Listing.of(ref.files["media"][0].parent)
    _, value = episode_json(ref.files["media"][0].parent, there)
    if value is None:
        notes.refuse("episode-json", "the episode JSON is gone or changed since the delivery was listed. Run it again.")
    given = value.get("user_id")
    if ref.operator is None and given is not None:
        notes.add("operator-unusable", f"user_id {str(given)[:40]!r}: expected text, so the operator is unknown", stream="user_id")
    files = recording_files(ref.files["media"][0], value, there=there)
    have = {kind: path if path.name in there.files else None for kind, path in files.items()}
    for kind in ("video", "hands", "egomotion"):
        if have[kind] is None:
            notes.refuse("file-missing", f"{files[kind].name}: not delivered. Ask for the file.", stream=files[kind].name)
    _report_undelivered(value["urls"], have, notes)
    scan = scan_video(files["video"])
    report_header(scan, name=files["video"].name, notes=notes)
    clock = read_clock(have["frames"], scan, config=config, notes=notes)
    arrays, features = _numbers(files, clock, config, notes)
    size = stored_size(scan.width, scan.height, limit=config.stored_size_px)
    calibration = read_calibration(have["intrinsics"], value.get("intrinsics"), size=size, scan=scan, config=config, notes=notes)
    annotations = read_annotations(have["annotations"], clock, config=config, notes=notes)
    total = len(clock.stamps_ns)
    video = VideoSource(files["video"], np.arange(total, dtype=np.int64), size)
    if config.undistort and calibration is not None:
        distorted = calibration.cameras[config.camera]
        video = replace(video, undistort=distorted)
        calibration = replace(calibration, cameras={config.camera: distorted.undistorted()})
    meta = _meta(ref, value, clock, config=config, features=features, notes=notes)
    return Drafts((EpisodeDraft(meta, arrays, {config.camera: video}, annotations, calibration, tuple(notes.found)),))


def _report_undelivered(urls: Mapping[str, Any], have: Mapping[str, Path | None], notes: Notes) -> None:
    """Warn of files that the episode JSON lists but that did not come: the episode is built without them."""
    for kind in OPTIONAL:
        if isinstance(urls.get(kind), str) and have[kind] is None:
            name = entry_name(urls[kind]) or kind
            notes.add(
                "listed-not-delivered",
                f"{name}: listed in the episode JSON, not delivered; built without it. Ask for the file.",
                stream=name,
            )


def _numbers(
    files: dict[str, Path], clock: Clock, config: MeckaConfig, notes: Notes
) -> tuple[dict[str, NDArray[Any]], dict[str, FeatureSpec]]:
    total = len(clock.stamps_ns)
    cameras = read_cameras(files["egomotion"], total, listed=clock.listed, config=config, notes=notes)
    hands = read_hands(files["hands"], total, listed=clock.listed, config=config, notes=notes)
    arrays: dict[str, NDArray[Any]] = {TIMESTAMPS: clock.stamps_ns}
    features: dict[str, FeatureSpec] = {TIMESTAMPS: timestamps_spec()}
    head = pose_from_matrix(cameras @ compose(OPENCV_FROM_VENDOR.T, np.zeros(3)))
    check_head(head[:, :3], cameras, config=config, notes=notes)
    _report_missing_head(head, notes)
    _add(arrays, features, (HEAD_POSE, pose_spec()), values=head, notes=notes)
    for side, points in hands.items():
        world = transform_points(cameras, points)
        point_valid: NDArray[np.bool_] = np.asarray(np.isfinite(world).all(axis=-1), np.bool_)
        world[~point_valid] = np.nan
        wrist, effector, _ = hand_poses(world)
        _report_missing_hand(side, wrist, config, notes)
        _add(arrays, features, (f"{side}.obs_wrist_pose", pose_spec()), values=wrist, notes=notes)
        _add(arrays, features, (f"{side}.obs_ee_pose", pose_spec()), values=effector, notes=notes)
        key = f"{side}.obs_keypoints"
        _add(arrays, features, (key, keypoints_spec()), values=world.reshape(total, -1), notes=notes)
        arrays[f"{key}_point_valid"], features[f"{key}_point_valid"] = point_valid, mask_spec(point_valid.shape[1])
    return arrays, features


def _add(
    arrays: dict[str, NDArray[Any]],
    features: dict[str, FeatureSpec],
    feature: tuple[str, FeatureSpec],
    *,
    values: NDArray[np.float64],
    notes: Notes,
) -> None:
    key, spec = feature
    arrays[key], error = cast_float32(values)
    features[key] = spec
    arrays[valid_key(key)], features[valid_key(key)] = np.asarray(np.isfinite(arrays[key]).all(axis=1), np.bool_), mask_spec()
    notes.counts.setdefault("cast_error", {})[key] = error


def _report_missing_head(head: NDArray[np.float64], notes: Notes) -> None:
    missing = np.flatnonzero(~np.isfinite(head).all(axis=1))
    if len(missing):
        notes.add(
            "head-pose-missing",
            f"no head pose in {len(missing)} of {len(head)} frames, first {missing[0]}; the rows stay, masked, hands included",
            stream=HEAD_POSE,
            frames=(int(missing[0]), int(missing[-1]) + 1),
        )


def _report_missing_hand(side: str, wrist: NDArray[np.float64], config: MeckaConfig, notes: Notes) -> None:
    share = float(np.mean(~np.isfinite(wrist).all(axis=1)))
    notes.counts.setdefault("missing_hand_share", {})[side] = round(share, 6)
    if share:
        severity = Severity.WARNING if share >= config.missing_hand_share else Severity.INFO
        notes.add(
            "hand-missing", f"no {side} hand in {share:.1%} of {len(wrist)} frames", severity=severity, stream=f"{side}.obs_wrist_pose"
        )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _session(ref: RecordingRef, value: dict[str, Any], clock: Clock) -> str | None:
    own = value.get("session_id") or value.get("session")
    if isinstance(own, str):
        return own
    place = value.get("environment_id")
    if ref.operator is None or not isinstance(place, str) or clock.name != "unix":
        return None
    day = datetime.fromtimestamp(int(clock.stamps_ns[0]) // 10**9, UTC).date().isoformat()
    return f"{ref.operator}/{place}/{day}"


def _meta(
    ref: RecordingRef, value: dict[str, Any], clock: Clock, *, config: MeckaConfig, features: dict[str, FeatureSpec], notes: Notes
) -> EpisodeMeta:
    total = len(clock.stamps_ns)
    return EpisodeMeta(
        episode_id=ref.id,
        recording_id=ref.id,
        clip=Clip(0, 0, total, aliased=True),
        vendor="mecka",
        dataset=ref.dataset,
        delivery=ref.delivery,
        operator=ref.operator,
        session=_session(ref, value, clock),
        embodiment=canonical_embodiment(config.embodiment, notes),
        task_name=_text(value.get("task_name")) or _text(value.get("task")) or ref.dataset,
        task_description=_text(value.get("task_description")),
        total_frames=total,
        fps=clock.fps,
        clock=clock.name,
        reference_camera=config.camera,
        hand_frame_convention=CONVENTION,
        features=features,
        provenance=dict(notes.counts),
        extra={key: value[key] for key in EXTRA if value.get(key) is not None},
    )
