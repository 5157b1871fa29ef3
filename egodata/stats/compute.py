"""Compute norm statistics of a training head, or take them from the content-keyed cache."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from egodata.catalog.manifest import Manifest
from egodata.errors import GateError
from egodata.formats import open_store
from egodata.progress import Progress, silent
from egodata.sampling import HeadSource, Recipe
from egodata.sampling.cache import Keep
from egodata.schema.canonical import json_digest
from egodata.schema.layout import ALGORITHMS, StorePaths, write_atomic
from egodata.stats.norm import FeatureStats, NormStats
from egodata.stats.partials import PartialStore, make_partials
from egodata.stats.walk import Block, Feature, Fields, WindowSource, plan_walks, walk_all

ALGORITHM = f"exact-{ALGORITHMS['statistics']}"
BLOCK_BYTES = 128 * 2**20
"""Bound of the values held at once, by all workers together; at least one column always is."""
NUMBERS_BYTES = 32 * 2**20
"""Bound of the episodes' prepared numbers that are kept between walks."""


def train_digest(manifest: Manifest) -> str:
    """Return the digest of the training head: its ids and contents in order."""
    return json_digest([[episode.episode_id, episode.content] for episode in manifest.head("train")])


def stats_key(manifest: Manifest, recipe: Recipe) -> str:
    """Return the key of statistics: the training head, what the recipe says about numbers, and the algorithm.

    Not the format, the machine, paths or times: the same inputs have the same key anywhere.
    """
    return stats_key_of(train_digest(manifest), recipe)


def stats_key_of(digest: str, recipe: Recipe) -> str:
    """Return the key of statistics over the training episodes of a digest; see `stats_key`."""
    return json_digest({"train": digest, "recipe": recipe.numbers_digest, "algorithm": ALGORITHM})


def norm_stats(
    paths: StorePaths, manifest: Manifest, *, recipe: Recipe, format: str = "zarr", workers: int = 1, progress: Progress = silent
) -> NormStats:
    """Return the statistics of a dataset's training head under a recipe, from the cache if they are there.

    Another version or dataset with an equal training head counts as the cache too. Only episodes whose rows were never read
    for this recipe's features are read from the store; see `egodata.stats.partials`. A corrupt entry is computed again.
    Where the result cannot be kept (a full or read-only disk), it is returned all the same.

    Args:
        paths: The store.
        manifest: A frozen dataset.
        recipe: What actions and proprio are.
        format: Which copy to read; both give the same bytes.
        workers: Processes that gather and sort; the result does not depend on it.
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
    kept = _read_elsewhere(paths, path, key)
    if kept is not None:
        return replace(kept, cached=True, path=_keep(path, kept))
    make_partials(_rows(paths, manifest, recipe, format=format), manifest.head("train"), workers=workers, progress=progress)
    source = open_rows(paths, manifest, head="train", recipe=recipe, format=format, progress=progress)
    try:
        features = feature_stats(source, workers=workers, progress=progress, where=f"dataset {manifest.ref} head train")
    finally:
        source.close()
    stats = NormStats(key, train_digest(manifest), recipe.numbers_digest, len(source.episodes), len(source), features)
    return replace(stats, path=_keep(path, stats))


def open_rows(
    paths: StorePaths, manifest: Manifest, *, head: str, recipe: Recipe, format: str = "zarr", progress: Progress = silent
) -> HeadSource:
    """Open a head for its numbers only, through the partials: no images, no prompts, in little memory.

    Raises:
        NotFoundError: The dataset has no such head, or a content is gone.
        RecipeError: The recipe does not fit an episode.
    """
    store = _rows(paths, manifest, recipe, format=format)
    return HeadSource(manifest.head(head), store, recipe=recipe.numbers_only, progress=progress, keep=Keep(NUMBERS_BYTES))


def _rows(paths: StorePaths, manifest: Manifest, recipe: Recipe, *, format: str) -> PartialStore:
    return PartialStore(paths, recipe, opener=partial(open_store, paths, format, versions=manifest.lance_versions))


def _keep(path: Path, stats: NormStats) -> Path | None:
    try:
        write_atomic(path, stats.to_bytes())
    except OSError:
        return None  # a cache that cannot be written must not stop training
    return path


def _read_cache(path: Path, key: str) -> NormStats | None:
    try:
        stats = NormStats.from_json(json.loads(path.read_bytes()), where=f"statistics {path.name}")
    except (OSError, ValueError):  # absent or corrupt (InputError is a ValueError): computed again
        return None
    return stats if stats.key == key else None


def _read_elsewhere(paths: StorePaths, path: Path, key: str) -> NormStats | None:
    """Look for the same key under other datasets and versions: their training heads are equal."""
    for other in sorted((paths.root / "norm_stats").glob(f"*/*/{path.name}")):
        kept = None if other == path else _read_cache(other, key)
        if kept is not None:
            return kept
    return None


def feature_stats(
    source: WindowSource, *, workers: int = 1, progress: Progress = silent, where: str = "head", block_bytes: int = BLOCK_BYTES
) -> dict[str, FeatureStats]:
    """Compute exact statistics of the measured cells of all windows.

    Actions have them per (step, channel), or per channel where the recipe pools the horizon; proprio per channel.
    Proprio counts every history step that lies inside the episode; repeated steps and repeated actions do not count.

    Args:
        source: The head; picklable for several workers.
        workers: Processes. The result does not depend on it, nor on `block_bytes`.
        progress: Told how many episodes were read.
        where: Named in errors.
        block_bytes: Most bytes of values to hold at once, over all workers; at least one column always is.

    Raises:
        GateError: There is no window.
        SampleError: A cell that the mask counts is not finite.
    """
    if len(source) == 0:
        raise GateError(f"{where}: no usable frame, so there are no statistics. Check the validity of its episodes.")
    recipe, layout = source.recipe, source.layout
    walks = plan_walks(source, block_bytes=max(1, block_bytes // max(1, workers)))
    found = walk_all(source, walks, workers=workers, progress=progress)
    shape = (layout.action_dim,) if recipe.pool_horizon else (recipe.action_steps, layout.action_dim)
    action, proprio = _joined(found, "action", shape), _joined(found, "proprio", (layout.proprio_dim,))
    return {
        "action": FeatureStats(layout.action_names, recipe.rotation_channels("action"), action),
        "proprio": FeatureStats(layout.proprio_names, recipe.rotation_channels("proprio"), proprio),
    }


def _joined(found: dict[Block, Fields], feature: Feature, shape: tuple[int, ...]) -> Fields:
    parts = [found[block] for block in sorted((b for b in found if b.feature == feature), key=lambda b: b.start)]
    return {name: np.concatenate([part[name] for part in parts]).reshape(shape) for name in parts[0]}
