"""What is said before a run starts: which data, what is left out of it, how much text there is, what cannot be normalised."""

from collections.abc import Iterator

import numpy as np

from egodata.sampling import HeadSource
from egotrain.conf import FitConfig
from egotrain.data import RunData
from egotrain.ranks import Ranks

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
    manifest, train = data.manifest, data.sources["train"]
    flat = data.stats.flat_channels(config.data.normalisation)
    cached = " (cached)" if data.stats.cached else ""
    yield f"run {config.run}: {manifest.ref} ({manifest.digest[:16]}) on {config.format}, statistics {data.stats.key[:16]}{cached}"
    for head, source in data.sources.items():
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
    absent = [head for head in config.evaluation.heads if head not in data.sources]
    if absent:
        yield f"evaluation: the dataset has no head {', '.join(absent)}; left out"
    each = config.data.batch_size * ranks.world
    if ranks.world > 1:
        yield f"ranks: {ranks.world}, {each} samples per batch; {len(train) % each} of {len(train)} are left out at the end of each epoch"
