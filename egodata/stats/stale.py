"""Kept statistics that today's algorithm would not find: they are computed again when they are asked for."""

import json
from dataclasses import dataclass
from pathlib import Path

from egodata.schema.canonical import json_digest
from egodata.schema.layout import StorePaths
from egodata.stats.compute import ALGORITHM


@dataclass(frozen=True, slots=True)
class StaleStatistics:
    """One file of statistics that is not used any more.

    Attributes:
        ref: Dataset, ``name@version``.
        file: Its name.
        why: In words.
    """

    ref: str
    file: str
    why: str


def stale_statistics(paths: StorePaths) -> list[StaleStatistics]:
    """Return the kept statistics whose key is not what their training head and recipe have under today's algorithm, sorted."""
    found = []
    for path in sorted((paths.root / "norm_stats").glob("*/*/*.json")):
        if (why := _why(path)) is not None:
            found.append(StaleStatistics(f"{path.parent.parent.name}@{path.parent.name}", path.name, why))
    return found


def _why(path: Path) -> str | None:
    try:
        body = json.loads(path.read_bytes())
        key = json_digest({"train": body["train_digest"], "recipe": body["recipe_digest"], "algorithm": ALGORITHM})
        return None if body["key"] == key else f"another algorithm than {ALGORITHM}"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"cannot be read ({type(error).__name__})"
