"""Parity of training: one config trained on zarr and on Lance, compared in samples, losses, weights and metrics."""

import hashlib
import math
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from egodata.findings import Finding, Severity
from egodata.parity import Difference, LevelReport, Outcome, ParityConfig, ParityReport
from egodata.parity.table import append_report
from egodata.progress import Progress, silent
from egodata.sampling import HeadSource, epoch_order, load_recipe, sample_digest
from egodata.sampling.plans import largest_remainder
from egodata.schema.layout import StorePaths, open_root, require_writable
from egotrain.build import Say, quiet
from egotrain.checkpoint import find_checkpoint, load_checkpoint
from egotrain.conf import FitConfig, Format
from egotrain.datasets import TRAIN, RunDataset, load_datasets
from egotrain.runs import METRICS, MetricsFile, RunResult
from egotrain.training import CHECKPOINTS, Training

FORMATS: tuple[Format, ...] = ("zarr", "lance")
LEVEL = "training"


@dataclass(frozen=True, slots=True)
class Gap:
    """How far one number is apart on the two formats.

    Attributes:
        name: Such as ``seen policy head.xyz_mse_m2``, or ``loss at step 7``.
        zarr: On zarr.
        lance: On Lance.
    """

    name: str
    zarr: float
    lance: float

    @property
    def relative(self) -> float:
        """Absolute difference over the larger magnitude; 0 where both are equal, infinity where only one is a number."""
        if self.zarr == self.lance or (math.isnan(self.zarr) and math.isnan(self.lance)):
            return 0.0
        found = abs(self.zarr - self.lance) / max(abs(self.zarr), abs(self.lance))
        return math.inf if math.isnan(found) else found


@dataclass(frozen=True, slots=True)
class TrainingParity:
    """What came out.

    Attributes:
        report: As the parity table keeps it.
        gaps: Every metric of every head, and the loss of every step.
        samples: Training samples compared, and how many of them differed.
        weights_equal: Whether the weights after the last step are equal to the last bit.
    """

    report: ParityReport
    gaps: tuple[Gap, ...]
    samples: tuple[int, int]
    weights_equal: bool

    @property
    def passed(self) -> bool:
        """Whether nothing is further apart than asked for."""
        return self.report.passed

    def metrics(self) -> list[Gap]:
        """Return the gaps of metrics, without those of single steps."""
        return [gap for gap in self.gaps if not gap.name.startswith("loss at step")]


def training_parity(
    config: FitConfig, *, tolerance: float = 0.0, samples: int = 64, say: Say = quiet, progress: Progress = silent
) -> TrainingParity:
    """Train a config on both formats, compare, and append the verdict to the store's parity table.

    The runs lie in the store's cache while they last and are removed.

    Args:
        config: Of the run; its format does not matter, its loss is written every step.
        tolerance: Largest relative difference of losses and metrics. 0 asks for equal bits, of samples and weights too; above it
            samples and weights may differ, as they do for video that was encoded again.
        samples: How many of the first training samples to compare, byte by byte.
        say: Told in lines what is done.
        progress: Told how far evaluation has come.

    Raises:
        NotFoundError: No such store, dataset or copy.
        InputError: The store cannot be written to.
    """
    paths = open_root(Path(config.store).expanduser())
    require_writable(paths)
    datasets = load_datasets(paths, config)
    manifest = datasets[0].manifest
    differing = _compare_samples(paths, datasets, config, count=samples)
    say(f"samples: {len(differing)} of the first {samples} training samples differ")
    runs, weights = _train_both(paths, datasets, config, say=say, progress=progress)
    gaps = tuple(_gaps(runs))
    found = _findings(gaps, differing, weights, tolerance=tolerance)
    worst = max(gaps, key=lambda gap: gap.relative, default=None)
    largest = None if worst is None or not worst.relative else Difference(worst.relative, "", worst.name, 0)
    counts = {"steps": config.trainer.max_steps, "samples": samples, "metrics": len(gaps) - config.trainer.max_steps}
    counts["datasets"] = len(datasets)
    report = ParityReport(
        levels=(LevelReport(LEVEL, Outcome(counts, tuple(found), numeric=largest), (), ()),),
        dataset=manifest.ref,
        dataset_digest=manifest.digest,
        recipe=config.recipe,
        recipe_digest=load_recipe(config.recipe).digest,
        versions=manifest.lance_versions or {},
        config=_bounds(tolerance),
        samples=samples,
        created=datetime.now(UTC).isoformat(timespec="microseconds"),
    )
    append_report(paths, report)
    return TrainingParity(report, gaps, (samples, len(differing)), weights["zarr"] == weights["lance"])


def _bounds(tolerance: float) -> ParityConfig:
    return ParityConfig() if tolerance == 0 else ParityConfig(numeric=tolerance, pixel=None, video_bytes="any")


def _compare_samples(paths: StorePaths, datasets: tuple[RunDataset, ...], config: FitConfig, *, count: int) -> list[int]:
    """Return which of the first training samples differ; each dataset gives its share of them, one after the other."""
    digests: list[list[str]] = []
    for format in FORMATS:
        found: list[str] = []
        for one, share in zip(datasets, largest_remainder(count, [1.0] * len(datasets)), strict=True):
            source = HeadSource.open(paths, one.manifest, head=TRAIN, recipe=one.recipe, format=format, seed=config.seed)
            order = epoch_order(len(source), seed=config.seed, epoch=0)[:share].tolist()
            found += [sample_digest(sample) for sample in source.samples(order, epoch=0)]
            source.close()
        digests.append(found)
    return [at for at, pair in enumerate(zip(*digests, strict=True)) if pair[0] != pair[1]]


def _train_both(
    paths: StorePaths, datasets: tuple[RunDataset, ...], config: FitConfig, *, say: Say, progress: Progress
) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    """Return all numbers by name and the digest of the weights, by format."""
    numbers: dict[str, dict[str, float]] = {}
    weights: dict[str, str] = {}
    paths.cache.mkdir(exist_ok=True)
    scratch = Path(mkdtemp(prefix="training-parity-", dir=paths.cache))
    try:
        for format in FORMATS:
            folder = scratch / format
            folder.mkdir()
            trainer = replace(config.trainer, log_every_steps=1, devices=1, wandb_project="", keep_checkpoints=1)
            evaluation = replace(config.evaluation, videos=0)
            own = replace(config, format=format, run=f"parity-{format}", trainer=trainer, evaluation=evaluation)
            say(f"{format}: {own.trainer.max_steps} steps")
            done = Training(paths, datasets, folder, own, quiet).run(progress)
            numbers[format] = _numbers(done)
            weights[format] = _weights_digest(folder / CHECKPOINTS)
    finally:
        shutil.rmtree(scratch)
    return numbers, weights


def _numbers(done: RunResult) -> dict[str, float]:
    rows = MetricsFile(done.path / METRICS).rows()
    out = {f"loss at step {row.step}": row.value for row in rows if (row.head, row.who, row.metric) == ("train", "policy", "loss")}
    last = done.result["steps"]
    out.update({f"{row.head} {row.who} {row.metric}": row.value for row in rows if row.head != "train" and row.step == last})
    train: Mapping[str, Any] = done.result["heads"].get("train", {"scores": {}})
    for who, found in train["scores"].items():
        out.update({f"train {who} {name}": math.nan if value is None else value for name, value in found.items()})
    return out


def _weights_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(load_checkpoint(find_checkpoint(folder)).weights.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def _gaps(runs: Mapping[str, Mapping[str, float]]) -> Iterable[Gap]:
    zarr, lance = (runs[format] for format in FORMATS)
    for name in dict.fromkeys((*zarr, *lance)):
        yield Gap(name, zarr.get(name, math.nan), lance.get(name, math.nan))


def _findings(gaps: Iterable[Gap], differing: list[int], weights: Mapping[str, str], *, tolerance: float) -> list[Finding]:
    out = []
    if tolerance == 0 and differing:
        shown = ", ".join(str(at) for at in differing[:5])
        out.append(_finding("samples", f"training samples {shown} of the epoch's order differ ({len(differing)} in all)"))
    if tolerance == 0 and weights["zarr"] != weights["lance"]:
        out.append(_finding("weights", "the weights after the last step differ"))
    for gap in gaps:
        if gap.relative > tolerance:
            text = (
                f"{gap.name} is {gap.zarr!r} on zarr and {gap.lance!r} on lance, {gap.relative:.3g} apart, expected {tolerance:g} at most"
            )
            out.append(_finding(gap.name, text))
    return out


def _finding(stream: str, text: str) -> Finding:
    message = f"training: {text}. Check loader parity first (egodata parity --recipe)."
    return Finding("parity-training", Severity.ERROR, "", message, stream)
