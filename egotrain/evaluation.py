"""Score a policy on heads of a dataset: the same frames, noise and prompts every time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from egodata.progress import Progress, silent
from egodata.sampling import HeadSource, epoch_order
from egodata.sampling.seeds import derive_seed
from egodata.torch import Batch, make_loader
from egotrain.conf import EvaluationConfig
from egotrain.data import RunData
from egotrain.metrics import chunk_metrics, hold_still
from egotrain.module import TrainModule
from egotrain.numerics import generator

POLICY, HOLD_STILL, MEAN_ACTION = "policy", "hold_still", "mean_action"


@dataclass(frozen=True, slots=True)
class HeadScores:
    """Scores of one head.

    Attributes:
        head: Its name.
        episodes: With at least one scored frame.
        frames: Scored.
        loss: The policy's own loss, in normalised units.
        scores: Metrics by who acted: the policy, and the baselines.
    """

    head: str
    episodes: int
    frames: int
    loss: float
    scores: Mapping[str, Mapping[str, float]]

    def to_json(self) -> dict[str, Any]:
        """Return plain types; the loss also as a hexadecimal float, exact to the last bit; what was not scored is None."""
        scores = {who: {name: None if value != value else value for name, value in found.items()} for who, found in self.scores.items()}
        return {"episodes": self.episodes, "frames": self.frames, "loss": self.loss, "loss_hex": self.loss.hex(), "scores": scores}


def evaluate_heads(
    module: TrainModule, data: RunData, *, config: EvaluationConfig, shuffle_images: bool = False, progress: Progress = silent
) -> dict[str, HeadScores]:
    """Score a policy on every configured head that the dataset has.

    Args:
        module: Holds the policy; left in the mode in which it was.
        data: Open sources and statistics.
        config: Which frames.
        shuffle_images: Give every sample the images of another one.
        progress: Told how many frames are done.
    """
    training = module.training
    module.eval()
    with torch.inference_mode(), module.scored_weights():
        scores: dict[str, HeadScores] = {
            head: _evaluate_head(module, data, head, config=config, shuffle_images=shuffle_images, progress=progress)
            for head in config.heads
            if head in data.sources
        }
    module.train(training)
    return scores


def _evaluate_head(
    module: TrainModule, data: RunData, head: str, *, config: EvaluationConfig, shuffle_images: bool, progress: Progress
) -> HeadScores:
    source = data.sources[head]
    indices = source.evaluation_indices(budget=config.samples_per_head)
    if shuffle_images:  # so that neighbours in a batch, which trade images, come from different episodes
        indices = indices[epoch_order(len(indices), seed=module.seed, epoch=0)]
    inverse = data.stats.normalisers(module.data.normalisation)["action"].inverse
    predicted, losses = [], []
    for at, batch in _batches(source, indices, batch_size=config.batch_size, shuffle_images=shuffle_images):
        observed = module.observe(batch)
        noise = _noise(module.seed, indices[at : at + len(batch["frame"])], shape=batch["action"].shape[1:])
        chunk = module.policy.predict(observed, noise_BSD=noise.to(module.device))
        predicted.append(inverse(chunk.float().cpu().numpy()))
        losses.append(_loss(module, batch, at))
        progress(f"evaluate {head}", at + len(chunk), len(indices))
    scores = _score(data, source, indices, predicted=np.concatenate(predicted), baselines=config.baselines)
    weight = sum(count for _, count in losses)
    loss = sum(value * count for value, count in losses) / max(1, weight)
    return HeadScores(head, len(np.unique(source.index.locate(indices)[0])), len(indices), loss, scores)


def _batches(source: HeadSource, indices: NDArray[np.int64], *, batch_size: int, shuffle_images: bool) -> Iterator[tuple[int, Batch]]:
    at = 0
    for batch in make_loader(source, batch_size=batch_size, indices=indices):
        if shuffle_images:
            for camera, images in batch["images"].items():
                batch["images"][camera] = images.roll(1, 0)
        yield at, batch
        at += len(batch["frame"])


def _noise(seed: int, indices: NDArray[np.int64], *, shape: torch.Size) -> torch.Tensor:
    """Draw one noise per sample, which does not depend on the batch that it is in."""
    return torch.stack([torch.randn(shape, generator=generator(seed, "evaluate", int(i), "noise")) for i in indices])


def _loss(module: TrainModule, batch: Batch, at: int) -> tuple[float, int]:
    """Return the loss of a batch and the cells it counts; its noise follows from the position, hence from the batch size."""
    action, mask = batch["action"].to(module.device), batch["action_mask"].to(module.device)
    source = torch.Generator().manual_seed(derive_seed(module.seed, "evaluate", at, "loss"))
    return float(module.policy.loss(module.observe(batch), action, mask_BSD=mask, generator=source)), int(mask.sum())


def _score(
    data: RunData, source: HeadSource, indices: NDArray[np.int64], *, predicted: NDArray[np.float32], baselines: bool
) -> dict[str, dict[str, float]]:
    samples = source.with_normalisers({}).samples(indices.tolist(), with_images=False)
    truth = np.stack([sample.action for sample in samples])
    mask = np.stack([sample.action_mask for sample in samples])
    reference = np.stack([sample.reference for sample in samples])
    acted: dict[str, NDArray[np.floating] | None] = {POLICY: predicted}
    if baselines:
        proprio = np.stack([sample.proprio[-1] for sample in samples])
        acted[HOLD_STILL] = hold_still(data.recipe, steps=truth.shape[1], reference=reference, proprio=proprio)
        mean = np.nan_to_num(data.stats.features["action"].fields["mean"])
        acted[MEAN_ACTION] = np.broadcast_to(mean, truth.shape)
    return {
        who: chunk_metrics(chunk, truth, mask=mask, recipe=data.recipe, reference=reference)
        for who, chunk in acted.items()
        if chunk is not None and chunk.shape == truth.shape
    }
