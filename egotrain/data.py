"""From a frozen dataset to batches on a device."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from egodata.catalog import Manifest, load_dataset
from egodata.errors import ConfigError, NotFoundError, RecipeError
from egodata.sampling import HeadSource, Recipe, Share
from egodata.schema.layout import StorePaths
from egodata.stats import NormStats
from egodata.torch import Batch, ColourJitter, HeadLoader, Loading, images_to_device, make_loader
from egotrain.conf import DataConfig, EvaluationConfig, FitConfig
from egotrain.policies.base import Observation
from egotrain.policies.dims import BodyDims, PolicyDims
from egotrain.ranks import Ranks


@dataclass(frozen=True, slots=True)
class RunData:
    """What a run reads.

    Attributes:
        manifest: The frozen dataset.
        recipe: What a sample is.
        stats: Of the training head.
        sources: Normalising sources by head of the dataset.
    """

    manifest: Manifest
    recipe: Recipe
    stats: NormStats
    sources: Mapping[str, HeadSource]

    @property
    def dims(self) -> tuple[int, int]:
        """Channels of action and proprio."""
        layout = next(iter(self.sources.values())).layout
        return layout.action_dim, layout.proprio_dim

    def close(self) -> None:
        """Close open episodes."""
        for source in self.sources.values():
            source.close()


def open_sources(
    paths: StorePaths, manifest: Manifest, *, recipe: Recipe, heads: tuple[str, ...], stats: NormStats, config: FitConfig
) -> dict[str, HeadSource]:
    """Open heads of a dataset, and heads ``NAME@VERSION:HEAD`` of others; ones that a dataset does not have are left out.

    Raises:
        NotFoundError: There is none of them, or no such other dataset.
        RecipeError: The recipe does not fit an episode, or two heads have different channels.
    """
    normalisers = stats.normalisers(config.data.normalisation)
    out: dict[str, HeadSource] = {}
    for head in heads:
        found, name = head_manifest(paths, manifest, head=head, format=config.format)
        if name in found.heads:
            out[head] = HeadSource.open(
                paths, found, head=name, recipe=recipe, format=config.format, normalisers=normalisers, seed=config.seed
            )
    if not out:
        raise NotFoundError(f"dataset {manifest.ref}: none of the heads {', '.join(heads)}; it has {', '.join(manifest.heads)}")
    names = {head: (source.layout.action_names, source.layout.proprio_names) for head, source in out.items()}
    first = next(iter(names))
    other = next((head for head in names if names[head] != names[first]), None)
    if other is not None:
        raise RecipeError(f"recipe {recipe.name}: head {other} has other channels than {first}. Evaluate heads of one body together.")
    return out


def head_manifest(paths: StorePaths, manifest: Manifest, *, head: str, format: str | None) -> tuple[Manifest, str]:
    """Return the dataset that a head is of, and its name there.

    Raises:
        NotFoundError: ``NAME@VERSION:HEAD`` names a dataset that is not frozen here.
    """
    dataset, colon, name = head.rpartition(":")
    return (load_dataset(paths, dataset, format=format), name) if colon else (manifest, head)


def pins_of(paths: StorePaths, manifest: Manifest, *, head: str, config: EvaluationConfig) -> tuple[str, ...]:
    """Return which episodes of a head are shown: the config's own pins of that head, else the dataset's; `config.videos` at most."""
    own = tuple(pin.rpartition("/")[2] for pin in config.pins if pin.rpartition("/")[0] == head)
    found, name = head_manifest(paths, manifest, head=head, format=None)
    return (own or tuple(found.pins.get(name, ())))[: config.videos]


def rank_loader(source: HeadSource, config: DataConfig, *, ranks: Ranks) -> HeadLoader:
    """Return the training batches of one rank.

    Batch k of the run holds `world x batch_size` neighbours in the epoch's order; rank r takes the r-th `batch_size` of them. What
    does not fill a batch of every rank at the end of an epoch is left out of that epoch, so all ranks take the same number of steps.
    """
    loading = Loading(share=Share(ranks.rank, ranks.world))
    return make_loader(source, batch_size=config.batch_size, num_workers=config.num_workers, loading=loading)


def policy_dims(source: HeadSource, config: DataConfig) -> PolicyDims:
    """Return the sizes that a policy has to be built for."""
    recipe = source.recipe
    return PolicyDims(
        action_steps=recipe.action_steps,
        action_dim=source.layout.action_dim,
        proprio_history=recipe.proprio_history,
        proprio_dim=source.layout.proprio_dim,
        arms=len(recipe.arms),
        cameras=recipe.cameras,
        images=recipe.image_history.count,
        image_height=config.image_height,
        image_width=config.image_width,
        bodies=tuple(BodyDims(name, source.layout.action_dim, source.layout.proprio_dim, len(recipe.arms)) for name in recipe.embodiments),
    )


def check_dims(wanted: PolicyDims, found: PolicyDims, *, what: str) -> None:
    """Refuse to put a policy and data together whose sizes differ.

    Args:
        wanted: Of the policy.
        found: Of the data.
        what: Named first in the error.

    Raises:
        ConfigError: Naming each size that differs.
    """
    before, after = wanted.to_json(), found.to_json()
    wrong = [f"{name} {before[name]} in the policy, {after[name]} in the data" for name in before if before[name] != after[name]]
    if wrong:
        raise ConfigError(f"{what}: {'; '.join(wrong)}. Use the recipe and the dataset that the policy was built for.")


def observation(batch: Batch, *, device: torch.device, dims: PolicyDims, factors: Tensor | None = None) -> Observation:
    """Take from a batch what a policy sees; images are resized, changed in colour if `factors` say so, and normalised on the device."""
    size = (dims.image_height, dims.image_width)
    return Observation(
        images={camera: images_to_device(batch["images"][camera], device=device, size=size, factors=factors) for camera in dims.cameras},
        image_mask={camera: batch["image_mask"][camera].to(device) for camera in dims.cameras},
        proprio_BKP=batch["proprio"].to(device),
        proprio_mask_BK=batch["proprio_mask"].to(device),
        arm_valid_BKA=batch["arm_valid"].to(device),
        prompts=batch["prompt"],
        fps_B=batch["fps"].to(device),
        embodiments=batch["embodiment"],
    )


def jitter_factors(batch: Batch, config: DataConfig) -> Tensor | None:
    """Draw how each training sample's colours change, from (seed, epoch, sample index); None where nothing changes."""
    draws = [draw for draw in batch["draws"] if draw is not None]
    if max(config.colour_jitter, config.hue_jitter) == 0 or len(draws) < len(batch["draws"]):
        return None
    share = config.colour_jitter
    return ColourJitter(brightness=share, contrast=share, saturation=share, hue=config.hue_jitter).draw(draws)


class TrainStream:
    """Batches of steps start_step .. max_steps - 1, epoch after epoch; iterating measures how long one waits for data.

    Batch s is batch s modulo the epoch's length, of epoch s over the epoch's length, whatever came before: so a resumed run
    reads exactly what an unbroken one would have. Every rank has its own part of batch s (see `rank_loader`).
    """

    def __init__(self, loader: HeadLoader, *, start_step: int, max_steps: int) -> None:
        """Wrap a training loader; its epochs are set here."""
        self.loader, self.start_step, self.max_steps = loader, start_step, max_steps
        self.wait_s = 0.0

    def __len__(self) -> int:
        return self.max_steps

    def __iter__(self) -> Iterator[Batch]:
        step = self.start_step
        while step < self.max_steps:
            epoch, first = divmod(step, self.loader.batches_in_epoch)
            self.loader.set_epoch(epoch, start_batch=first)
            batches = iter(self.loader)
            for _ in range(min(len(self.loader), self.max_steps - step)):
                began = time.perf_counter()
                batch = next(batches)
                self.wait_s += time.perf_counter() - began
                step += 1
                yield batch
