"""Loose annotation and calibration files, not part of a delivery, for episodes that are published already."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

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
    try:
        return {
            str(key): [
                Span(str(s["text"] if key.startswith(ANNOTATION_PREFIX) else s.get("text", "")), int(s["start_idx"]), int(s["end_idx"]))
                for s in spans
            ]
            for key, spans in value.items()
        }
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(f"annotations {path}: expected lists of text, start_idx, end_idx by key ({error!r}).") from error


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
        info = reader.video_info(name)
        scaled[name] = camera.scaled(info.width, info.height) if camera.resolution != (info.width, info.height) else camera
    return Calibration(found.reference_frame, scaled, found.arm_bases)
