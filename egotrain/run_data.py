"""What a run reads, open: its datasets with their statistics, and the heads that are trained on and scored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from egodata.catalog import Manifest, load_dataset
from egodata.errors import ConfigError, RecipeError
from egodata.formats import open_store
from egodata.names import nearest
from egodata.progress import Progress
from egodata.sampling import HeadSource, Recipe, derive_seed, pin_clips
from egodata.schema.features import resolve_embodiment
from egodata.schema.layout import StorePaths
from egodata.stats import NormStats, pooled_stats
from egotrain.conf import EvaluationConfig, FitConfig
from egotrain.datasets import TRAIN, RunDataset, by_recipe, head_name, scored_heads


@dataclass(frozen=True, slots=True)
class Part:
    """One dataset of a run, open.

    Attributes:
        dataset: Which, and how it is read.
        stats: Of the training heads of all datasets of its recipe.
        sources: Normalising sources by the name that a head goes by in scores.
        train: Name of its training head among them.
    """

    dataset: RunDataset
    stats: NormStats
    sources: Mapping[str, HeadSource]
    train: str

    @property
    def recipe(self) -> Recipe:
        """What a sample is."""
        return self.dataset.recipe


@dataclass(frozen=True, slots=True)
class RunData:
    """What a run reads.

    Attributes:
        parts: Its datasets.
        scored: Names of the heads that are scored, in order.
        elsewhere: Datasets outside the run, by the names of their heads.
    """

    parts: tuple[Part, ...]
    scored: tuple[str, ...]
    elsewhere: Mapping[str, Manifest] = field(default_factory=dict)

    @property
    def first(self) -> Part:
        """The dataset that the run is named for."""
        return self.parts[0]

    @property
    def sources(self) -> dict[str, HeadSource]:
        """All open heads by name, those of the first dataset first."""
        return {name: source for part in self.parts for name, source in part.sources.items()}

    def part_of(self, head: str) -> Part:
        """Return the dataset that an open head belongs to; one outside the run belongs to the first of its embodiment."""
        return next(part for part in self.parts if head in part.sources)

    def co_trained(self) -> list[dict[str, Any]]:
        """Return which datasets the run has beside the first, as plain types."""
        return [
            {**part.dataset.reference, "recipe": part.recipe.name, "weight": part.dataset.weight, "stats_key": part.stats.key}
            for part in self.parts[1:]
        ]

    def close(self) -> None:
        """Close open episodes."""
        for source in self.sources.values():
            source.close()


def run_stats(paths: StorePaths, datasets: Sequence[RunDataset], *, format: str, progress: Progress) -> tuple[NormStats, ...]:
    """Return the statistics of each dataset: one for all that share a recipe, from their training heads together.

    Raises:
        RecipeError: The recipe does not fit an episode, or datasets of one recipe have different channels.
    """
    found: dict[str, NormStats] = {}
    for recipe, manifests in by_recipe(datasets).values():
        found[recipe.digest] = pooled_stats(paths, manifests, recipe=recipe, format=format, progress=progress)
    return tuple(found[one.recipe.digest] for one in datasets)


def open_data(
    paths: StorePaths, datasets: Sequence[RunDataset], *, stats: Sequence[NormStats], config: FitConfig, with_train: bool
) -> RunData:
    """Open the heads that a run scores, and its training heads.

    Args:
        paths: The store.
        datasets: Of the run.
        stats: Of each.
        config: Of the run; heads that a dataset does not have are left out.
        with_train: Whether training heads are opened where they are not scored.

    Raises:
        NotFoundError: A head is of a dataset that is not frozen in the store.
        RecipeError: The recipe does not fit an episode, or two heads of a dataset have different channels.
    """
    scored = scored_heads(config.evaluation.heads, datasets)
    outside = {name: _outside(paths, name, format=config.format) for name, (one, _) in scored.items() if one is None}
    scored = {name: found for name, found in scored.items() if found[0] is not None or outside[name] is not None}
    elsewhere = {name: (found, _like(paths, found, datasets, format=config.format)) for name, found in outside.items() if found is not None}
    parts = []
    for at, (one, own) in enumerate(zip(datasets, stats, strict=True)):
        seed = config.seed if at == 0 else derive_seed(config.seed, "dataset", one.manifest.ref)
        train = head_name(one, TRAIN, datasets=datasets)
        wanted = {train: (one.manifest, TRAIN)} if with_train else {}
        wanted |= {name: (one.manifest, head) for name, (of, head) in scored.items() if of is one}
        wanted |= {name: found for name, (found, of) in elsewhere.items() if of is one}
        parts.append(Part(one, own, _open_heads(paths, wanted, recipe=one.recipe, stats=own, config=config, seed=seed), train))
    return RunData(tuple(parts), tuple(scored), {name: manifest for name, ((manifest, _), _) in elsewhere.items()})


def _outside(paths: StorePaths, name: str, *, format: str) -> tuple[Manifest, str] | None:
    """Return a head of a dataset outside the run, None where it has no such head."""
    ref, _, head = name.rpartition(":")
    manifest = load_dataset(paths, ref, format=format)
    return (manifest, head) if head in manifest.heads else None


def _like(paths: StorePaths, head: tuple[Manifest, str], datasets: Sequence[RunDataset], *, format: str) -> RunDataset:
    """Return the dataset of the run under whose recipe and statistics a head outside is read: the first of its body, else the first."""
    manifest, name = head
    first = manifest.head(name)[0]
    reader = open_store(paths, format, versions=manifest.lance_versions).open(first.episode_id, content=first.content)
    body, _ = resolve_embodiment(reader.meta.embodiment)
    reader.close()
    return next((one for one in datasets if body in one.recipe.embodiments), datasets[0])


def _open_heads(
    paths: StorePaths, wanted: Mapping[str, tuple[Manifest, str]], *, recipe: Recipe, stats: NormStats, config: FitConfig, seed: int
) -> dict[str, HeadSource]:
    normalisers = stats.normalisers(config.data.normalisation)
    out = {
        name: HeadSource.open(paths, manifest, head=head, recipe=recipe, format=config.format, normalisers=normalisers, seed=seed)
        for name, (manifest, head) in wanted.items()
    }
    names = {head: (source.layout.action_names, source.layout.proprio_names) for head, source in out.items()}
    first = next(iter(names), None)
    other = next((head for head in names if first is not None and names[head] != names[first]), None)
    if other is not None:
        raise RecipeError(f"recipe {recipe.name}: head {other} has other channels than {first}. Evaluate heads of one body together.")
    return out


def pins_of(paths: StorePaths, data: RunData, *, config: EvaluationConfig) -> dict[str, tuple[str, ...]]:
    """Return which episodes of each scored head are shown: the config's own pins, else the dataset's; `config.videos` at most.

    Raises:
        ConfigError: A pin of the config is of a head that is not scored.
        GateError: A pin is not in its head.
    """
    own: dict[str, list[str]] = {}
    for pin in config.pins:
        head, _, episode = pin.rpartition("/")
        own.setdefault(head, []).append(episode)
    strange = [head for head in own if head not in data.scored and ":" in head]
    if strange:
        raise ConfigError(f"evaluation.pins: head {strange[0]} is not scored; {nearest(strange[0], data.scored)}")
    found = {}
    for head in data.scored:
        ref, colon, name = head.rpartition(":")
        manifest = next((part.dataset.manifest for part in data.parts if part.dataset.manifest.ref == ref), None)
        if manifest is None:
            manifest = load_dataset(paths, ref) if colon else data.first.dataset.manifest
        found[head] = (tuple(own.get(head, ())) or tuple(manifest.pins.get(name, ())))[: config.videos]
    for head, pins in found.items():
        pin_clips(data.sources[head], pins)
    return found
