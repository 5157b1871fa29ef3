"""The values of a parity check: tolerances, differences, one report per level, one over all."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from egodata.config import strict_config
from egodata.findings import Finding

LEVELS = ("catalog", "content", "loader")
SHOWN_FINDINGS = 20


@strict_config
@dataclass(frozen=True, slots=True)
class ParityConfig:
    """How far zarr and Lance may be apart, and the seed of what is looked at. The defaults ask for equality.

    Attributes:
        numeric: Largest absolute difference of a float, in the feature's unit; None asks for equal bits, NaN being equal to NaN.
            Integers and masks are always equal or not.
        pixel: Largest absolute difference of a colour value, 0 to 255.
        video_bytes: ``equal``, or ``any`` for a copy that was encoded again.
        seed: Of the choice of frames and samples, and of prompts.
    """

    numeric: float | None = None
    pixel: int = 0
    video_bytes: Literal["equal", "any"] = "equal"
    seed: int = 0


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
class Outcome:
    """What comparing one part gave.

    Attributes:
        counts: What was compared, by name.
        findings: What differs beyond the config.
        numeric: Largest numeric difference, within tolerance or not; None if there is none at all.
        pixel: Largest pixel difference likewise.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    numeric: Difference | None = None
    pixel: Difference | None = None


def merged(outcomes: Sequence[Outcome]) -> Outcome:
    """Add counts up, join findings, keep the largest differences."""
    counts: dict[str, int] = {}
    for outcome in outcomes:
        for name, count in outcome.counts.items():
            counts[name] = counts.get(name, 0) + count
    return Outcome(
        counts,
        tuple(finding for outcome in outcomes for finding in outcome.findings),
        largest(outcome.numeric for outcome in outcomes),
        largest(outcome.pixel for outcome in outcomes),
    )


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
            "levels": {level.level: level.to_json() for level in self.levels},
        }
