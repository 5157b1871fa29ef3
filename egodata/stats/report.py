"""A look at statistics: ranges, cells outside the quantiles, constant channels, drift of the validation heads, operators that stand out.

Ranges and constant channels come from the exact statistics. The rest is counted over evenly spaced frames of every episode of every
head, on cells scaled so that q01 is 0 and q99 is 1; how many frames that were is part of the report.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.catalog.manifest import HeadEpisode, Manifest
from egodata.progress import Progress, silent
from egodata.sampling import EpisodeWindows, HeadSource, Recipe, auto_per_episode
from egodata.schema.layout import StorePaths
from egodata.stats.compute import open_rows
from egodata.stats.norm import FeatureStats, NormStats
from egodata.stats.normalise import FLOOR

REPORT_SCHEMA = 1
WINDOWS_PER_HEAD = 20_000
BINS, BINS_LOW, BINS_HIGH = 60, -0.5, 1.5
DRIFT, OUTSIDE = 0.15, 0.06
"""A head drifts where the largest difference of the two cumulative shares is above the first; an operator stands out where more than the
second share of its cells lies outside q01 to q99 (2 % would be expected)."""


@dataclass(frozen=True, slots=True)
class ChannelRange:
    """One channel over all its steps.

    Attributes:
        feature: ``action`` or ``proprio``.
        channel: Its name.
        kept: Whether it is never normalised.
        count: Cells.
        mean: Over all cells.
        std: Over all cells.
        min: Smallest of any step; `q0001`, `q01` likewise.
        max: Largest of any step; `q9999`, `q99` likewise.
        outside: Share of the looked-at training cells below q01 or above q99 of their step; None where nothing was scaled.
        constant_steps: Steps (0 for proprio) at which min to max is below the floor.
        nearly_constant_steps: Steps at which q01 to q99 is below the floor, but not min to max.
    """

    feature: str
    channel: str
    kept: bool
    count: int
    mean: float | None
    std: float | None
    min: float | None
    q0001: float | None
    q01: float | None
    q99: float | None
    q9999: float | None
    max: float | None
    outside: float | None
    constant_steps: tuple[int, ...]
    nearly_constant_steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HeadDrift:
    """One channel of another head against the training head.

    Attributes:
        head: The other head.
        distance: Largest difference of the cumulative shares (Kolmogorov-Smirnov), over the scaled cells in 60 bins.
        outside: Share of its cells outside q01 to q99 of the training head.
        shift: Difference of the mean scaled value; 1 is the whole range q01 to q99.
        drifts: Whether `distance` is above 0.15.
    """

    head: str
    feature: str
    channel: str
    distance: float
    outside: float
    shift: float
    drifts: bool


@dataclass(frozen=True, slots=True)
class OperatorOutlier:
    """How far one operator's cells lie from the training range, and the farthest one.

    Attributes:
        operator: Qualified name; empty where unknown.
        head: Where its episodes are.
        outside: Share of its cells outside q01 to q99.
        stands_out: Whether that is above 6 %.
        worst_channel: ``feature channel`` with the largest share outside.
        episode_id: Of the farthest cell.
        frame: Of the farthest cell.
        channel: Of the farthest cell, as ``feature channel``.
        distance: How far it lies outside, in ranges q01 to q99.
    """

    operator: str
    head: str
    episodes: int
    outside: float
    stands_out: bool
    worst_channel: str
    episode_id: str
    frame: int
    channel: str
    distance: float


@dataclass(frozen=True, slots=True)
class StatsReport:
    """Everything above, for one dataset and recipe.

    Attributes:
        windows: Looked-at windows by head.
        histograms: Head -> ``feature channel`` -> share of its cells in each of 60 bins from -0.5 to 1.5, the outer ones open.
        steps: ``action channel`` -> q01, median and q99 by step; empty where the horizon is pooled.
    """

    dataset: str
    recipe: str
    key: str
    windows: Mapping[str, int]
    channels: tuple[ChannelRange, ...]
    drift: tuple[HeadDrift, ...]
    operators: tuple[OperatorOutlier, ...]
    histograms: Mapping[str, Mapping[str, list[float]]]
    steps: Mapping[str, Mapping[str, list[float | None]]]

    def to_json(self) -> dict[str, Any]:
        """Return plain types."""
        return {"schema": REPORT_SCHEMA, **asdict(self)}


def stats_report(
    paths: StorePaths,
    manifest: Manifest,
    *,
    recipe: Recipe,
    stats: NormStats,
    format: str = "zarr",
    windows_per_head: int = WINDOWS_PER_HEAD,
    progress: Progress = silent,
) -> StatsReport:
    """Look at every head of a dataset with the statistics of its training head.

    Args:
        paths: The store.
        manifest: The dataset.
        recipe: What the statistics are of.
        stats: From `norm_stats`.
        format: Which copy to read; both give the same.
        windows_per_head: Windows to look at in each head, spread evenly over its episodes; each gives one at least.
        progress: Told how many episodes were read.

    Raises:
        NotFoundError: An episode's recorded content is gone.
        RecipeError: The recipe does not fit an episode.
    """
    scans = {}
    for head in manifest.heads:
        source = open_rows(paths, manifest, head=head, recipe=recipe, format=format)
        scans[head] = _scan(source, stats, budget=windows_per_head, label=f"report {head}", progress=progress)
        source.close()
    return report_of_scans(manifest, recipe, stats=stats, scans=scans)


@dataclass(slots=True)
class _Farthest:
    distance: float = -1.0
    episode_id: str = ""
    frame: int = 0
    channel: str = ""


@dataclass(slots=True)
class _Count:
    """Counts of an operator, per channel of both features one after the other."""

    cells: NDArray[np.int64]
    outside: NDArray[np.int64]
    episodes: set[str] = field(default_factory=set)
    farthest: _Farthest = field(default_factory=_Farthest)


@dataclass(slots=True)
class Scan:
    """What was counted of a head, per channel of both features one after the other."""

    names: list[str]
    bins: NDArray[np.int64]
    total: NDArray[np.float64]
    outside: NDArray[np.int64]
    operators: dict[str, _Count]
    windows: int = 0

    def add(self, episode: HeadEpisode, found: EpisodeWindows, *, stats: NormStats) -> None:
        """Count a piece of windows."""
        self.windows += len(found.frames)
        operator = self.operators.get(episode.operator or "")
        if operator is None:
            operator = self.operators[episode.operator or ""] = _Count(np.zeros_like(self.outside), np.zeros_like(self.outside))
        operator.episodes.add(episode.episode_id)
        first = 0
        for feature, values, mask in (
            ("action", found.actions, found.action_mask),
            ("proprio", found.proprio, found.proprio_valid & found.proprio_mask[..., None]),
        ):
            scaled, counted = _scaled(stats.features[feature], values, mask)
            self._count(scaled, counted, first, operator)
            far = _farthest(scaled, counted, names=self.names[first:], frames=found.frames)
            if far is not None and far[0] > operator.farthest.distance:
                operator.farthest = _Farthest(far[0], episode.episode_id, *far[1:])
            first += values.shape[-1]

    def _count(self, scaled: NDArray[np.float64], counted: NDArray[np.bool_], first: int, operator: _Count) -> None:
        width = scaled.shape[-1]
        channel = np.broadcast_to(np.arange(first, first + width), scaled.shape)[counted]
        values = scaled[counted]
        at = np.clip(((values - BINS_LOW) * (BINS / (BINS_HIGH - BINS_LOW))).astype(np.int64), 0, BINS - 1)
        count = len(self.names)
        self.bins += np.bincount(channel * BINS + at, minlength=count * BINS).reshape(count, BINS)
        self.total += np.bincount(channel, weights=np.clip(values, -10, 11), minlength=count)
        outside = np.bincount(channel[(values < 0) | (values > 1)], minlength=count)
        self.outside += outside
        operator.outside += outside
        operator.cells += np.bincount(channel, minlength=count)


def _farthest(
    scaled: NDArray[np.float64], counted: NDArray[np.bool_], *, names: Sequence[str], frames: NDArray[np.int64]
) -> tuple[float, int, str] | None:
    """Return how far the farthest counted cell lies outside, its frame and its channel; None where nothing counts."""
    if not counted.any():
        return None
    off = np.where(counted, np.abs(scaled - 0.5) - 0.5, -1.0)
    at = np.unravel_index(int(np.argmax(off)), off.shape)
    return float(off[at]), int(frames[at[0]]), names[int(at[-1])]


def _scaled(stats: FeatureStats, values: NDArray[np.float32], mask: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    low, high = stats.fields["q01"], stats.fields["q99"]
    wide = (high - low) >= FLOOR
    with np.errstate(invalid="ignore", divide="ignore"):
        scaled = (values - low) / np.where(wide, high - low, np.nan)
    return scaled, mask & np.isfinite(scaled)


def _scan(source: HeadSource, stats: NormStats, *, budget: int, label: str, progress: Progress) -> Scan:
    names = [f"{feature} {channel}" for feature, part in stats.features.items() for channel in part.names]
    count = len(names)
    scan = Scan(names, np.zeros((count, BINS), np.int64), np.zeros(count), np.zeros(count, np.int64), {})
    for episode, found in _looked_at(source, budget, label=label, progress=progress):
        scan.add(episode, found, stats=stats)
    return scan


def _looked_at(source: HeadSource, budget: int, *, label: str, progress: Progress) -> Iterator[tuple[HeadEpisode, EpisodeWindows]]:
    indices = source.evaluation_indices(per_episode=auto_per_episode(len(source.episodes), budget))
    ordinals, frames = source.index.locate(indices)
    for at, episode in enumerate(source.episodes):
        progress(label, at, len(source.episodes))
        mine = frames[ordinals == at]
        for start in range(0, len(mine), 256):
            yield episode, source.windows_of(at, frames=mine[start : start + 256])
    progress(label, len(source.episodes), len(source.episodes))


def report_of_scans(manifest: Manifest, recipe: Recipe, *, stats: NormStats, scans: Mapping[str, Scan]) -> StatsReport:
    """Put the report together from what was counted of each head."""
    names = scans["train"].names
    steps = {}
    if not recipe.pool_horizon:
        action = stats.features["action"]
        levels = ("q01", "median", "q99")
        steps = {
            f"action {name}": {level: [_plain(value) for value in action.fields[level][:, channel].tolist()] for level in levels}
            for channel, name in enumerate(action.names)
        }
    return StatsReport(
        dataset=manifest.ref,
        recipe=recipe.name,
        key=stats.key,
        windows={head: scan.windows for head, scan in scans.items()},
        channels=tuple(_channels(stats, scans["train"])),
        drift=tuple(_drift(scans)),
        operators=tuple(_operators(scans)),
        histograms={head: dict(zip(names, _shares(scan).round(6).tolist(), strict=True)) for head, scan in scans.items()},
        steps=steps,
    )


def _plain(value: float) -> float | None:
    return None if value != value else float(value)


def _channels(stats: NormStats, train: Scan) -> Iterator[ChannelRange]:
    at = 0
    for feature, part in stats.features.items():
        fields = {name: np.atleast_2d(values) for name, values in part.fields.items()}
        for channel, name in enumerate(part.names):
            column = {key: values[:, channel] for key, values in fields.items()}
            cells = int(train.bins[at].sum())
            yield _channel(feature, name, column, kept=channel in part.kept, outside=train.outside[at] / cells if cells else None)
            at += 1


def _channel(feature: str, name: str, column: Mapping[str, NDArray[np.float64]], *, kept: bool, outside: float | None) -> ChannelRange:
    used = column["count"] > 0
    weight = column["count"][used]
    constant = used & ((column["max"] - column["min"]) < FLOOR)
    nearly = used & ~constant & ((column["q99"] - column["q01"]) < FLOOR)
    mean = std = None
    if used.any():
        mean = float(np.average(column["mean"][used], weights=weight))
        std = float(np.sqrt(np.average(column["std"][used] ** 2 + (column["mean"][used] - mean) ** 2, weights=weight)))
    low = {key: float(column[key][used].min()) if used.any() else None for key in ("min", "q0001", "q01")}
    high = {key: float(column[key][used].max()) if used.any() else None for key in ("max", "q9999", "q99")}
    steps, nearly_steps = (tuple(int(step) for step in np.flatnonzero(found)) for found in (constant, nearly))
    rounded = None if outside is None else round(float(outside), 6)
    return ChannelRange(
        feature=feature,
        channel=name,
        kept=kept,
        count=int(weight.sum()),
        mean=mean,
        std=std,
        **low,
        **high,
        outside=rounded,
        constant_steps=steps,
        nearly_constant_steps=nearly_steps,
    )


def _shares(scan: Scan) -> NDArray[np.float64]:
    return np.asarray(scan.bins / np.maximum(1, scan.bins.sum(1, keepdims=True)), np.float64)


def _drift(scans: Mapping[str, Scan]) -> Iterator[HeadDrift]:
    train = scans["train"]
    cells = train.bins.sum(1)
    base = np.cumsum(_shares(train), axis=1)
    for head, scan in scans.items():
        if head == "train":
            continue
        there = scan.bins.sum(1)
        distance = np.abs(np.cumsum(_shares(scan), axis=1) - base).max(1)
        shift = scan.total / np.maximum(1, there) - train.total / np.maximum(1, cells)
        for at, name in enumerate(scan.names):
            if cells[at] and there[at]:
                feature, channel = name.split(" ", 1)
                apart = round(float(distance[at]), 6)
                outside = round(float(scan.outside[at] / there[at]), 6)
                yield HeadDrift(head, feature, channel, apart, outside, round(float(shift[at]), 6), apart > DRIFT)


def _operators(scans: Mapping[str, Scan]) -> Iterator[OperatorOutlier]:
    for head, scan in scans.items():
        for operator, count in sorted(scan.operators.items()):
            cells = int(count.cells.sum())
            if not cells:
                continue
            share = float(count.outside.sum() / cells)
            worst = scan.names[int(np.argmax(count.outside / np.maximum(1, count.cells)))]
            far = count.farthest
            yield OperatorOutlier(
                operator=operator,
                head=head,
                episodes=len(count.episodes),
                outside=round(share, 6),
                stands_out=share > OUTSIDE,
                worst_channel=worst,
                episode_id=far.episode_id,
                frame=far.frame,
                channel=far.channel,
                distance=round(max(0.0, far.distance), 6),
            )
