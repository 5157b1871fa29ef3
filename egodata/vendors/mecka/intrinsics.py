"""intrinsics.json to a calibration at the stored size, or unknown."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from egodata.calibration import Calibration, CameraCalibration, pinhole_matrix
from egodata.findings import Severity
from egodata.vendors.base import Notes
from egodata.vendors.files import parse_json
from egodata.vendors.mecka.config import MeckaConfig
from egodata.video import VideoScan

REQUIRED, DISTORTION = ("w", "h", "fl_x", "fl_y", "cx", "cy"), ("k1", "k2", "p1", "p2")
ASPECT_TOLERANCE = 0.01
MAX_PARAMETER = 1e6
"""A size, a focal length in pixels or a coefficient beyond this is no camera's."""


def read_calibration(
    path: Path | None, inline: Any, *, size: tuple[int, int], scan: VideoScan, config: MeckaConfig, notes: Notes
) -> Calibration | None:
    """Read the camera's intrinsics and scale them to the stored size.

    Args:
        path: intrinsics.json, or None.
        inline: The episode JSON's `intrinsics`, taken where there is no file.
        size: Stored (width, height) in pixels.
        scan: The video; intrinsics of another aspect ratio are not used.
        config: Camera name, declared intrinsics.
        notes: Told of what is unknown or unusable, and why.

    Returns:
        OPENCV model with distortion at `size`, or None where it is unknown: no neighbour's K and no constant is taken unasked.
    """
    source, values = _source(path, inline, config, notes)
    if values is None:
        return None
    problem = _problem(values, scan)
    if problem is not None:
        notes.add("calibration-unusable", f"{source}: {problem}. Calibration is unknown for this episode.", stream=source)
        return None
    number = {name: float(values[name]) for name in REQUIRED}
    if number["fl_x"] == number["fl_y"] == number["w"] and (number["cx"], number["cy"]) == (number["w"] / 2, number["h"] / 2):
        notes.add("calibration-invented", f"{source}: fx = fy = width with a centred principal point looks invented", stream=source)
    camera = CameraCalibration(
        pinhole_matrix(number["fl_x"], number["fl_y"], number["cx"], number["cy"]),
        "OPENCV",
        tuple(float(values.get(name) or 0.0) for name in DISTORTION),
        (int(number["w"]), int(number["h"])),
    )
    return Calibration("head", {config.camera: camera.scaled(*size)})


def _source(path: Path | None, inline: Any, config: MeckaConfig, notes: Notes) -> tuple[str, Mapping[str, Any] | None]:
    if path is not None:
        try:
            value = parse_json(path.read_text("utf-8-sig"))
        except ValueError as error:
            notes.add(
                "calibration-unusable", f"{path.name}: not JSON ({error}). Calibration is unknown for this episode.", stream=path.name
            )
            return path.name, None
        if isinstance(value, dict):
            return path.name, value
        notes.add(
            "calibration-unusable",
            f"{path.name}: expected an object, got {type(value).__name__}. Calibration is unknown.",
            stream=path.name,
        )
        return path.name, None
    if isinstance(inline, dict) and set(REQUIRED) <= set(inline):
        return "episode JSON intrinsics", inline
    if config.declared_intrinsics is not None:
        notes.add(
            "calibration-declared",
            "no intrinsics.json; those declared in the vendor config are used",
            severity=Severity.INFO,
            stream="calibration",
        )
        return "declared_intrinsics", asdict(config.declared_intrinsics)
    notes.add(
        "calibration-unknown",
        "no intrinsics.json delivered: calibration is unknown; no other episode's is taken",
        severity=Severity.INFO,
        stream="calibration",
    )
    return "", None


def _problem(values: Mapping[str, Any], scan: VideoScan) -> str | None:
    wrong = [name for name in REQUIRED if not _finite(values.get(name))]
    wrong += [name for name in DISTORTION if values.get(name) is not None and not _finite(values[name])]
    if wrong:
        return f"{', '.join(wrong)} missing or not a number below {MAX_PARAMETER:g}"
    w, h, fx, fy, cx, cy = (float(values[name]) for name in REQUIRED)
    if min(w, h, fx, fy) <= 0:
        return "size and focal lengths must be positive"
    if not (0 <= cx < w and 0 <= cy < h):
        return f"principal point ({cx:.1f}, {cy:.1f}) lies outside the {w:g}x{h:g} image"
    if abs(w / h - scan.width / scan.height) > ASPECT_TOLERANCE * w / h:
        return f"made for {w:g}x{h:g}, the upright video is {scan.width}x{scan.height}: another aspect ratio, cropped or turned"
    return None


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < MAX_PARAMETER
