"""Read one LeRobot episode: joints from parquet, rows matched to video frames by pts."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from egodata.episode import Clip, EpisodeDraft, EpisodeMeta, VideoSource
from egodata.findings import Severity
from egodata.schema.features import TIMESTAMPS, FeatureSpec, camera_key, mask_spec, timestamps_spec, valid_key
from egodata.vendors.base import Drafts, Notes, RecordingRef
from egodata.vendors.frames import frame_times_ns, standard_rate, stored_size
from egodata.vendors.human import CONVENTION, canonical_embodiment
from egodata.vendors.lerobot.cameras import Matched, check_match, match, scan_cameras
from egodata.vendors.lerobot.columns import human_arrays, joint_arrays, whole_numbers
from egodata.vendors.lerobot.config import LeRobotConfig
from egodata.vendors.lerobot.parquet import read_parquet
from egodata.video import VideoScan

TIMESTAMP_TOLERANCE_S = 1e-3


def read_recording(ref: RecordingRef, config: LeRobotConfig) -> Drafts:
    """Read one episode into a draft.

    Raises:
        SetAside: A file is missing or unusable, row numbers are not 0, 1, 2, ..., or rows and frames do not match.
        VideoError: A video cannot be read.
    """
    notes = Notes(ref.id)
    table = _read_table(ref, notes)
    rows = _check_rows(table, ref, notes)
    scans = scan_cameras(ref, config, notes=notes)
    reference = config.reference_camera if config.reference_camera in scans else sorted(scans)[0]
    fps = _rate(ref, scans[reference].scan, notes)
    total = _trim(rows, scans[reference].scan, config, notes)
    stamps = frame_times_ns(np.arange(total), fps)
    cameras = {name: match(footage, stamps) for name, footage in sorted(scans.items())}
    check_match(cameras[reference], fps, config=config, notes=notes)
    if config.human is None:
        arrays, features = joint_arrays(table, ref, config=config, total=total, notes=notes)
    else:
        arrays, features = human_arrays(table, config.human, stamps_ns=stamps, share=config.missing_hand_share, notes=notes)
    arrays[TIMESTAMPS], features[TIMESTAMPS] = stamps, timestamps_spec()
    for name, camera in cameras.items():
        if name != reference:
            _aligned_camera(camera, fps, arrays, features)
    meta = _meta(ref, table, notes, total=total, fps=fps, reference=reference, features=features)
    if config.human is not None:
        meta = replace(meta, embodiment=canonical_embodiment(config.human.embodiment, notes), hand_frame_convention=CONVENTION)
    videos = {
        name: VideoSource(
            camera.footage.path,
            camera.rows,
            stored_size(camera.footage.scan.width, camera.footage.scan.height, limit=config.stored_size_px),
        )
        for name, camera in cameras.items()
    }
    return Drafts((EpisodeDraft(meta, arrays, videos, {}, None, tuple(notes.found)),))


def _read_table(ref: RecordingRef, notes: Notes) -> pa.Table:
    path = ref.root / ref.details["data"]
    if not path.is_file():
        notes.refuse("file-missing", f"{ref.details['data']}: not delivered, though a video is. Ask for the file.", stream=path.name)
    shared = ref.details["rows"] is not None
    try:
        table = read_parquet(path, filters=[("episode_index", "==", ref.details["index"])] if shared else None)
    except (pa.ArrowException, OSError) as error:
        notes.refuse("parquet-unreadable", f"{path.name}: {' '.join(str(error).split())[:200]}. Ask for the file again.", stream=path.name)
    missing = [name for name in ("frame_index", "timestamp") if name not in table.column_names]
    if missing or table.num_rows == 0:
        problem = f"column {missing[0]} missing" if missing else "no rows"
        notes.refuse("parquet-unusable", f"{path.name}: {problem}. Ask for the file again.", stream=path.name)
    return table


def _check_rows(table: pa.Table, ref: RecordingRef, notes: Notes) -> int:
    index = whole_numbers(table, "frame_index")
    if index is None:
        kind = table.schema.field("frame_index").type
        notes.refuse("parquet-unusable", f"frame_index: expected whole numbers, got {kind}. Ask for the file again.", stream="frame_index")
    if not np.array_equal(index, np.arange(len(index))):
        first = int(np.flatnonzero(index != np.arange(len(index)))[0])
        notes.refuse(
            "rows-out-of-order",
            f"frame_index: row {first} holds {index[first]}, expected 0, 1, 2, ... A reset, a gap or a second take is not sorted away.",
            stream="frame_index",
            expected=str(first),
            got=str(index[first]),
        )
    _check_range(table, ref, notes)
    listed = ref.details["listed"]
    if listed is None:
        notes.add("not-listed", "the episode is delivered but not in meta/episodes", severity=Severity.INFO)
    elif listed["length"] is not None and listed["length"] != len(index):
        notes.add(
            "length-differs",
            f"meta/episodes lists {listed['length']} rows, the parquet has {len(index)}; the parquet counts",
            expected=str(listed["length"]),
            got=str(len(index)),
        )
    return len(index)


def _check_range(table: pa.Table, ref: RecordingRef, notes: Notes) -> None:
    """Compare the rows of a shared file with the range that the list gives them; the parquet's own episode_index counts."""
    if ref.details["noticed"] is not None:
        code, message, expected, got = ref.details["noticed"]
        notes.add(code, message, expected=expected, got=got)
    if ref.details["rows"] is None or "index" not in table.column_names:
        return
    start, stop = ref.details["rows"]
    index = whole_numbers(table, "index")
    if index is None:
        kind = table.schema.field("index").type
        message = f"index: expected whole numbers, got {kind}, so the listed rows [{start}, {stop}) are not checked; episode_index counts"
        notes.add("ranges-unchecked", message, stream="index", expected="whole numbers", got=str(kind))
    elif not np.array_equal(index, np.arange(start, stop)):
        notes.add(
            "ranges-differ",
            f"meta/episodes gives the episode rows [{start}, {stop}) of the dataset, its rows are {index[0]} to {index[-1]}; they count",
            stream="index",
            expected=f"[{start}, {stop})",
            got=f"[{index[0]}, {index[-1] + 1})",
        )


def _rate(ref: RecordingRef, scan: VideoScan, notes: Notes) -> Fraction:
    declared = standard_rate(Fraction(ref.details["fps"]).limit_denominator(1001))
    measured = standard_rate(scan.fps)
    if declared != measured:
        notes.add(
            "fps-declared",
            f"meta/info.json says {float(declared):g} fps, the video's pts give {float(measured):g}; the pts count",
            stream="fps",
            expected=str(declared),
            got=str(measured),
        )
    return measured


def _trim(rows: int, scan: VideoScan, config: LeRobotConfig, notes: Notes) -> int:
    frames = scan.frames
    if abs(rows - frames) > config.trim_tail_frames:
        notes.refuse(
            "frame-count",
            f"{rows} rows but {frames} video frames: more than {config.trim_tail_frames} apart. Ask for the video again.",
            expected=str(rows),
            got=str(frames),
        )
    if rows != frames:
        notes.add(
            "tail-trimmed", f"{rows} rows and {frames} video frames: the episode ends at the shorter", expected=str(rows), got=str(frames)
        )
    return min(rows, frames)


def _aligned_camera(camera: Matched, fps: Fraction, arrays: dict[str, NDArray[Any]], features: dict[str, FeatureSpec]) -> None:
    key = camera_key(camera.footage.name)
    arrays[f"{key}_source_row"] = camera.rows.astype(np.int32)
    features[f"{key}_source_row"] = FeatureSpec("int32", (), unit="frame")
    arrays[valid_key(key)] = np.asarray(camera.distance_ns <= float(10**9 / min(fps, camera.footage.scan.fps)), np.bool_)
    features[valid_key(key)] = mask_spec()


def _check_stamps(table: pa.Table, ref: RecordingRef, notes: Notes) -> None:
    try:
        given = table["timestamp"].to_numpy().astype(np.float64)
        usable = bool(np.isfinite(given).all())
    except (TypeError, ValueError):
        usable = False
    if not usable:
        notes.add("timestamp-differs", "timestamp: holds what is no finite number; frame_index counts", stream="timestamp")
        return
    error = np.abs(given - given[0] - np.arange(len(given)) / ref.details["fps"])
    worst = int(error.argmax())
    if error[worst] > TIMESTAMP_TOLERANCE_S + given[worst] * 2.0**-23:
        notes.add(
            "timestamp-differs",
            f"timestamp: row {worst} is {error[worst] * 1e3:.1f} ms from frame_index / fps; frame_index counts",
            stream="timestamp",
            frames=(worst, worst + 1),
        )


def _tasks_of_rows(table: pa.Table, ref: RecordingRef, notes: Notes) -> list[str]:
    indices = whole_numbers(table, "task_index")
    if indices is None:
        notes.add("task-unreadable", "task_index: holds what is no whole number, so the episode has no task text", stream="task_index")
        return []
    return [ref.details["tasks"][str(i)] for i in np.unique(indices) if str(i) in ref.details["tasks"]]


def _meta(
    ref: RecordingRef, table: pa.Table, notes: Notes, *, total: int, fps: Fraction, reference: str, features: dict[str, FeatureSpec]
) -> EpisodeMeta:
    _check_stamps(table, ref, notes)
    tasks = list((ref.details["listed"] or {}).get("tasks") or [])
    if not tasks and "task_index" in table.column_names:
        tasks = _tasks_of_rows(table, ref, notes)
    extra: dict[str, Any] = {"robot_type": ref.details["robot_type"]} if ref.details["robot_type"] else {}
    if len(tasks) > 1:
        extra["tasks"] = tasks
    return EpisodeMeta(
        episode_id=ref.id,
        recording_id=ref.id,
        clip=Clip(0, 0, total, aliased=False),
        vendor="lerobot",
        dataset=ref.dataset,
        delivery=ref.delivery,
        operator=None,
        session=None,
        embodiment="joint_robot",
        task_name=tasks[0] if tasks else ref.dataset,
        task_description="; ".join(tasks),
        total_frames=total,
        fps=fps,
        clock="frame0",
        reference_camera=reference,
        hand_frame_convention=None,
        features=features,
        provenance=dict(notes.counts),
        extra=extra,
    )
