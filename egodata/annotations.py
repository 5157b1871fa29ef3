"""Annotations: spans of text over frames, with the role in the key name.

Absent (no key) and empty (a key with no spans) are different and stay different; prompts treat both as no text.
Spans under keys that do not start with ``annotations`` are structural, such as ``fold_segments``: they say where windows may lie and are
never a prompt. They are stored like annotations; their text may be empty.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egodata.errors import SchemaError
from egodata.schema.ids import ANNOTATION_PREFIX

GENERIC, TASK, SUBTASK = "annotations", "annotations_task", "annotations_subtask"


@dataclass(frozen=True, slots=True)
class Span:
    """Text over the half-open frame range [start, end)."""

    text: str
    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise SchemaError(f"span [{self.start}, {self.end}) {self.text[:40]!r}: expected 0 <= start < end")


Annotations = Mapping[str, Sequence[Span]]


def divided(spans: Annotations) -> tuple[Annotations, Annotations]:
    """Divide spans by key into texts and structural ones."""
    texts = {key: found for key, found in spans.items() if key.startswith(ANNOTATION_PREFIX)}
    return texts, {key: found for key, found in spans.items() if key not in texts}


def encode_span(span: Span) -> bytes:
    """Return the stored element: UTF-8 JSON with keys text, start_idx, end_idx in that order."""
    return json.dumps({"text": span.text, "start_idx": span.start, "end_idx": span.end}, ensure_ascii=False, separators=(",", ":")).encode()


def decode_span(data: bytes, *, text_optional: bool = False) -> Span:
    """Read one stored element.

    Args:
        data: UTF-8 JSON.
        text_optional: Whether an element without text, as structural spans of older stores are, has an empty one.

    Raises:
        SchemaError: Not such a JSON object, or an empty range.
    """
    try:
        value = json.loads(data)
        text = value.get("text", "") if text_optional and isinstance(value, dict) else value["text"]
        return Span(str(text), int(value["start_idx"]), int(value["end_idx"]))
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise SchemaError(f"annotation element {data[:60]!r}: expected JSON with text, start_idx, end_idx ({error})") from error


def frame_at(timestamps_ns: NDArray[np.int64], time_ns: int) -> int:
    """Return the first frame with t >= time_ns; the number of frames if there is none.

    This one function turns times into frames, for starts and for ends, so spans are half-open everywhere.
    """
    return int(np.searchsorted(timestamps_ns, time_ns, side="left"))


def active_texts(spans: Sequence[Span] | None, frame: int) -> tuple[str, ...]:
    """Return the texts whose span holds a frame, in stored order; empty for absent and for empty."""
    return tuple(span.text for span in spans or () if span.start <= frame < span.end)
