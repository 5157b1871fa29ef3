"""Does an episode mean what it says? Checks of numbers, calibration, time and texts against the schema, as findings.

`egodata verify` asks whether bytes are those that were written; this asks whether what was written makes sense.
"""

from collections.abc import Iterator
from functools import reduce
from math import gcd

import numpy as np
from numpy.typing import NDArray

from egodata.calibration import CameraCalibration
from egodata.episode import EpisodeReader
from egodata.errors import EgodataError, SchemaError
from egodata.findings import Finding, Severity
from egodata.reports.limits import SHIPPED, Limits
from egodata.schema.features import TIMESTAMPS, camera_key, is_camera, resolve_embodiment, valid_key
from egodata.schema.layout import SCHEMA_VERSION

GCD_NS = 64
POINT_MASK = "_point_valid"

Rows = NDArray[np.floating]
Found = Iterator[Finding]


class _Context:
    def __init__(self, reader: EpisodeReader, limits: Limits, content: str) -> None:
        self.reader, self.limits = reader, limits
        self.meta = reader.meta
        self.total = reader.meta.total_frames
        self.content = content

    def rows(self, key: str) -> NDArray[np.generic]:
        return self.reader.rows([key], [(0, self.total)])[key]

    def finding(
        self, code: str, message: str, *, severity: Severity = Severity.ERROR, stream: str = "", frames: tuple[int, int] | None = None
    ) -> Finding:
        return Finding(code, severity, self.meta.episode_id, message, stream=stream, frames=frames, content=self.content)


def validate_episode(reader: EpisodeReader, *, limits: Limits = SHIPPED, content: str | None = None) -> list[Finding]:
    """Check one episode of any format and schema version.

    Args:
        reader: Opened.
        limits: From where on something is a finding.
        content: What goes into the ids of the findings; by default the episode's content digest.

    Returns:
        Findings, worst first; what cannot be read is one of them.
    """
    try:
        context = _Context(reader, limits, _content(reader) if content is None else content)
    except EgodataError as error:
        return [Finding("episode-unreadable", Severity.ERROR, getattr(error, "episode", "") or "episode", str(error))]
    found: list[Finding] = []
    for check in (_schema, _masks, _poses, _stamps, _calibration, _spans):
        try:
            found += check(context)
        except EgodataError as error:
            found.append(context.finding("episode-unreadable", str(error)))
    return sorted(found, key=lambda finding: -finding.severity)


def _content(reader: EpisodeReader) -> str:
    """Return the content digest as stored; older schemas keep none."""
    return reader.digests.content if reader.meta.schema_version == SCHEMA_VERSION else ""


def _schema(context: _Context) -> Found:
    meta = context.meta
    if meta.schema_version != SCHEMA_VERSION:
        yield context.finding(
            "schema-old", f"schema {meta.schema_version}, current is {SCHEMA_VERSION}. Ingest it as zarr_v3.", severity=Severity.INFO
        )
    try:
        name, alias = resolve_embodiment(meta.embodiment)
        if alias:
            yield context.finding("embodiment-alias", f"embodiment {meta.embodiment} is an old name of {name}.", severity=Severity.WARNING)
    except SchemaError as error:
        yield context.finding("embodiment-unknown", str(error))
    if meta.hand_frame_convention == "unknown":
        yield context.finding(
            "hand-frame-unknown", "hand_frame_convention is unknown: hand rotations may be turned.", severity=Severity.WARNING
        )
    if not meta.cameras:
        yield context.finding("camera-none", "no camera.", severity=Severity.WARNING)
    elif meta.reference_camera not in meta.cameras:
        yield context.finding("camera-reference", f"reference camera {meta.reference_camera!r} is not among {', '.join(meta.cameras)}.")


def _masks(context: _Context) -> Found:
    features = context.meta.features
    for key in context.meta.numeric_keys:
        if not features[key].dtype.startswith("float"):
            continue
        if valid_key(key) not in features:
            if context.meta.schema_version == SCHEMA_VERSION:  # older schemas had none
                yield context.finding("mask-missing", f"{key}: no mask {valid_key(key)}.", stream=key)
            continue
        rows, valid = context.rows(key).reshape(context.total, -1), np.asarray(context.rows(valid_key(key)), bool)
        finite = np.isfinite(np.asarray(rows, np.float64))
        if (bad := valid & ~finite.all(1)).any():
            yield context.finding(
                "mask-wrong", f"{key}: {bad.sum()} rows count as valid and are not finite.", stream=key, frames=_range(bad)
            )
        filled = ~valid & finite.all(1) if f"{key}{POINT_MASK}" not in features else ~valid & finite.all(1) & ~_partly(context, key)
        if filled.any():
            yield context.finding(
                "mask-filled", f"{key}: {filled.sum()} invalid rows hold numbers, expected NaN.", stream=key, frames=_range(filled)
            )
        if not valid.any():
            yield context.finding("feature-empty", f"{key}: no row is valid.", severity=Severity.WARNING, stream=key)


def _since_v4(context: _Context) -> Severity:
    return Severity.ERROR if context.meta.schema_version == SCHEMA_VERSION else Severity.INFO


def _partly(context: _Context, key: str) -> NDArray[np.bool_]:
    return np.asarray(context.rows(f"{key}{POINT_MASK}").any(1))


def _range(bad: NDArray[np.bool_]) -> tuple[int, int]:
    where = np.flatnonzero(bad)
    return int(where[0]), int(where[-1]) + 1


def _valid_rows(context: _Context, key: str) -> tuple[Rows, NDArray[np.int64]]:
    rows = np.asarray(context.rows(key), np.float64)
    valid = np.isfinite(rows).all(1) & (rows != 0).any(1) & (np.abs(rows) < 1e8).all(1)
    if valid_key(key) in context.meta.features:
        valid &= np.asarray(context.rows(valid_key(key)), bool)
    return rows[valid], np.flatnonzero(valid)


def _poses(context: _Context) -> Found:
    features = context.meta.features
    for key in context.meta.numeric_keys:
        if not features[key].dtype.startswith("float") or len(features[key].shape) != 1:
            continue
        rows, at = _valid_rows(context, key)
        if len(rows) > 1 and (rows == rows[0]).all():
            yield context.finding(
                "rows-identical", f"{key}: all {len(rows)} valid rows are the same.", severity=Severity.WARNING, stream=key
            )
        if features[key].shape == (7,) and key.endswith("pose") and len(rows):
            yield from _pose(context, key, rows, at)


def _pose(context: _Context, key: str, rows: Rows, at: NDArray[np.int64]) -> Found:
    norms = np.linalg.norm(rows[:, 3:], axis=1)
    off = np.abs(norms - 1) > context.limits.quat_norm_tolerance
    if off.any():
        worst = float(np.abs(norms - 1).max())
        message = (
            f"{key}: {off.sum()} quaternions are off length 1, the worst by {worst:.2g}; allowed {context.limits.quat_norm_tolerance:g}."
        )
        yield context.finding("quaternion-norm", message, stream=key, frames=(int(at[off][0]), int(at[off][-1]) + 1))
    identity = (rows[:, 3:] == (1.0, 0.0, 0.0, 0.0)).all(1)
    if identity.sum() > 1 and identity.mean() > context.limits.identity_share:  # one alone is where a SLAM map begins
        message = f"{key}: {identity.mean():.1%} of the rotations are exactly the identity; a failed pose must be invalid."
        yield context.finding("quaternion-identity", message, stream=key, frames=(int(at[identity][0]), int(at[identity][-1]) + 1))
    if key == "obs_head_pose" and len(rows) > 1:
        steps = np.where(np.diff(at) == 1, np.linalg.norm(np.diff(rows[:, :3], axis=0), axis=1), 0)
        if (steps > context.limits.head_step_m).any():
            where = int(at[int(steps.argmax())])
            over = int((steps > context.limits.head_step_m).sum())
            message = f"{key}: {over} steps over {context.limits.head_step_m:g} m, the largest {steps.max():.2f} m after frame {where}."
            yield context.finding("head-jump", message, severity=Severity.WARNING, stream=key, frames=(where, where + 2))


def _stamps(context: _Context) -> Found:
    if TIMESTAMPS not in context.meta.features:
        yield context.finding("stamps-missing", f"no {TIMESTAMPS}.", severity=_since_v4(context), stream=TIMESTAMPS)
        return
    stamps = np.asarray(context.rows(TIMESTAMPS), np.int64)
    steps = np.diff(stamps)
    if (bad := steps <= 0).any():
        at = int(np.flatnonzero(bad)[0])
        message = f"{bad.sum()} time stamps do not increase, the first at frame {at + 1}."
        yield context.finding("stamps-order", message, stream=TIMESTAMPS, frames=(at, at + 2))
    common = reduce(gcd, (int(step) for step in np.abs(steps)), 0)
    power = common & -common
    if len(steps) > 2 and power >= GCD_NS and common == power:
        message = f"all steps are multiples of {power} ns: stamps went through float seconds. Parse them with integers."
        yield context.finding("stamps-float", message, severity=Severity.WARNING, stream=TIMESTAMPS)
    if len(steps) and (steps > 0).all():
        rate = 1e9 * len(steps) / float(stamps[-1] - stamps[0])
        if abs(rate / float(context.meta.fps) - 1) > 0.01:
            message = f"time stamps give {rate:.3f} frames per second, the episode says {float(context.meta.fps):.3f}."
            yield context.finding("fps-differs", message, severity=Severity.WARNING, stream=TIMESTAMPS)


def _calibration(context: _Context) -> Found:
    calibration = context.reader.calibration
    for camera in context.meta.cameras:
        stream = camera_key(camera)
        if calibration is None or camera not in calibration.cameras:
            yield context.finding("camera-without-k", f"{stream}: no intrinsics.", severity=Severity.WARNING, stream=stream)
            continue
        yield from _camera(context, stream, calibration.cameras[camera])


def _camera(context: _Context, stream: str, camera: CameraCalibration) -> Found:
    spec = context.meta.features[stream]
    width, height = camera.resolution
    fx, fy, cx, cy = camera.k[0][0], camera.k[1][1], camera.k[0][2], camera.k[1][2]
    if is_camera(stream, spec) and (width, height) != (spec.shape[1], spec.shape[0]):
        message = f"{stream}: K belongs to {width}x{height}, stored are {spec.shape[1]}x{spec.shape[0]}."
        yield context.finding("k-resolution", message, stream=stream)
    if not (-0.5 <= cx <= width - 0.5 and -0.5 <= cy <= height - 0.5):
        yield context.finding("k-outside", f"{stream}: principal point ({cx:.1f}, {cy:.1f}) is outside {width}x{height}.", stream=stream)
    centred = abs(cx - width / 2) <= 0.5 and abs(cy - height / 2) <= 0.5
    if fx == fy == width and centred:
        yield context.finding("k-invented", f"{stream}: fx = fy = width and a centred principal point look invented.", stream=stream)
    if fx <= 0 or fy <= 0:
        yield context.finding("k-focal", f"{stream}: focal lengths {fx:g}, {fy:g}; expected positive numbers.", stream=stream)


def _spans(context: _Context) -> Found:
    structural = context.reader.structure_keys
    for key in (*context.reader.annotation_keys, *structural):
        spans = context.reader.spans(key) or ()
        outside = [span for span in spans if span.end > context.total]
        if outside:
            message = f"{key}: {len(outside)} of {len(spans)} spans end after frame {context.total}."
            yield context.finding("span-outside", message, stream=key, frames=(outside[0].start, outside[0].end))
        if key in structural:
            continue  # their texts may be empty and are never read
        if any(not span.text.strip() for span in spans):
            yield context.finding(
                "text-empty", f"{key}: {sum(not s.text.strip() for s in spans)} spans have no text.", severity=Severity.WARNING, stream=key
            )
        joined = [span for span in spans if " | " in span.text]
        if joined:
            message = f"{key}: {len(joined)} texts hold ' | ', as if several were joined: {joined[0].text[:40]!r}."
            yield context.finding("text-joined", message, severity=Severity.WARNING, stream=key)
