"""Gather a head's cells block by block, so that memory stays bounded whatever the length of the head, and summarise each block.

A cell is one column of numbers: a (step, channel) of the action, a channel of the action over all steps where the horizon is pooled,
or a channel of proprio. A walk over the head fills the columns of one or several blocks; a head that fits is walked over once.
"""

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from egodata.catalog.manifest import HeadEpisode
from egodata.errors import InputError, SampleError
from egodata.progress import Progress, silent
from egodata.sampling import EpisodeWindows, Layout, Part, Recipe
from egodata.stats.fields import summarise

Fields = dict[str, NDArray[np.float64]]
Feature = Literal["action", "proprio"]


class WindowSource(Protocol):
    """What statistics need of a head; `egodata.sampling.HeadSource` is one."""

    recipe: Recipe
    layout: Layout
    episodes: tuple[HeadEpisode, ...]

    def __len__(self) -> int:
        """Return the number of windows."""
        ...

    def windows(self, *, part: Part | None = None) -> Iterator[tuple[HeadEpisode, EpisodeWindows]]:
        """Walk over the windows of the usable frames, in order; an episode may come in several pieces."""
        ...


@dataclass(frozen=True, slots=True)
class Block:
    """Cells [start, end) of a feature, and how many rows their columns have."""

    feature: Feature
    start: int
    end: int
    rows: int

    @property
    def size_bytes(self) -> int:
        """Memory of its columns."""
        return 4 * self.rows * (self.end - self.start)


def plan_walks(source: WindowSource, *, block_bytes: int) -> list[list[Block]]:
    """Divide all cells into walks whose columns stay within `block_bytes`; one column at least is always held."""
    recipe, layout, windows = source.recipe, source.layout, len(source)
    per_step = 1 if recipe.pool_horizon else recipe.action_steps
    sizes: list[tuple[Feature, int, int]] = [
        ("action", per_step * layout.action_dim, windows * recipe.action_steps // per_step),
        ("proprio", layout.proprio_dim, windows * recipe.proprio_history),
    ]
    walks: list[list[Block]] = [[]]
    left = block_bytes
    for feature, cells, rows in sizes:
        start = 0
        while start < cells:
            fits = left // (4 * rows)
            if fits <= 0 and walks[-1]:
                walks.append([])
                left = block_bytes
                continue
            block = Block(feature, start, min(cells, start + max(1, fits)), rows)
            walks[-1].append(block)
            left, start = left - block.size_bytes, block.end
    return walks


def walk_all(source: WindowSource, walks: Sequence[Sequence[Block]], *, workers: int, progress: Progress) -> dict[Block, Fields]:
    """Make every walk and summarise its blocks, in this process or in several.

    Args:
        source: The head; picklable where there are several workers.
        walks: From `plan_walks`.
        workers: Processes; each holds the columns of one walk.
        progress: Told how many episodes of a walk, or how many walks, are done.

    Raises:
        SampleError: A cell that the mask counts is not finite.
        InputError: The head changed while it was read.
    """
    found: dict[Block, Fields] = {}
    if workers <= 1 or len(walks) == 1:
        for turn, blocks in enumerate(walks):
            label = "statistics" if len(walks) == 1 else f"statistics {turn + 1}/{len(walks)}"
            found.update(zip(blocks, _walk(source, blocks, label=label, progress=progress), strict=True))
        return found
    progress("statistics", 0, len(walks))
    with ProcessPoolExecutor(min(workers, len(walks)), mp_context=multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(_walk, source, blocks, label="statistics", progress=silent): blocks for blocks in walks}
        for done, future in enumerate(as_completed(running)):
            found.update(zip(running[future], future.result(), strict=True))
            progress("statistics", done + 1, len(walks))
    return found


def _walk(source: WindowSource, blocks: Sequence[Block], *, label: str, progress: Progress) -> list[Fields]:
    """Fill the columns of some blocks in one walk over the head and summarise them; they are freed on return."""
    columns = [np.empty((block.end - block.start, block.rows), np.float32) for block in blocks]
    filled = [0] * len(blocks)
    for episode, found in _counted(source, blocks, label=label, progress=progress):
        _check_finite(episode, found)
        for at, block in enumerate(blocks):
            rows = _rows(found, block, source)
            columns[at][:, filled[at] : filled[at] + len(rows)] = rows.T
            filled[at] += len(rows)
    if filled != [block.rows for block in blocks]:
        raise InputError(
            f"{label}: expected {[block.rows for block in blocks]} rows, got {filled}; the head changed while it was read. Try again."
        )
    return [summarise(part) for part in columns]


def _counted(
    source: WindowSource, blocks: Sequence[Block], *, label: str, progress: Progress
) -> Iterator[tuple[HeadEpisode, EpisodeWindows]]:
    """Walk over the part of the windows that the blocks need, and report each episode as done."""
    total, done = len(source.episodes), 0
    last: HeadEpisode | None = None
    progress(label, 0, total)
    for episode, found in source.windows(part=_part(blocks, source)):
        if last is not None and episode is not last:
            done += 1
            progress(label, done, total)
        last = episode
        yield episode, found
    progress(label, total, total)


def _steps(block: Block, source: WindowSource) -> range:
    """Steps of the action that a block lies in."""
    if source.recipe.pool_horizon:
        return range(source.recipe.action_steps)
    return range(block.start // source.layout.action_dim, (block.end - 1) // source.layout.action_dim + 1)


def _part(blocks: Sequence[Block], source: WindowSource) -> Part:
    steps = [_steps(block, source) for block in blocks if block.feature == "action"]
    span = range(min(part.start for part in steps), max(part.stop for part in steps)) if steps else range(0)
    return Part(span, proprio=any(block.feature == "proprio" for block in blocks))


def _rows(found: EpisodeWindows, block: Block, source: WindowSource) -> NDArray[np.float32]:
    """Rows of a block (k, cells) in a piece of windows that starts at the block's first step; NaN where not counted."""
    if block.feature == "proprio":
        counted = found.proprio_valid & found.proprio_mask[..., None]
        values = np.where(counted, found.proprio, np.float32(np.nan)).reshape(-1, found.proprio.shape[-1])
        return values[:, block.start : block.end]
    width = found.actions.shape[-1]
    values = np.where(found.action_mask, found.actions, np.float32(np.nan))
    if source.recipe.pool_horizon:
        return values.reshape(-1, width)[:, block.start : block.end]
    first = _steps(block, source).start * width
    return values.reshape(len(values), -1)[:, block.start - first : block.end - first]


def _check_finite(episode: HeadEpisode, found: EpisodeWindows) -> None:
    bad_action = (found.action_mask & ~np.isfinite(found.actions)).any(axis=(1, 2))
    bad_proprio = (found.proprio_valid & ~np.isfinite(found.proprio)).any(axis=(1, 2))
    bad = np.flatnonzero(bad_action | bad_proprio)
    if bad.size:
        raise SampleError(
            f"episode {episode.episode_id} frame {found.frames[bad[0]]}: a cell that is marked as measured is not finite, "
            f"in {bad.size} windows. Run `egodata verify` on it."
        )
