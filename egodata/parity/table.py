"""The report table: one row per check and level, and one per episode whose content was compared. Only ever appended to."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import lance
import pyarrow as pa
from filelock import FileLock

from egodata.config import find_config, load_config
from egodata.errors import CorruptEpisodeError
from egodata.formats.lance import video_kind
from egodata.parity.report import Difference, LevelReport, ParityConfig, ParityReport
from egodata.schema.layout import StorePaths

_SCHEMA = pa.schema(
    [
        ("created", pa.string()),
        ("level", pa.string()),
        ("episode_id", pa.string()),
        ("content", pa.string()),
        ("passed", pa.bool_()),
        ("dataset", pa.string()),
        ("dataset_digest", pa.string()),
        ("recipe", pa.string()),
        ("recipe_digest", pa.string()),
        ("lance_versions", pa.string()),
        ("config", pa.string()),
        ("counts", pa.string()),
        ("largest_numeric", pa.float64()),
        ("largest_numeric_at", pa.string()),
        ("largest_pixel", pa.float64()),
        ("largest_pixel_at", pa.string()),
        ("findings", pa.int64()),
        ("worst", pa.string()),
    ]
)


def append_report(paths: StorePaths, report: ParityReport) -> None:
    """Append the rows of a check: a row without episode per level, and a row per episode of the content level."""
    path = paths.reports / "parity.lance"
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [row for level in report.levels for row in _level_rows(report, level)]
    table = pa.Table.from_pylist(rows, schema=_SCHEMA)
    with FileLock(paths.reports / ".parity.lock"):
        if path.exists():
            lance.write_dataset(table, path, mode="append")
        else:
            lance.write_dataset(table, path, data_storage_version="stable")


def _level_rows(report: ParityReport, level: LevelReport) -> Iterable[dict[str, Any]]:
    documented, found = report.to_json(), level.to_json()
    shared = {
        **{name: documented[name] for name in ("created", "dataset", "dataset_digest", "recipe", "recipe_digest")},
        "lance_versions": json.dumps(documented["lance_versions"], sort_keys=True),
        "config": json.dumps(documented["config"], sort_keys=True),
        "level": level.level,
    }
    yield {
        **shared,
        "passed": level.passed,
        "counts": json.dumps(found["counts"], sort_keys=True),
        **_difference("largest_numeric", level.outcome.numeric),
        **_difference("largest_pixel", level.outcome.pixel),
        "findings": found["findings_total"],
        "worst": json.dumps(found["worst"]),
    }
    if level.level == "content":
        for episode_id, content in level.passed_episodes:
            yield {**shared, "episode_id": episode_id, "content": content, "passed": True, "findings": 0}
        for episode_id in level.failed:
            own = [finding for finding in level.outcome.findings if finding.episode == episode_id]
            known = next((finding.content for finding in own if finding.content), None)
            worst = json.dumps([own[0].to_json()])
            yield {**shared, "episode_id": episode_id, "content": known, "passed": False, "findings": len(own), "worst": worst}


def _difference(name: str, found: Difference | None) -> dict[str, Any]:
    if found is None:
        return {name: 0.0}
    return {name: found.value, f"{name}_at": f"{found.episode} {found.stream} frame {found.frame}"}


def read_rows(paths: StorePaths, *, where: str | None = None) -> list[dict[str, Any]]:
    """Return rows of the table, oldest first; none where there is no table.

    Args:
        paths: The store.
        where: SQL condition over the columns.

    Raises:
        CorruptEpisodeError: The table cannot be read.
    """
    path = paths.reports / "parity.lance"
    if not path.exists():
        return []
    try:
        rows: list[dict[str, Any]] = lance.dataset(path).to_table(filter=where).to_pylist()
    except (OSError, ValueError, RuntimeError) as error:
        raise CorruptEpisodeError(f"{path}: cannot be read ({' '.join(str(error).split())[:200]}). Remove it and check again.") from error
    return sorted(rows, key=lambda row: row["created"])


def latest(paths: StorePaths, level: str | None = None) -> list[dict[str, Any]]:
    """Return the newest row of each level, dataset and recipe, oldest first.

    Args:
        paths: The store.
        level: Only this level.
    """
    newest: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in read_rows(paths, where="episode_id IS NULL"):
        if level in (None, row["level"]):
            newest[row["level"], row["dataset_digest"], row["recipe_digest"]] = row
    return sorted(newest.values(), key=lambda row: row["created"])


def proves(row: Mapping[str, Any], *, video: str) -> bool:
    """Say whether a row of the table is a verdict that a gate may rest on: it passed, and under bounds no looser than the shipped ones.

    Args:
        row: A row of the table.
        video: How the copy's video came about: ``copy`` asks for equal bytes, ``av1`` for the bounds in configs/parity/av1.yaml.
    """
    bounds = json.loads(row["config"])
    exact = bounds["numeric"] is None and bounds["video_bytes"] == "equal" and bounds["pixel"] == 0
    return bool(row["passed"]) and (exact or (video != "copy" and _within(bounds, load_config(find_config("parity", video), ParityConfig))))


def _within(bounds: Mapping[str, Any], shipped: ParityConfig) -> bool:
    if bounds["numeric"] is not None:
        return False
    mae, least = bounds["pixel_mae"], {name: bounds[name] for name in ("psnr_db", "ssim")}
    tight = mae is not None and shipped.pixel_mae is not None and mae <= shipped.pixel_mae
    return tight and all(value is not None and value >= getattr(shipped, name) for name, value in least.items())


def unproven(paths: StorePaths, contents: Iterable[tuple[str, str]]) -> list[str]:
    """Return which episodes' newest content check at that content proves nothing, or was never made: what keeps a freeze waiting.

    A check that passed under looser bounds than the shipped ones proves nothing.

    Args:
        paths: The store.
        contents: (episode id, content digest) pairs.
    """
    verdicts: dict[tuple[str, str], bool] = {}
    rows = read_rows(paths, where="level = 'content' AND episode_id IS NOT NULL")
    video = video_kind(paths) if rows else "copy"
    for row in rows:
        if not row["content"]:  # it could not be opened at all: what was proven before no longer counts
            verdicts = {key: passed for key, passed in verdicts.items() if key[0] != row["episode_id"]}
        else:
            verdicts[row["episode_id"], row["content"]] = proves(row, video=video)
    return [episode_id for episode_id, content in contents if not verdicts.get((episode_id, content), False)]
