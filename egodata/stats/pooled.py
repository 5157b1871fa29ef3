"""Statistics of several training heads as if they were one: datasets of one recipe that are trained on together."""

from collections.abc import Sequence
from functools import partial

from egodata.catalog.manifest import HeadEpisode, Manifest
from egodata.episode import EpisodeReader
from egodata.errors import EpisodeNotFoundError
from egodata.formats import open_store
from egodata.progress import Progress, silent
from egodata.sampling import HeadSource, Recipe
from egodata.sampling.cache import Keep
from egodata.schema.canonical import json_digest
from egodata.schema.layout import StorePaths
from egodata.stats.compute import NUMBERS_BYTES, feature_stats, norm_stats, stats_key_of, train_digest
from egodata.stats.norm import NormStats
from egodata.stats.partials import PartialStore


class _Several:
    """Opens each content through the dataset that names it, at that dataset's table versions."""

    def __init__(self, paths: StorePaths, manifests: Sequence[Manifest], *, format: str) -> None:
        self._of = {(e.episode_id, e.content): at for at, manifest in enumerate(manifests) for e in manifest.head("train")}
        self._stores = [open_store(paths, format, versions=manifest.lance_versions) for manifest in manifests]

    def episode_ids(self) -> list[str]:
        return sorted({episode_id for episode_id, _ in self._of}, key=str.encode)

    def open(self, episode_id: str, *, content: str | None = None) -> EpisodeReader:
        if content is None or (episode_id, content) not in self._of:
            raise EpisodeNotFoundError(f"episode {episode_id}: content {content} is in none of the training heads")
        return self._stores[self._of[episode_id, content]].open(episode_id, content=content)


def pooled_episodes(manifests: Sequence[Manifest]) -> tuple[HeadEpisode, ...]:
    """Return the episodes of all training heads, sorted by id, each content once."""
    found = {(e.episode_id.encode(), e.content): e for manifest in manifests for e in manifest.head("train")}
    return tuple(found[key] for key in sorted(found))


def pooled_train_digest(manifests: Sequence[Manifest]) -> str:
    """Return the digest of several training heads together; of one head it is `train_digest`."""
    if len(manifests) == 1:
        return train_digest(manifests[0])
    return json_digest([[episode.episode_id, episode.content] for episode in pooled_episodes(manifests)])


def pooled_stats(
    paths: StorePaths, manifests: Sequence[Manifest], *, recipe: Recipe, format: str = "zarr", progress: Progress = silent
) -> NormStats:
    """Return statistics of several training heads under one recipe; every frame counts once, whatever weight its dataset is read with.

    Those of one dataset come from `norm_stats` and its cache. Those of several are computed anew from the kept source rows of their
    episodes, and are not kept in the store: nothing of a subject that is forgotten stays behind in them.

    Args:
        paths: The store.
        manifests: Frozen datasets, at least one.
        recipe: What actions and proprio are.
        format: Which copy to read; both give the same bytes.
        progress: Told how many episodes were read.

    Raises:
        RecipeError: The recipe does not fit an episode, or two episodes have different channels.
        NotFoundError: An episode's recorded content is gone.
        GateError: There is no usable frame.
    """
    if len(manifests) == 1:
        return norm_stats(paths, manifests[0], recipe=recipe, format=format, progress=progress)
    store = PartialStore(paths, recipe, opener=partial(_Several, paths, manifests, format=format))
    source = HeadSource(pooled_episodes(manifests), store, recipe=recipe.numbers_only, progress=progress, keep=Keep(NUMBERS_BYTES))
    where = f"datasets {', '.join(manifest.ref for manifest in manifests)} head train"
    try:
        features = feature_stats(source, progress=progress, where=where)
    finally:
        source.close()
    digest = pooled_train_digest(manifests)
    return NormStats(stats_key_of(digest, recipe), digest, recipe.numbers_digest, len(source.episodes), len(source), features)
