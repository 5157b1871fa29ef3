"""The values of a parity check: tolerances, differences, one report per level, one over all."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from egodata.config import strict_config
from egodata.findings import Finding, Severity

LEVELS = ("catalog", "content", "loader")
SHOWN_FINDINGS = 20


@strict_config
@dataclass(frozen=True, slots=True)
class ParityConfig:
    """How far zarr and Lance may be apart, what is looked at, and how the work is spread. The defaults ask for equality.

    Attributes:
        numeric: Largest absolute difference of a float, in the feature's unit; None asks for equal bits, NaN being equal to NaN.
            Integers and masks are always equal or not.
        pixel: Largest absolute difference of a colour value, 0 to 255; None leaves it to the next three.
        pixel_mae: Largest mean absolute difference of a frame's colour values, or None for no such bound.
        psnr_db: Least PSNR of a frame, or None.
        ssim: Least SSIM of a frame, or None.
        video_bytes: ``equal``, or ``any`` for a copy that was encoded again.
        seed: Of the choice of episodes, frames and samples, and of prompts.
        workers: Processes that compare episodes; 1 compares them in this one.
        fresh: Do not go on from where an interrupted check of the same contents stopped.
    """

    numeric: float | None = None
    pixel: int | None = 0
    pixel_mae: float | None = None
    psnr_db: float | None = None
    ssim: float | None = None
    video_bytes: Literal["equal", "any"] = "equal"
    seed: int = 0
    workers: int = 1
    fresh: bool = False


EXACT = ParityConfig()


@dataclass(frozen=True, slots=True)
class Difference:
    """A largest difference and where it is.

    Attributes:
        value: Absolute; infinity where only one side is a number.
        episode: Episode id.
        stream: Feature, camera or sample field.
        frame: Frame in the episode.
    """

    value: float
    episode: str
    stream: str
    frame: int

    def to_json(self) -> dict[str, Any]:
        """Return plain types; infinity as text, since JSON has none."""
        return {**asdict(self), "value": self.value if math.isfinite(self.value) else "inf"}

    def __str__(self) -> str:
        return f"{self.value:g} ({self.episode} {self.stream} frame {self.frame})"


def largest(differences: Iterable[Difference | None]) -> Difference | None:
    """Return the largest difference, the first of equal ones; None if there is none."""
    return max((item for item in differences if item is not None), key=lambda item: item.value, default=None)


@dataclass(frozen=True, slots=True)
class Likeness:
    """How alike the decoded frames are that differ at all.

    Attributes:
        frames: How many differ.
        mae_sum: Sum over them of a frame's mean absolute difference, in colour values.
        mae_max: Its largest.
        psnr_sum_db: Sum of PSNR.
        psnr_min_db: The least.
        ssim_frames: On how many SSIM was measured.
        ssim_sum: Its sum.
        ssim_min: The least.
    """

    frames: int
    mae_sum: float
    mae_max: float
    psnr_sum_db: float
    psnr_min_db: float
    ssim_frames: int = 0
    ssim_sum: float = 0.0
    ssim_min: float = 1.0

    def joined(self, other: "Likeness") -> "Likeness":
        """Add another one up."""
        return Likeness(
            self.frames + other.frames,
            self.mae_sum + other.mae_sum,
            max(self.mae_max, other.mae_max),
            self.psnr_sum_db + other.psnr_sum_db,
            min(self.psnr_min_db, other.psnr_min_db),
            self.ssim_frames + other.ssim_frames,
            self.ssim_sum + other.ssim_sum,
            min(self.ssim_min, other.ssim_min),
        )

    def summary(self) -> dict[str, float | int | None]:
        """Return what a person reads: means and worst values over the frames that differ."""
        return {
            "frames": self.frames,
            "mae_mean": self.mae_sum / self.frames,
            "mae_max": self.mae_max,
            "psnr_mean_db": self.psnr_sum_db / self.frames,
            "psnr_min_db": self.psnr_min_db,
            "ssim_mean": self.ssim_sum / self.ssim_frames if self.ssim_frames else None,
            "ssim_min": self.ssim_min if self.ssim_frames else None,
        }

    def __str__(self) -> str:
        found = self.summary()
        ssim = "" if found["ssim_mean"] is None else f", SSIM {found['ssim_mean']:.4f} (least {found['ssim_min']:.4f})"
        return (
            f"{self.frames} frames differ: MAE {found['mae_mean']:.3f} (most {self.mae_max:.3f}), "
            f"PSNR {found['psnr_mean_db']:.2f} dB (least {self.psnr_min_db:.2f}){ssim}"
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What comparing one part gave.

    Attributes:
        counts: What was compared, by name.
        findings: What differs beyond the config.
        numeric: Largest numeric difference, within tolerance or not; None if there is none at all.
        pixel: Largest pixel difference likewise.
        likeness: Over the decoded frames that differ; None if none does.
        histograms: Counts by bin: ``numeric`` of differing values by decade, ``pixel_mae`` of decoded frames by mean difference.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    numeric: Difference | None = None
    pixel: Difference | None = None
    likeness: Likeness | None = None
    histograms: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain types that `outcome_from_json` reads back."""
        return {
            "counts": dict(self.counts),
            "findings": [{**asdict(finding), "severity": int(finding.severity)} for finding in self.findings],
            "numeric": None if self.numeric is None else self.numeric.to_json(),
            "pixel": None if self.pixel is None else self.pixel.to_json(),
            "likeness": None if self.likeness is None else asdict(self.likeness),
            "histograms": {name: dict(bins) for name, bins in self.histograms.items()},
        }


def outcome_from_json(value: Mapping[str, Any]) -> Outcome:
    """Read what `Outcome.to_json` gave."""
    found = [
        Finding(**{**item, "severity": Severity(item["severity"]), "frames": None if item["frames"] is None else tuple(item["frames"])})
        for item in value["findings"]
    ]
    differences = [
        None if value[name] is None else Difference(**{**value[name], "value": float(value[name]["value"])}) for name in _LARGEST
    ]
    likeness = None if value["likeness"] is None else Likeness(**value["likeness"])
    return Outcome(value["counts"], tuple(found), differences[0], differences[1], likeness, value["histograms"])


_LARGEST = ("numeric", "pixel")


def _joined(one: Likeness | None, other: Likeness | None) -> Likeness | None:
    return one if other is None else other if one is None else one.joined(other)


def merged(outcomes: Sequence[Outcome]) -> Outcome:
    """Add counts up, join findings, keep the largest differences."""
    counts: dict[str, int] = {}
    histograms: dict[str, dict[str, int]] = {}
    likeness: Likeness | None = None
    for outcome in outcomes:
        _add(counts, outcome.counts)
        for name, bins in outcome.histograms.items():
            _add(histograms.setdefault(name, {}), bins)
        likeness = _joined(likeness, outcome.likeness)
    return Outcome(
        counts,
        tuple(finding for outcome in outcomes for finding in outcome.findings),
        largest(outcome.numeric for outcome in outcomes),
        largest(outcome.pixel for outcome in outcomes),
        likeness,
        histograms,
    )


def _add(counts: dict[str, int], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        counts[name] = counts.get(name, 0) + count


@dataclass(frozen=True, slots=True)
class LevelReport:
    """The verdict of one level.

    Attributes:
        level: ``catalog``, ``content`` or ``loader``.
        outcome: Over everything compared.
        failed: Ids of the episodes with findings, sorted.
        passed_episodes: (id, content) of the episodes without findings, sorted.
    """

    level: str
    outcome: Outcome
    failed: tuple[str, ...]
    passed_episodes: tuple[tuple[str, str], ...]

    @property
    def passed(self) -> bool:
        """Whether nothing differs beyond the config."""
        return not self.outcome.findings

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON types, the first findings written out."""
        found = self.outcome
        return {
            "level": self.level,
            "verdict": "passed" if self.passed else "failed",
            "counts": dict(found.counts),
            "largest_numeric": None if found.numeric is None else found.numeric.to_json(),
            "largest_pixel": None if found.pixel is None else found.pixel.to_json(),
            "likeness": None if found.likeness is None else found.likeness.summary(),
            "histograms": {name: dict(bins) for name, bins in found.histograms.items()},
            "failed_episodes": list(self.failed),
            "findings_total": len(found.findings),
            "worst": [finding.to_json() for finding in found.findings[:SHOWN_FINDINGS]],
        }


@dataclass(frozen=True, slots=True)
class ParityReport:
    """Zarr against Lance.

    Attributes:
        levels: In the order catalog, content, loader; the loader level only where a dataset and a recipe were given.
        dataset: ``name@version`` or empty.
        dataset_digest: Of the dataset, or empty.
        recipe: Name, or empty.
        recipe_digest: Of the recipe, or empty.
        versions: Lance table versions that were read.
        config: Tolerances and seed.
        samples: Per head and format at loader level; frames decoded at content level; None means all.
        created: UTC time, ISO 8601.
        chosen: How episodes were chosen, where not all were: how many, of how many, for which day.
    """

    levels: tuple[LevelReport, ...]
    dataset: str
    dataset_digest: str
    recipe: str
    recipe_digest: str
    versions: Mapping[str, int]
    config: ParityConfig
    samples: int | None
    created: str
    chosen: Mapping[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether every level passed."""
        return all(level.passed for level in self.levels)

    @property
    def verdict(self) -> str:
        """``passed`` or ``failed``."""
        return "passed" if self.passed else "failed"

    def level(self, name: str) -> LevelReport | None:
        """Return one level, or None if it was not checked."""
        return next((level for level in self.levels if level.level == name), None)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON types; the documented form of ``egodata parity --json``."""
        return {
            "verdict": self.verdict,
            "dataset": self.dataset,
            "dataset_digest": self.dataset_digest,
            "recipe": self.recipe,
            "recipe_digest": self.recipe_digest,
            "lance_versions": dict(self.versions),
            "config": asdict(self.config),
            "samples": self.samples,
            "created": self.created,
            "chosen": dict(self.chosen),
            "levels": {level.level: level.to_json() for level in self.levels},
        }
