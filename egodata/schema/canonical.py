"""Canonical JSON (RFC 8785) with the two rules that nanoseconds and NaN need."""

import hashlib
import math
from typing import Any

import rfc8785

from egodata.errors import SchemaError

MAX_SAFE_INTEGER = 2**53 - 1


def jsonable(value: Any) -> Any:
    """Return a value in the types that canonical JSON has.

    Integers beyond 2^53-1 become decimal strings; NaN and infinity become null (the caller reports a finding);
    tuples become lists; numpy scalars become Python numbers.

    Raises:
        SchemaError: A type that JSON has no form for, or a key that is not text.
    """
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, dict):
        bad = [key for key in value if not isinstance(key, str)]
        if bad:
            raise SchemaError(f"canonical JSON: keys must be text, got {bad[0]!r}")
        return {key: jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return jsonable(value.item())
    if isinstance(value, int):
        return value if abs(value) <= MAX_SAFE_INTEGER else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    raise SchemaError(f"canonical JSON: no form for {type(value).__name__}. Convert it to plain types first.")


def canonical_json(value: Any) -> bytes:
    """Return the RFC 8785 bytes of a value, after `jsonable`."""
    return bytes(rfc8785.dumps(jsonable(value)))


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of bytes as 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def json_digest(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON."""
    return sha256_hex(canonical_json(value))
