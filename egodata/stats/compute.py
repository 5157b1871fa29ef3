"""Compute norm statistics of a training head, or take them from the content-keyed cache."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from egodata.catalog.manifest import HeadEpisode, Manifest
from egodata.errors import GateError, InputError, SampleError
from egodata.progress import Progress, silent, tracked
from egodata.sampling import EpisodeWindows, HeadSource, Layout, Recipe
from egodata.schema.canonical import json_digest
from egodata.schema.layout import StorePaths, write_atomic
from egodata.stats.fields import summarise
from egodata.stats.norm import FeatureStats, NormStats

ALGORITHM = "exact-1"
BLOCK_BYTES = 512 * 2**20
"""Bound of the values held at once. Where a head has more, it is walked over several times, some steps of the action each time."""


class WindowSource(Protocol):
    """What statistics need of a head; `egodata.sampling.HeadSource` is one."""

    recipe: Recipe
    layout: Layout
    episodes: tuple[HeadEpisode, ...]

    def __len__(self) -> int:
        """Return the number of windows."""
        ...

    def windows(self) -> Iterator[tuple[HeadEpisode, EpisodeWindows]]:
        """Walk over the episodes with the windows of their usable frames."""
        ...


def train_digest(manifest: Manifest) -> str:
    """Return the digest of the training head: its ids and contents in order."""
    return json_digest([[episode.episode_id, episode.content] for episode in manifest.head("train")])


def stats_key(manifest: Manifest, recipe: Recipe) -> str:
    """Return the key of statistics: the training head, what the recipe says about numbers, and the algorithm.

    Not the format, the machine, paths or times: the same inputs have the same key anywhere.
    """
    return json_digest({"train": train_digest(manifest), "recipe": recipe.numbers_digest, "algorithm": ALGORITHM})


def norm_stats(paths: StorePaths, manifest: Manifest, *, recipe: Recipe, format: str = "zarr", progress: Progress = silent) -> NormStats:
    """Return the statistics of a dataset's training head under a recipe, from the cache if they are there.

    A corrupt entry is computed again. Where the result cannot be kept (a full or read-only disk), it is returned all the same.

    Args:
        paths: The store.
        manifest: A frozen dataset.
        recipe: What actions and proprio are.
        format: Which copy to read; both give the same bytes.
        progress: Told how many episodes were read.

    Raises:
        RecipeError: The recipe does not fit an episode.
        NotFoundError: An episode's recorded content is gone.
        GateError: The head has no usable frame.
    """
    key = stats_key(manifest, recipe)
    path = paths.norm_stats(manifest.name, manifest.version) / f"{key[:16]}.json"
    kept = _read_cache(path, key)
    if kept is not None:
        return replace(kept, cached=True, path=path)
    source = HeadSource.open(paths, manifest, head="train", recipe=recipe, format=format)
    try:
        features = feature_stats(source, progress=progress, where=f"dataset {manifest.ref} head train")
    finally:
        source.close()
    stats = NormStats(key, train_digest(manifest), recipe.numbers_digest, len(source.episodes), len(source), features)
    try:
        write_atomic(path, stats.to_bytes())
    except OSError:
        return stats  # a cache that cannot be written must not stop training
    return replace(stats, path=path)


def _read_cache(path: Path, key: str) -> NormStats | None:
    try:
        stats = NormStats.from_json(json.loads(path.read_bytes()), where=f"statistics {path.name}")
    except (OSError, ValueError):  # absent or corrupt (InputError is a ValueError): computed again
        return None
    return stats if stats.key == key else None


def feature_stats(
    source: WindowSource, *, progress: Progress = silent, where: str = "head", block_bytes: int = BLOCK_BYTES
) -> dict[str, FeatureStats]:
    """Compute exact statistics of the measured cells of all windows: actions per (step, channel), proprio per channel.

    Proprio counts every history step that lies inside the episode; repeated steps and repeated actions do not count.

    Args:
        source: The head.
        progress: Told how many episodes were read.
        where: Named in errors.
        block_bytes: Most bytes of values to hold at once; at least one step of the action, and proprio, always are.

    Raises:
        GateError: There is no window.
        SampleError: A cell that the mask counts is not finite.
    """
    windows, layout, recipe = len(source), source.layout, source.recipe
    if windows == 0:
        raise GateError(f"{where}: no usable frame, so there are no statistics. Check the validity of its episodes.")
    steps = recipe.action_steps
    at_once = max(1, min(steps, block_bytes // (4 * windows * layout.action_dim)))
    fields: list[dict[str, NDArray[np.float64]]] = []
    proprio: dict[str, NDArray[np.float64]] = {}
    starts = range(0, steps, at_once)
    for turn, start in enumerate(starts):
        blocks = [_action_block(start, min(start + at_once, steps), windows, layout.action_dim)]
        if turn == 0:
            blocks.append(_Block(layout.proprio_dim, windows * recipe.proprio_history, _proprio_rows))
        label = "statistics" if len(starts) == 1 else f"statistics {turn + 1}/{len(starts)}"
        found = _walk(source, blocks, label=label, progress=progress)
        fields.append(found[0])
        if turn == 0:
            proprio = found[1]
    action = {name: np.concatenate([part[name] for part in fields]).reshape(steps, layout.action_dim) for name in fields[0]}
    return {
        "action": FeatureStats(layout.action_names, recipe.rotation_channels("action"), action),
        "proprio": FeatureStats(layout.proprio_names, recipe.rotation_channels("proprio"), proprio),
    }


@dataclass(frozen=True, slots=True)
class _Block:
    """Columns that are gathered together: how many, how long, and an episode's rows for them (k, channels), NaN where not counted."""

    channels: int
    rows: int
    take: Callable[[EpisodeWindows], NDArray[np.float32]]


def _action_block(start: int, end: int, windows: int, channels: int) -> _Block:
    def take(found: EpisodeWindows) -> NDArray[np.float32]:
        values = np.where(found.action_mask[:, start:end], found.actions[:, start:end], np.float32(np.nan))
        return values.reshape(len(values), -1)

    return _Block((end - start) * channels, windows, take)


def _proprio_rows(found: EpisodeWindows) -> NDArray[np.float32]:
    counted = found.proprio_valid & found.proprio_mask[..., None]
    return np.where(counted, found.proprio, np.float32(np.nan)).reshape(-1, found.proprio.shape[-1])


def _walk(source: WindowSource, blocks: Sequence[_Block], *, label: str, progress: Progress) -> list[dict[str, NDArray[np.float64]]]:
    """Gather the columns of each block in one walk over the head and summarise them; they are freed on return."""
    columns = [np.empty((block.channels, block.rows), np.float32) for block in blocks]
    filled = [0] * len(blocks)
    for episode, found in tracked(source.windows(), label=label, progress=progress, total=len(source.episodes)):
        _check_finite(episode, found)
        for at, block in enumerate(blocks):
            rows = block.take(found)
            columns[at][:, filled[at] : filled[at] + len(rows)] = rows.T
            filled[at] += len(rows)
    if filled != [block.rows for block in blocks]:
        raise InputError(
            f"{label}: expected {[block.rows for block in blocks]} rows, got {filled}; the head changed while it was read. Try again."
        )
    return [summarise(part) for part in columns]


def _check_finite(episode: HeadEpisode, found: EpisodeWindows) -> None:
    bad_action = (found.action_mask & ~np.isfinite(found.actions)).any(axis=(1, 2))
    bad_proprio = (found.proprio_valid & ~np.isfinite(found.proprio)).any(axis=(1, 2))
    bad = np.flatnonzero(bad_action | bad_proprio)
    if bad.size:
        raise SampleError(
            f"episode {episode.episode_id} frame {found.frames[bad[0]]}: a cell that is marked as measured is not finite, "
            f"in {bad.size} windows. Run `egodata verify` on it."
        )
