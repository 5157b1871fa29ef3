"""Content digests of arrays and episodes. The definition is in docs/format.md; the golden set pins it."""

import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.schema.canonical import canonical_json, json_digest

BYTES_DTYPE = "bytes"
META_EXCLUDED = frozenset(
    {"episode_id", "recording_id", "delivery", "processing", "provenance", "digests", "calibration", "intrinsics", "extrinsics"}
)


def _header(key: str, dtype: str, shape: Sequence[int]) -> bytes:
    return canonical_json({"key": key, "dtype": dtype, "shape": list(shape)}) + b"\n"


def canonical_array(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array in the one form that is hashed: C order, little-endian, one quiet NaN, no negative zero."""
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    if little.dtype.kind != "f":
        return little
    out: NDArray[Any] = little + little.dtype.type(0)  # -0 + 0 is +0; also makes a copy
    out[np.isnan(out)] = np.nan
    return out


def array_digest(key: str, array: NDArray[Any]) -> str:
    """Digest one numeric array.

    SHA-256 of canonical ``{"key","dtype","shape"}``, a newline, then the canonical bytes of all rows.

    Args:
        key: Feature key.
        array: Shape (T, ...), any numeric or bool dtype; dtype is written as numpy names it (``float32``).

    >>> array_digest("a", np.zeros((1, 1), np.float32)) == array_digest("a", -np.zeros((1, 1), np.float32))
    True
    """
    digest = hashlib.sha256(_header(key, array.dtype.name, array.shape))
    digest.update(canonical_array(array).tobytes())
    return digest.hexdigest()


def elements_digest(key: str, elements: Iterable[bytes], *, count: int) -> str:
    """Digest an array of variable-length elements, each preceded by its length as uint64 little-endian.

    Args:
        key: ``images.<camera>`` or an annotation key.
        elements: The elements in order.
        count: How many there are; it is part of the header.
    """
    digest = hashlib.sha256(_header(key, BYTES_DTYPE, [count]))
    for element in elements:
        digest.update(struct.pack("<Q", len(element)))
        digest.update(element)
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class EpisodeDigests:
    """The four digests of an episode and the one over them, 64 hex digits each."""

    media: str
    annotations: str
    calibration: str
    meta: str

    @property
    def content(self) -> str:
        """SHA-256 of the canonical JSON object of the four."""
        return json_digest({"media": self.media, "annotations": self.annotations, "calibration": self.calibration, "meta": self.meta})

    def to_json(self) -> dict[str, str]:
        """Return the four and `content` as a plain object."""
        return {
            "media": self.media,
            "annotations": self.annotations,
            "calibration": self.calibration,
            "meta": self.meta,
            "content": self.content,
        }


def combined_digest(parts: Mapping[str, str]) -> str:
    """Digest a set of array digests: SHA-256 over canonical ``[[key, digest], ...]`` sorted by key bytes."""
    return json_digest([[key, parts[key]] for key in sorted(parts, key=str.encode)])


def meta_digest(attributes: Mapping[str, Any]) -> str:
    """Digest the semantic attributes: all but those of identity, processing, provenance and calibration."""
    return json_digest({key: value for key, value in attributes.items() if key not in META_EXCLUDED})


def calibration_digest(attributes: Mapping[str, Any]) -> str:
    """Digest the attributes calibration, intrinsics and extrinsics, null where absent."""
    return json_digest({key: attributes.get(key) for key in ("calibration", "intrinsics", "extrinsics")})
