"""A VRS recording through projectaria-tools: streams, device calibration, and what the device tracked by itself."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.errors import MissingExtraError, VideoError
from egodata.geometry.rotation import quat_from_matrix
from egodata.schema.features import SIDES
from egodata.vendors.aria.mps import QUAT_TOLERANCE, Hands, Track, hands_from_landmarks
from egodata.vendors.aria.whole import require_whole
from egodata.vendors.base import Notes
from egodata.vendors.extras import require
from egodata.vendors.human import poses_from_xyz_quat
from egodata.vendors.matching import increasing

NEWEST_PYTHON = (3, 12)
HAND_STREAM, VIO_STREAM, VIO_FAST_STREAM = "handtracking", "vio", "vio_high_frequency"
KEPT = ("camera-rgb", HAND_STREAM, VIO_STREAM, VIO_FAST_STREAM)


def tools(part: str) -> Any:
    """Import a part of projectaria-tools, such as ``data_provider``.

    Raises:
        MissingExtraError: It is not installed, or there is none for this Python.
    """
    if sys.version_info[:2] > NEWEST_PYTHON:
        newest = ".".join(map(str, NEWEST_PYTHON))
        raise MissingExtraError(
            f"vendor aria: projectaria-tools has no build for Python {sys.version_info[0]}.{sys.version_info[1]}, the newest it supports "
            f"is {newest}. Ingest VRS files with Python 3.11 or 3.12 and pip install 'egodata[aria]'; MPS tables need no extra."
        )
    return require(f"projectaria_tools.core.{part}", extra="aria", vendor="aria")


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the library's log of every stream and decoder off standard output and error, where it writes past Python."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(number) for number in (1, 2)]
    try:
        with open(os.devnull, "wb") as nowhere:
            for number in (1, 2):
                os.dup2(nowhere.fileno(), number)
        yield
    finally:
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)


def open_vrs(path: Path) -> Any:
    """Open a recording.

    Raises:
        MissingExtraError: projectaria-tools is not there.
        VideoError: The file is empty, cut off, or no VRS.
    """
    provider = tools("data_provider")
    require_whole(path)
    try:
        with quiet():
            opened = provider.create_vrs_data_provider(str(path))
    except RuntimeError as error:
        raise VideoError(f"recording {path.name}: not a readable VRS file ({' '.join(str(error).split())[:160]}).") from error
    if opened is None:
        raise VideoError(f"recording {path.name}: not a readable VRS file. Get the file again.")
    return opened


def stream_named(recording: Any, label: str) -> Any | None:
    """Return the id of a stream by its label, None where the recording lacks it or it holds nothing."""
    with quiet():  # it warns about every label that a generation lacks
        stream = recording.get_stream_id_from_label(label)
    return stream if stream is not None and recording.get_num_data(stream) > 0 else None


def stream_numbered(recording: Any, name: str) -> Any | None:
    """Return the id of a stream by its number, such as ``214-1``; None where the recording lacks it or it holds nothing."""
    stream = tools("stream_id").StreamId(name)
    return stream if recording.check_stream_is_active(stream) and recording.get_num_data(stream) > 0 else None


def stamps_of(recording: Any, stream: Any) -> NDArray[np.int64]:
    """Return a stream's times in nanoseconds of the device's clock, in recorded order."""
    domain = tools("sensor_data").TimeDomain.DEVICE_TIME
    return np.array(recording.get_timestamps_ns(stream, domain), np.int64)


def dropped_streams(recording: Any) -> dict[str, int]:
    """Count the records of streams that an episode does not keep, by label: audio, IMU, gaze, other cameras and the rest."""
    counts = {}
    for stream in recording.get_all_streams():
        label = recording.get_label_from_stream_id(stream)
        if label not in KEPT:
            counts[label] = int(recording.get_num_data(stream))
    return counts


def hands_in(recording: Any, *, min_confidence: float, notes: Notes) -> Hands | None:
    """Read the hands that the device tracked by itself (Gen2); None where the recording has none.

    Raises:
        SetAside: Their time goes back.
    """
    stream = stream_named(recording, HAND_STREAM)
    if stream is None:
        return None
    stamps = stamps_of(recording, stream)
    landmarks = {side: np.full((len(stamps), 21, 3), np.nan) for side in SIDES}
    scores = {side: np.full(len(stamps), -1.0) for side in SIDES}
    for row in range(len(stamps)):
        found = recording.get_hand_pose_data_by_index(stream, row)
        for side in SIDES:
            hand = getattr(found, f"{side}_hand")
            if hand is not None and np.shape(hand.landmark_positions_device) == (21, 3):
                landmarks[side][row], scores[side][row] = np.array(hand.landmark_positions_device), hand.confidence
    together = np.concatenate([landmarks[side].reshape(len(stamps), -1) for side in SIDES] + [scores[side][:, None] for side in SIDES], 1)
    stamps, together = increasing(stamps, together, stream=HAND_STREAM, notes=notes)
    points = {
        side: hands_from_landmarks(
            together[:, 63 * at : 63 * at + 63].reshape(-1, 21, 3), together[:, 126 + at], min_confidence=min_confidence
        )
        for at, side in enumerate(SIDES)
    }
    return Hands(HAND_STREAM, stamps, points)


def track_in(recording: Any, notes: Notes) -> Track | None:
    """Read the device's own odometry (Gen2), the fast one where it is there; None where the recording has none.

    Raises:
        SetAside: Its time goes back.
    """
    for label, poses_of in ((VIO_FAST_STREAM, _fast_poses), (VIO_STREAM, _slow_poses)):
        stream = stream_named(recording, label)
        if stream is None:
            continue
        stamps, matrices = stamps_of(recording, stream), poses_of(recording, stream)
        rows = np.concatenate([matrices[:, :3, 3], quat_from_matrix(matrices[:, :3, :3])], axis=-1)
        stamps, rows = increasing(stamps, rows, stream=label, notes=notes)
        poses, _ = poses_from_xyz_quat(rows[:, :3], rows[:, 3:], tolerance=QUAT_TOLERANCE)
        return Track(label, stamps, poses)
    return None


def _fast_poses(recording: Any, stream: Any) -> NDArray[np.float64]:
    rows = (recording.get_vio_high_freq_data_by_index(stream, row) for row in range(recording.get_num_data(stream)))
    return np.stack([np.array(row.transform_odometry_device.to_matrix(), np.float64).reshape(4, 4) for row in rows])


def _slow_poses(recording: Any, stream: Any) -> NDArray[np.float64]:
    """Return (N, 4, 4); NaN where the device calls its own odometry invalid."""
    valid = tools("sensor_data").VioStatus.VALID
    out = np.full((recording.get_num_data(stream), 4, 4), np.nan)
    for number in range(len(out)):
        row = recording.get_vio_data_by_index(stream, number)
        if row.status == valid:
            out[number] = np.array((row.transform_odometry_bodyimu @ row.transform_bodyimu_device).to_matrix()).reshape(4, 4)
    return out
