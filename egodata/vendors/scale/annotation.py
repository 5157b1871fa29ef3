"""The annotation JSON: paths of hand points, and clips of text."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.findings import Severity
from egodata.schema.features import SIDES
from egodata.vendors.base import Notes
from egodata.vendors.files import parse_json
from egodata.vendors.human import clean_points
from egodata.vendors.matching import at_frames, increasing
from egodata.vendors.scale.scene import MAX_US, NS_PER_US, timed

FINGERS = ("thumb", "index", "middle", "ring", "pinky")
POINTS = ("hand_wrist", *(f"hand_{finger}{joint}" for finger in FINGERS for joint in (1, 2, 3, 4)))
"""Labels of the 21 points without their side, in MANO order."""

LABELS = {f"{side}_{name}": (side, index) for side in SIDES for index, name in enumerate(POINTS)}


@dataclass(frozen=True, slots=True)
class TextClip:
    """A clip of text, on the scene's clock, half-open.

    Attributes:
        label: Kind, such as ``Sub-goal``.
        text: What it says.
        start_ns: First instant.
        end_ns: Instant after the last one.
        attributes: Values by attribute name.
    """

    label: str
    text: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class AnnotationFile:
    """What the annotation JSON holds.

    Attributes:
        points: Annotations of type ``points``.
        texts: Annotations of type ``text_annotation``.
        attributes: Values by name, of the whole task.
    """

    points: tuple[Mapping[str, Any], ...]
    texts: tuple[Mapping[str, Any], ...]
    attributes: Mapping[str, tuple[str, ...]]


def read_annotation_file(paths: list[Path], notes: Notes) -> AnnotationFile:
    """Read the one JSON file of a recording that holds `annotations`; NUL bytes at its end are cut off and counted.

    Raises:
        SetAside: There is none, or more than one.
    """
    found, problems = [], []
    for path in paths:
        data = path.read_bytes()
        text = data.rstrip(b"\0")
        try:
            value = parse_json(text.decode("utf-8-sig"))
        except ValueError as error:
            problems.append(f"{path.name}: {len(data)} bytes, not JSON ({error})")
            continue
        if isinstance(value, dict) and isinstance(value.get("annotations"), list):
            found.append(value)
            if len(text) < len(data):
                notes.counts["nul_bytes"] = len(data) - len(text)
                notes.add("json-padded", f"{path.name}: {len(data) - len(text)} NUL bytes at its end; cut off", severity=Severity.INFO)
    if len(found) != 1:
        why = "; ".join(problems[:3]) or f"{len(found)} of {len(paths)} JSON files hold annotations, expected 1"
        notes.refuse("annotation-json", f"{why}. Ask for the annotation file again.")
    items = [item for item in found[0]["annotations"] if isinstance(item, dict)]
    known = ("points", "text_annotation")
    other = sorted({str(item.get("type"))[:40] for item in items} - set(known))
    if other or len(items) < len(found[0]["annotations"]):
        notes.counts["dropped_annotation_types"] = other
        notes.add(
            "annotation-kinds", f"annotations of other kinds are not read: {', '.join(other) or 'no objects'}", severity=Severity.INFO
        )
    attributes = dict(attribute_values(found[0].get("attributes")))
    for item in items:
        attributes = {**attribute_values(item.get("attributes")), **attributes}
    return AnnotationFile(
        tuple(item for item in items if item.get("type") == known[0]),
        tuple(item for item in items if item.get("type") == known[1]),
        attributes,
    )


def attribute_values(value: Any) -> dict[str, tuple[str, ...]]:
    """Read a list of ``{name, values}``; what has another form is left out."""
    out = {}
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            values = item.get("values")
            listed = values if isinstance(values, list) else [values]
            out[item["name"]] = tuple(str(entry) for entry in listed if isinstance(entry, (str, int, float)))
    return out


def read_hands(
    file: AnnotationFile, frames_ns: NDArray[np.int64], *, limit_ns: float, notes: Notes
) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.int64]]:
    """Read the hands' points at the frames.

    Args:
        file: The annotation JSON.
        frames_ns: (T,) times of the frames.
        limit_ns: Largest distance of a point's time from its frame's.
        notes: Told of labels that are not known.

    Returns:
        By side, (T, 21, 3) metres in the world, NaN where missing; and all times of points that are there (N,), in no order.

    Raises:
        SetAside: A path is unusable, its time goes back, or a point has two values at one frame.
    """
    hands = {side: np.full((len(frames_ns), len(POINTS), 3), np.nan) for side in SIDES}
    unknown: list[str] = []
    times: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    for label, path in _paths(file, notes):
        if label not in LABELS:
            unknown.append(label[:40])
            continue
        stamps, values = timed(path.get("timestamps"), path.get("values"), width=3, where=label, notes=notes)
        stream = increasing(stamps, values, stream=label, notes=notes)
        times.append(stream[0])
        side, index = LABELS[label]
        points = clean_points(at_frames(frames_ns, stream, limit_ns=limit_ns))
        before = hands[side][:, index]
        twice = np.isfinite(before).all(1) & np.isfinite(points).all(1) & (before != points).any(1)
        if twice.any():
            at = int(np.flatnonzero(twice)[0])
            notes.refuse(
                "rows-conflict", f"{label}: two values at frame {at}. A second take is not mixed in.", stream=label, frames=(at, at + 1)
            )
        hands[side][:, index] = np.where(np.isfinite(points), points, before)
    if unknown:
        notes.counts["dropped_labels"] = sorted(set(unknown))
        notes.add("labels-unknown", f"{len(unknown)} paths with other labels are not read, first {unknown[0]}", severity=Severity.INFO)
    return hands, np.concatenate(times)


def _paths(file: AnnotationFile, notes: Notes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for item in file.points:
        labels, paths = item.get("labels"), item.get("paths")
        if not isinstance(labels, list) or not isinstance(paths, list) or len(labels) != len(paths):
            notes.refuse("stream-unusable", "points: expected as many labels as paths. Ask for the annotation file again.", stream="points")
        for label, path in zip(labels, paths, strict=True):
            if not isinstance(path, dict):
                notes.refuse(
                    "stream-unusable", f"{str(label)[:40]}: expected timestamps and values. Ask for the file again.", stream="points"
                )
            yield str(label), path


def read_clips(file: AnnotationFile, notes: Notes) -> tuple[list[TextClip], list[str]]:
    """Read the clips of text in order of start; those without a usable time are left out and counted.

    Returns:
        The clips, and the labels that are there, with or without clips.
    """
    clips, refused, labels = [], 0, []
    for item in file.texts:
        label = str(item.get("label"))[:80]
        labels.append(label)
        given = item.get("clips")
        for value in given if isinstance(given, list) else ():
            clip = _clip(label, value)
            refused += clip is None
            if clip is not None:
                clips.append(clip)
    if refused:
        notes.counts["refused_clips"] = refused
        notes.add("clips-refused", f"{refused} clips of text have no usable time and length; left out", stream="text_annotation")
    return sorted(clips, key=lambda clip: (clip.start_ns, clip.end_ns)), labels


def _clip(label: str, value: Any) -> TextClip | None:
    if not isinstance(value, dict):
        return None
    start: Any = value.get("timestamp")
    length: Any = value.get("duration")
    if not (_number(start) and _number(length)) or length <= 0:
        return None
    begin, end = round(start) * NS_PER_US, round(start + length) * NS_PER_US
    text = value.get("text")
    return TextClip(label, text if isinstance(text, str) else "", begin, end, attribute_values(value.get("attributes")))


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < MAX_US / 2
