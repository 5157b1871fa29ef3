"""What is said before a run starts: which data, what is left out of it, how much text there is, what cannot be normalised."""

from collections.abc import Iterator, Sequence

import numpy as np

from egodata.catalog import trained_on
from egodata.sampling import HeadSource, Mixture
from egotrain.conf import FitConfig
from egotrain.data import training_source
from egotrain.datasets import RunDataset, missing_heads
from egotrain.ranks import Ranks
from egotrain.run_data import Part, RunData

SHOWN_CHANNELS = 3


def _invalid_arms(source: HeadSource) -> str:
    """Say how often each arm cannot start an action, so that its part of the action has mask 0."""
    ready = np.zeros(len(source.recipe.arms))
    for ordinal in range(len(source.episodes)):
        start, end = source.index.offsets[ordinal : ordinal + 2]
        ready += source.numbers(ordinal).tracks.ready[source.index.frames[start:end]].sum(0)
    shares = 1 - ready / max(1, len(source))
    return ", ".join(f"{arm} is invalid in {share:.1%}" for arm, share in zip(source.recipe.arms, shares, strict=True))


def describe(data: RunData, config: FitConfig, *, ranks: Ranks) -> Iterator[str]:
    """Yield the lines."""
    for part in data.parts:
        yield from _describe_part(data, part, config)
    yield from describe_heads(data, config)
    each = config.data.batch_size * ranks.world
    if len(data.parts) > 1:
        yield _mixture(data, config, ranks)
    if ranks.world > 1:
        samples = sum(len(part.sources[part.train]) for part in data.parts)
        yield f"ranks: {ranks.world}, {each} samples per batch; {samples % each} of {samples} are left out at the end of each epoch"


def _describe_part(data: RunData, part: Part, config: FitConfig) -> Iterator[str]:
    manifest, train = part.dataset.manifest, part.sources[part.train]
    flat = part.stats.flat_channels(config.data.normalisation)
    cached = " (cached)" if part.stats.cached else ""
    recipe = f", recipe {part.recipe.name}" if len(data.parts) > 1 else ""
    yield f"run {config.run}: {manifest.ref} ({manifest.digest[:16]}) on {config.format}{recipe}, statistics {part.stats.key[:16]}{cached}"
    for head, source in part.sources.items():
        total = len(source) + sum(source.excluded.values())
        reasons = ", ".join(f"{count} {reason} ({count / total:.1%})" for reason, count in source.excluded.items())
        yield f"{head}: {len(source.episodes)} episodes, {len(source)} frames; excluded: {reasons or 'none'}"
    yield f"arms: in the training frames, {_invalid_arms(train)}"
    empty = train.empty_prompt_share()
    note = ". Every prompt is empty: the policy learns nothing from language" if empty == 1.0 else ""
    yield f"prompts: {empty:.1%} of the training frames have none{note}"
    if flat:
        more = f" and {len(flat) - SHOWN_CHANNELS} more" if len(flat) > SHOWN_CHANNELS else ""
        yield f"normalisation: without scale: {'; '.join(str(channel) for channel in flat[:SHOWN_CHANNELS])}{more}"


def describe_heads(data: RunData, config: FitConfig) -> Iterator[str]:
    """Yield which heads are left out since a dataset does not have them, and which hold episodes that are trained on."""
    datasets = [part.dataset for part in data.parts]
    absent = missing_heads(config.evaluation.heads, datasets, scored=data.scored)
    if absent:
        yield f"evaluation: there is no head {', '.join(absent)}; left out"
    yield from _known_episodes(data, datasets)


def _mixture(data: RunData, config: FitConfig, ranks: Ranks) -> str:
    """Say which share of an epoch each dataset has; in whole batches or samples it is not always that of its weight."""
    source = training_source(data, mixing=config.data.mixing, seed=config.seed)
    counts = source.plan().counts(batch_size=config.data.batch_size, ranks=ranks.world) if isinstance(source, Mixture) else []
    unit = "batches, each from one dataset" if config.data.mixing == "batch" else "samples, mixed in every batch"
    total = max(1, sum(counts))
    shares = ", ".join(f"{count / total:.1%} {part.dataset.manifest.ref}" for count, part in zip(counts, data.parts, strict=True))
    return f"mixture: {shares} of the {unit}"


def _known_episodes(data: RunData, datasets: Sequence[RunDataset]) -> Iterator[str]:
    """Say which heads of datasets outside the run hold episodes that it trains on: their scores are not those of unseen episodes."""
    for head, manifest in data.elsewhere.items():
        members = manifest.head(head.rpartition(":")[2])
        known = trained_on(members, [one.manifest for one in datasets], of=manifest)
        if known:
            yield f"{head}: {len(known)} of its {len(members)} episodes are trained on, such as {known[0]}"
