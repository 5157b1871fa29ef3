"""Who was forgotten, as hashes: enough to notice them in a later delivery, too little to read an id from."""

import hashlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime

from egodata.errors import InputError
from egodata.findings import Finding, Severity
from egodata.schema.layout import StorePaths, write_atomic
from egodata.vendors import RecordingRef

FILE = "forgotten.jsonl"


def subject_hash(kind: str, name: str) -> str:
    """Return the SHA-256 by which a recording, an episode or an operator is noticed again."""
    return hashlib.sha256(f"{kind}:{name}".encode()).hexdigest()


def remember_forgotten(paths: StorePaths, *, recordings: Iterable[str], operators: Iterable[str]) -> None:
    """Add what was forgotten to the list; a hash that is there already stays as it is."""
    known, at = forgotten_hashes(paths), datetime.now(UTC).isoformat(timespec="seconds")
    wanted = [subject_hash("recording", name) for name in recordings] + [subject_hash("operator", name) for name in operators]
    lines = [json.dumps({"sha256": digest, "at": at}) for digest in dict.fromkeys(wanted) if digest not in known]
    path = paths.ledger / FILE
    before = path.read_bytes() if path.is_file() else b""
    write_atomic(path, before + "".join(f"{line}\n" for line in lines).encode())


def forgotten_hashes(paths: StorePaths) -> frozenset[str]:
    """Return the hashes of everything that was forgotten.

    Raises:
        InputError: The list is damaged: who was forgotten must not come back by accident.
    """
    path = paths.ledger / FILE
    if not path.is_file():
        return frozenset()
    try:
        return frozenset(str(json.loads(line)["sha256"]) for line in path.read_text("utf-8").splitlines())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: damaged ({error}). Restore it from a backup, or remove it if nobody is to stay forgotten.") from error


def forgotten_finding(ref: RecordingRef, hashes: frozenset[str]) -> Finding | None:
    """Say that a recording was forgotten by its id or by its operator; None if it was not."""
    operators = [] if ref.operator is None else [subject_hash("operator", f"{ref.vendor}/{ref.operator}")]
    if not hashes & {subject_hash("recording", ref.id), *operators}:
        return None
    message = f"recording {ref.id}: was forgotten on request, and is left out. To build it all the same: --include-forgotten."
    return Finding("forgotten", Severity.WARNING, ref.id, message)
