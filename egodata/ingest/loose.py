"""Loose annotation and calibration files, not part of a delivery, for episodes that are published already."""

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from egodata.annotations import Annotations, Span
from egodata.calibration import Calibration, CameraCalibration, calibration_from_attributes, pinhole_matrix
from egodata.episode import EpisodeReader
from egodata.errors import InputError, SchemaError
from egodata.findings import Finding, Severity
from egodata.schema.features import TIMESTAMPS
from egodata.schema.ids import ANNOTATION_PREFIX
from egodata.vendors.base import Notes
from egodata.vendors.mecka.clock import Clock
from egodata.vendors.mecka.config import MeckaConfig
from egodata.vendors.mecka.spans import read_annotations

_INTRINSICS = ("w", "h", "fl_x", "fl_y", "cx", "cy")
_DISTORTION = ("k1", "k2", "p1", "p2")


def loose_annotations(path: Path, reader: EpisodeReader) -> tuple[Annotations, tuple[Finding, ...]]:
    """Read spans for an episode.

    ``.csv``: `label,start_time,end_time[,role]`; the unit is judged over the file (docs/format.md, section 5).
    ``.json``: an object of lists by key, `{"annotations_task": [{"text", "start_idx", "end_idx"}]}`, in frames.

    Args:
        path: The file.
        reader: The episode that it is for.

    Returns:
        Spans by key, and what was clipped or refused.

    Raises:
        InputError: It cannot be read, or none of it fits the episode's clock.
        SchemaError: A key or a span breaks the format.
    """
    if path.suffix == ".json":
        return _from_json(path), ()
    stamps = reader.rows([TIMESTAMPS], [(0, reader.meta.total_frames)])[TIMESTAMPS]
    notes = Notes(reader.meta.episode_id)
    clock = Clock(stamps, "unix" if reader.meta.clock == "unix" else "frame0", reader.meta.fps, len(stamps))
    found = read_annotations(path, clock, config=MeckaConfig(), notes=notes)
    if not found:
        why = "; ".join(finding.message for finding in notes.found if finding.severity >= Severity.WARNING)
        raise InputError(f"annotations {path}: nothing in it can be attached to episode {reader.meta.episode_id}. {why}")
    return found, tuple(notes.found)


def _load(path: Path, what: str) -> Any:
    try:
        return json.loads(path.read_text("utf-8-sig"), parse_float=Decimal)
    except (OSError, ValueError) as error:
        raise InputError(f"{what} {path}: not readable JSON ({error}).") from error


def _from_json(path: Path) -> Annotations:
    value = _load(path, "annotations")
    if not isinstance(value, dict):
        raise InputError(f"annotations {path}: expected an object of lists by key, got a {type(value).__name__}.")
    return {key: [_span(path, key, one) for one in (spans if isinstance(spans, list) else [spans])] for key, spans in value.items()}


def _span(path: Path, key: str, value: Any) -> Span:
    """Read one span; a number that is no whole frame, or a text that is none, is not made to fit."""
    if isinstance(value, dict):
        text, start, end = (value.get(name) for name in ("text", "start_idx", "end_idx"))
        text = "" if text is None and not key.startswith(ANNOTATION_PREFIX) else text
        if isinstance(text, str) and type(start) is int and type(end) is int:
            return Span(text, start, end)
    raise InputError(f"annotations {path}: {key}: expected text, and start_idx and end_idx in whole frames, got {value!r:.80}.")


def loose_calibration(path: Path, reader: EpisodeReader) -> Calibration:
    """Read a calibration for an episode, scaled to the stored sizes.

    Either the object of docs/format.md, section 8, or intrinsics of the reference camera: `w h fl_x fl_y cx cy [k1 k2 p1 p2]`.

    Raises:
        InputError: Not JSON, or neither of the two forms.
        SchemaError: The object breaks the format.
        FeatureNotFoundError: It names a camera that the episode lacks.
    """
    value = _load(path, "calibration")
    try:
        if all(key in value for key in _INTRINSICS):
            number = {key: float(value.get(key) or 0) for key in (*_INTRINSICS, *_DISTORTION)}
            k = pinhole_matrix(number["fl_x"], number["fl_y"], number["cx"], number["cy"])
            size = (int(number["w"]), int(number["h"]))
            camera = CameraCalibration(k, "OPENCV", tuple(number[key] for key in _DISTORTION), size)
            found: Calibration | None = Calibration("head", {reader.meta.reference_camera: camera})
        else:
            found = calibration_from_attributes({"calibration": value.get("calibration", value)})
    except (TypeError, ValueError, AttributeError) as error:
        if isinstance(error, SchemaError):
            raise
        raise InputError(f"calibration {path}: neither docs/format.md's form nor w h fl_x fl_y cx cy ({error}).") from error
    if found is None or not found.cameras:
        raise InputError(f"calibration {path}: no camera in it.")
    scaled = {}
    for name, camera in found.cameras.items():
        _require_usable(path, name, camera)
        info = reader.video_info(name)
        scaled[name] = camera.scaled(info.width, info.height) if camera.resolution != (info.width, info.height) else camera
    return Calibration(found.reference_frame, scaled, found.arm_bases)


def _require_usable(path: Path, name: str, camera: CameraCalibration) -> None:
    """Refuse what no lens has: it would draw every keypoint elsewhere, and nothing later would say why."""
    numbers = [
        *np.ravel(camera.k),
        *camera.distortion,
        *np.ravel(camera.reference_T_camera if camera.reference_T_camera is not None else 0),
    ]
    focal = (camera.k[0][0], camera.k[1][1])
    if not all(math.isfinite(number) for number in numbers) or min(focal) <= 0 or min(camera.resolution) < 1:
        raise InputError(
            f"calibration {path}: camera {name}: expected finite numbers, focal lengths and size above 0, "
            f"got focal lengths {focal[0]:g} and {focal[1]:g} at {camera.resolution[0]}x{camera.resolution[1]}."
        )
