"""A sensor's intrinsics to a calibration at the stored size, or unknown."""

from collections.abc import Mapping
from typing import Any

from egodata.calibration import Calibration, CameraCalibration, pinhole_matrix
from egodata.findings import Severity
from egodata.vendors.base import Notes
from egodata.vendors.scale.config import ScaleConfig
from egodata.vendors.scale.scene import SENSOR, Sensor
from egodata.video import VideoScan

FOCAL = ("fx", "fy", "cx", "cy")
ASPECT_TOLERANCE, MAX_PARAMETER = 0.01, 1e6
MODELS = {"brown_conrady": ("OPENCV", 5), "fisheye": ("KANNALA_BRANDT", 4)}
"""Our model and the number of coefficients that it takes, by the vendor's name."""


def read_calibration(sensor: Sensor, *, size: tuple[int, int], scan: VideoScan, config: ScaleConfig, notes: Notes) -> Calibration | None:
    """Read a camera's intrinsics and scale them to the stored size.

    Args:
        sensor: The camera.
        size: Stored (width, height) in pixels.
        scan: The video; intrinsics of another aspect ratio are not used.
        config: Camera name, and the size that intrinsics belong to where they do not say.
        notes: Told of what is unknown or unusable, and why.

    Returns:
        PINHOLE for a rectified camera; with the vendor's coefficients for another; None where unknown.
    """
    values = sensor.intrinsics
    if not values:
        notes.add("calibration-unknown", f"{sensor.id}: the scene has no intrinsics for it", severity=Severity.INFO, stream="calibration")
        return None
    number: dict[str, Any] = {name: values.get(name) for name in FOCAL}
    width, height = (values.get(name) or config.default_size_px[axis] for axis, name in enumerate(("width", "height")))
    number |= {"width": width, "height": height}
    model, distortion, problem = _distortion(values.get("distortion"))
    problem = problem or _problem(number, scan)
    if problem is not None:
        notes.add("calibration-unusable", f"{sensor.id}: {problem}. Calibration is unknown for this recording.", stream="calibration")
        return None
    fx, fy, cx, cy = (float(number[name]) for name in FOCAL)
    if fx == fy == width and (cx, cy) == (width / 2, height / 2):
        notes.add(
            "calibration-invented", f"{sensor.id}: fx = fy = width with a centred principal point looks invented", stream="calibration"
        )
    rectified = sensor.id == SENSOR
    camera = CameraCalibration(pinhole_matrix(fx, fy, cx, cy), model, distortion, (int(width), int(height)), rectified)
    return Calibration("head", {config.camera: camera.scaled(*size)})


def _distortion(value: Any) -> tuple[str, tuple[float, ...], str | None]:
    if not value:
        return "PINHOLE", (), None
    if not isinstance(value, dict) or value.get("model") not in MODELS:
        return "PINHOLE", (), f"distortion {str(value)[:60]}: expected model brown_conrady or fisheye"
    model, most = MODELS[value["model"]]
    params = value.get("params")
    try:
        numbers = tuple(float(item) for item in (params if params is not None else ()))
    except (TypeError, ValueError):
        return "PINHOLE", (), f"distortion {value['model']}: coefficients that are no numbers"
    if any(numbers[most:]) or not numbers or not all(abs(item) < MAX_PARAMETER for item in numbers):
        return "PINHOLE", (), f"distortion {value['model']}: {len(numbers)} coefficients, expected up to {most}"
    return model, numbers[:most], None


def _problem(number: Mapping[str, Any], scan: VideoScan) -> str | None:
    wrong = [name for name, value in number.items() if not _finite(value)]
    if wrong:
        return f"{', '.join(wrong)} missing or not a number below {MAX_PARAMETER:g}"
    width, height = float(number["width"]), float(number["height"])
    if min(width, height, number["fx"], number["fy"]) <= 0:
        return "size and focal lengths must be positive"
    if not (0 <= number["cx"] < width and 0 <= number["cy"] < height):
        return f"principal point ({number['cx']:.1f}, {number['cy']:.1f}) lies outside the {width:g}x{height:g} image"
    if abs(width / height - scan.width / scan.height) > ASPECT_TOLERANCE * width / height:
        return f"made for {width:g}x{height:g}, the upright video is {scan.width}x{scan.height}: another aspect ratio, cropped or turned"
    return None


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < MAX_PARAMETER
