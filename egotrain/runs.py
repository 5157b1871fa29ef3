"""Run folders: what a run wrote down, whether it is finished, and whether another may go on with it."""

import csv
import io
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from egodata.errors import ConfigError, ConflictError, InputError, NotFoundError
from egodata.names import nearest
from egodata.schema.ids import check_dataset_name
from egodata.schema.layout import StorePaths, write_atomic
from egotrain.conf import DataConfig, EvaluationConfig, FitConfig, TrainerConfig, plain
from egotrain.datasets import RunDataset
from egotrain.run_data import Part, RunData

CONFIG, DATASET, ENVIRONMENT = "config.yaml", "dataset.json", "environment.json"
METRICS, RESULT, STATS = "metrics.csv", "result.json", "stats.json"
CHANGES, EVALUATIONS, VIDEOS = "changes.diff", "evaluations", "videos"
RESULT_SCHEMA = 1
COLUMNS = ("step", "head", "who", "metric", "value")
LOCK = ".lock"
FREE_KEYS = ("resume", "store", "data.num_workers", "trainer.keep_checkpoints", "trainer.wandb_project")
"""Keys that may differ when a run is resumed: they do not change what it computes."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """A finished run.

    Attributes:
        run: Its name.
        path: Its folder.
        already_done: Whether it was finished before it was asked for.
        result: The content of result.json.
    """

    run: str
    path: Path
    already_done: bool
    result: Mapping[str, Any]

    @property
    def train_loss(self) -> float:
        """Loss of the last step."""
        return float.fromhex(self.result["train_loss_hex"])

    @property
    def validation_loss(self) -> dict[str, float]:
        """Loss per evaluated head."""
        return {head: float.fromhex(found["loss_hex"]) for head, found in self.result["heads"].items()}


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One value of one metric at one step."""

    step: int
    head: str
    who: str
    metric: str
    value: float


class MetricsFile:
    """Rows of (step, head, who, metric, value), appended as they come; floats are written so that they read back exactly."""

    def __init__(self, path: Path) -> None:
        """Use a file, which is made with the first rows."""
        self.path = path

    def add(self, step: int, rows: Sequence[tuple[str, str, str, float]]) -> None:
        """Append rows of one step."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self.path.exists():
            writer.writerow(COLUMNS)
        writer.writerows((step, head, who, metric, repr(float(value))) for head, who, metric, value in rows)
        with self.path.open("a") as file:
            file.write(text.getvalue())

    def rows(self) -> list[MetricRow]:
        """Return all rows, in the order written; none where there is no file."""
        if not self.path.exists():
            return []
        with self.path.open() as file:
            return [
                MetricRow(int(row["step"]), row["head"], row["who"], row["metric"], float(row["value"])) for row in csv.DictReader(file)
            ]

    def last(self, head: str, metric: str) -> float:
        """Return the last value of a metric of the policy; NaN if there is none."""
        found = [row.value for row in self.rows() if (row.head, row.who, row.metric) == (head, "policy", metric)]
        return found[-1] if found else float("nan")

    def cut_after(self, step: int) -> None:
        """Drop rows of later steps, which a run that is resumed will write again, and a last line that was cut off."""
        if not self.path.exists():
            return
        lines = self.path.read_text().splitlines(keepends=True)
        kept = [line for line in lines if line.endswith("\n") and line.count(",") == len(COLUMNS) - 1]
        body = [line for line in kept[1:] if int(line.partition(",")[0]) <= step]
        write_atomic(self.path, "".join([*kept[:1], *body]).encode())


def run_folder(paths: StorePaths, run: str) -> Path:
    """Return the folder of a run by name.

    Raises:
        SchemaError: Not a name that a folder may have.
    """
    return paths.runs / check_dataset_name(run, "run name")


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold a run folder against a second process; the lock goes with the process.

    Raises:
        ConflictError: Another process trains there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise ConflictError(f"run {folder.name}: another process is training it. Wait for it, or choose another run name.") from error
    try:
        yield
    finally:
        lock.release()


def was_begun(folder: Path) -> bool:
    """Say whether a run got as far as a checkpoint or a result; what failed before claims no name."""
    return (folder / RESULT).is_file() or any((folder / "checkpoints").glob("*.ckpt"))


def clear_attempt(folder: Path) -> None:
    """Remove what an attempt left that never came to a checkpoint; the lock of the run, which is held, stays."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != LOCK:
            path.unlink()


def finished(folder: Path) -> dict[str, Any] | None:
    """Return the result of a finished run, None if there is none.

    Raises:
        InputError: Its result was written by a newer version or is damaged.
    """
    path = folder / RESULT
    if not path.is_file():
        return None
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except ValueError as error:
        raise InputError(f"run {folder.name}: {RESULT} is not JSON ({error}). Remove it and resume, or choose another run name.") from error
    if found.get("schema") != RESULT_SCHEMA:
        raise InputError(f"run {folder.name}: {RESULT} has schema {found.get('schema')}, this egotrain reads {RESULT_SCHEMA}.")
    return found


def check_same(folder: Path, config: FitConfig, *, datasets: Sequence[RunDataset]) -> None:
    """Refuse to take an existing run for one of another config or other datasets.

    Raises:
        ConfigError: Naming the keys that differ, what the run has and what was asked for.
        InputError: What describes the run is missing or damaged.
    """
    try:
        before = flat(dict(yaml.safe_load((folder / CONFIG).read_text())))
        noted = json.loads((folder / DATASET).read_text())
        digests = [str(one["digest"]) for one in (noted, *noted.get("co_train", ()))]
    except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError) as error:
        raise InputError(
            f"run {folder.name}: its {CONFIG} or {DATASET} cannot be read ({type(error).__name__}). Restore it, or choose another run name."
        ) from error
    after = flat(plain(asdict(config)))
    wrong = [
        f"{key} is {before.get(key)!r} there and {after.get(key)!r} here"
        for key in sorted({*before, *after} - set(FREE_KEYS))
        if before.get(key, _absent(key)) != after.get(key)
    ]
    for digest, one in zip(digests, datasets, strict=False):  # another number of them shows as co_train above
        if digest != one.manifest.digest:
            wrong.append(f"digest of {one.manifest.ref} is {digest[:16]} there and {one.manifest.digest[:16]} here")
    if wrong:
        more = f" (and {len(wrong) - 5} more)" if len(wrong) > 5 else ""
        raise ConfigError(f"run {folder.name}: exists with another config: {'; '.join(wrong[:5])}{more}. Choose another run name.")


def _absent(key: str) -> Any:
    """Return the value of a key that a run's config did not know yet: its default, which is what the run did."""
    section, _, name = key.rpartition(".")
    owner: Any = {"": FitConfig, "data": DataConfig, "trainer": TrainerConfig, "evaluation": EvaluationConfig}.get(section)
    found = [item.default for item in fields(owner) if item.name == name and item.default is not MISSING] if owner else []
    return plain(found[0]) if found else None


def flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values by dotted key."""
    out: dict[str, Any] = {}
    for key, item in value.items():
        out.update(flat(item, f"{prefix}{key}.") if isinstance(item, Mapping) else {f"{prefix}{key}": item})
    return out


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write plain values as readable JSON, whole or not at all."""
    write_atomic(path, json.dumps(value, indent=1, sort_keys=True, allow_nan=False).encode() + b"\n")


def describe_run(folder: Path, config: FitConfig, *, data: RunData, environment: Mapping[str, Any], changes: str) -> None:
    """Write what a run is before it starts; `config.yaml` comes last and marks the folder as a run.

    Args:
        folder: Of the run.
        config: The whole run.
        data: Its datasets, with their statistics.
        environment: Versions, machine, code revision.
        changes: How the code differs from that revision; no file is written where it does not.
    """
    first, *others = (_about(part) for part in data.parts)
    write_json(folder / DATASET, {**first, "co_train": others})
    for at, part in enumerate(data.parts):
        write_atomic(folder / (f"stats-{at}.json" if at else STATS), part.stats.to_bytes())
    write_json(folder / ENVIRONMENT, environment)
    if changes:
        write_atomic(folder / CHANGES, changes.encode())
    write_atomic(folder / CONFIG, yaml.safe_dump(plain(asdict(config)), sort_keys=False).encode())


def _about(part: Part) -> dict[str, Any]:
    manifest = part.dataset.manifest
    heads = {head: {"episodes": len(members), "frames": sum(e.frames for e in members)} for head, members in manifest.heads.items()}
    how = {"recipe": part.recipe.name, "weight": part.dataset.weight, "stats_key": part.stats.key}
    return {**part.dataset.reference, "lance_versions": manifest.lance_versions, "heads": heads, **how}


def open_run(path: Path) -> Path:
    """Return a run folder given by path.

    Raises:
        NotFoundError: It is not one; the nearest names beside it are given.
    """
    if (path / CONFIG).is_file():
        return path
    known = [found.parent.name for found in path.parent.glob(f"*/{CONFIG}")] if path.parent.is_dir() else []
    raise NotFoundError(f"run {path}: no {CONFIG} there; {nearest(path.name, known)}")
