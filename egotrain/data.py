"""From open datasets to batches on a device."""

import time
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from egodata.errors import ConfigError
from egodata.sampling import HeadSource, Mixture, MixturePart, Share
from egodata.torch import Batch, ColourJitter, HeadLoader, Loading, images_to_device, make_loader
from egotrain.conf import DataConfig
from egotrain.policies.base import Observation
from egotrain.policies.dims import BodyDims, PolicyDims
from egotrain.ranks import Ranks
from egotrain.run_data import RunData


def training_source(data: RunData, *, mixing: str, seed: int) -> HeadSource | Mixture:
    """Return what training batches are read from: the training head, or those of all datasets of the run by weight.

    An epoch of several has as many samples as they have together.

    Args:
        data: Of the run.
        mixing: As in `DataConfig`.
        seed: Of the order among datasets.

    Raises:
        RecipeError: Samples of different datasets are to be mixed in a batch and do not fit into one.
    """
    if len(data.parts) == 1:
        return data.first.sources[data.first.train]
    parts = [MixturePart(part.dataset.manifest.ref, part.sources[part.train], part.dataset.weight) for part in data.parts]
    return Mixture(tuple(parts), seed=seed, per_batch=mixing == "batch")


def rank_loader(source: HeadSource | Mixture, config: DataConfig, *, ranks: Ranks) -> HeadLoader:
    """Return the training batches of one rank.

    Batch k of the run holds `world x batch_size` neighbours in the epoch's order; rank r takes the r-th `batch_size` of them. What
    does not fill a batch of every rank at the end of an epoch is left out of that epoch, so all ranks take the same number of steps.

    Raises:
        InputError: An epoch has not one batch, or none of one of the datasets.
    """
    loading = Loading(share=Share(ranks.rank, ranks.world))
    return make_loader(source, batch_size=config.batch_size, num_workers=config.num_workers, loading=loading)


def policy_dims(sources: Sequence[HeadSource], config: DataConfig) -> PolicyDims:
    """Return the sizes that a policy has to be built for to take samples of all sources, one per recipe at least."""
    recipe, cameras = sources[0].recipe, tuple(dict.fromkeys(camera for source in sources for camera in source.recipe.cameras))
    bodies: dict[str, BodyDims] = {}
    for source in sources:
        layout = source.layout
        own = tuple(camera for camera in cameras if camera in source.recipe.cameras)
        for name in source.recipe.embodiments:
            bodies[name] = BodyDims(name, layout.action_dim, layout.proprio_dim, len(source.recipe.arms), own)
    return PolicyDims(
        action_steps=recipe.action_steps,
        action_dim=max(source.layout.action_dim for source in sources),
        proprio_history=recipe.proprio_history,
        proprio_dim=max(source.layout.proprio_dim for source in sources),
        arms=max(len(source.recipe.arms) for source in sources),
        cameras=cameras,
        images=recipe.image_history.count,
        image_height=config.image_height,
        image_width=config.image_width,
        bodies=tuple(bodies.values()),
    )


def check_dims(wanted: PolicyDims, found: PolicyDims, *, what: str) -> None:
    """Refuse to put a policy and data together whose sizes differ; a policy may know more embodiments than the data has.

    Args:
        wanted: Of the policy.
        found: Of the data.
        what: Named first in the error.

    Raises:
        ConfigError: Naming each size that differs.
    """
    names = [body.name for body in found.bodies]
    if wanted.bodies:  # the order of cameras is that in which a run's datasets come: one of them alone may have another
        found = found.in_order(wanted.cameras)
        before, after = wanted.only(names).to_json(), found.only(names).to_json()
    else:  # one body of any name, as policies before schema 2 had
        before, after = ({**dims.to_json(), "bodies": []} for dims in (wanted, found))
    wrong = [f"{name} {before[name]} in the policy, {after[name]} in the data" for name in before if before[name] != after[name]]
    if wrong:
        raise ConfigError(f"{what}: {'; '.join(wrong)}. Use the recipe and the dataset that the policy was built for.")


def observation(batch: Batch, *, device: torch.device, dims: PolicyDims, factors: Tensor | None = None) -> Observation:
    """Take from a batch what a policy sees; images are resized, changed in colour if `factors` say so, and normalised on the device."""
    size, images = (dims.image_height, dims.image_width), batch["images"]
    return Observation(
        images={camera: images_to_device(found, device=device, size=size, factors=factors) for camera, found in images.items()},
        image_mask={camera: mask.to(device) for camera, mask in batch["image_mask"].items()},
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

    `read_from` holds the positions of the datasets that the latest batch was read from.

    Batch s is batch s modulo the epoch's length, of epoch s over the epoch's length, whatever came before: so a resumed run
    reads exactly what an unbroken one would have. Every rank has its own part of batch s (see `rank_loader`).
    """

    def __init__(self, loader: HeadLoader, *, start_step: int, max_steps: int) -> None:
        """Wrap a training loader; its epochs are set here."""
        self.loader, self.start_step, self.max_steps = loader, start_step, max_steps
        self.wait_s = 0.0
        self.read_from: tuple[int, ...] = ()

    def __len__(self) -> int:
        return self.max_steps

    def __iter__(self) -> Iterator[Batch]:
        step = self.start_step
        while step < self.max_steps:
            epoch, first = divmod(step, self.loader.batches_in_epoch)
            self.loader.set_epoch(epoch, start_batch=first)
            batches = iter(self.loader)
            for number in range(first, first + min(len(self.loader), self.max_steps - step)):
                began = time.perf_counter()
                batch = next(batches)
                self.wait_s += time.perf_counter() - began
                step += 1
                self.read_from = self.loader.parts_of(number)
                yield batch
