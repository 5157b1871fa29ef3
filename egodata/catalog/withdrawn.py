"""Datasets that hold someone who asked to be forgotten: their manifest stays, for lineage, and nothing opens them any more."""

import json
from pathlib import Path
from typing import Any

from egodata.errors import GateError
from egodata.schema.layout import write_atomic

MARK = "withdrawn.json"


def is_withdrawn(manifest: Path) -> bool:
    """Say whether the dataset of a manifest file is withdrawn."""
    return manifest.with_name(MARK).is_file()


def withdraw(manifest: Path, *, episodes: int, created: str) -> None:
    """Mark the dataset of a manifest file; a mark that stands is added up."""
    mark = manifest.with_name(MARK)
    before: dict[str, Any] = json.loads(mark.read_text()) if mark.is_file() else {"episodes": 0}
    body = {"created": created, "episodes": before["episodes"] + episodes, "why": "episodes were forgotten on request"}
    write_atomic(mark, json.dumps(body, indent=1, sort_keys=True).encode() + b"\n")


def require_not_withdrawn(manifest: Path, *, where: str) -> None:
    """Refuse a withdrawn dataset.

    Raises:
        GateError: It is withdrawn; nothing of it may be read any more.
    """
    if is_withdrawn(manifest):
        found = json.loads(manifest.with_name(MARK).read_text())
        raise GateError(f"{where}: withdrawn, {found['episodes']} of its episodes were forgotten on request. Freeze another version.")
