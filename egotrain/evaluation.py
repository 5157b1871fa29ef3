"""Score a policy on heads of a dataset: the same frames, noise and prompts every time, and all of them on every rank."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from egodata.progress import Progress, silent
from egodata.sampling import HeadSource, epoch_order, evaluation_head
from egodata.sampling.seeds import derive_seed
from egodata.torch import Batch, make_loader
from egotrain.baselines import HOLD_STILL, MEAN_ACTION, NEAREST, Neighbours, hold_still
from egotrain.conf import EvaluationConfig
from egotrain.metrics import Errors, chunk_errors
from egotrain.module import TrainModule
from egotrain.numerics import generator
from egotrain.run_data import Part, RunData

POLICY = "policy"
UNKNOWN_OPERATOR = "unknown"
Actions = NDArray[np.floating]
ByActor = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class HeadScores:
    """Scores of one head.

    Attributes:
        head: Its name.
        episodes: With at least one scored frame.
        frames: Scored.
        loss: The policy's own loss, in normalised units.
        scores: Metrics by who acted: the policy, and the baselines.
        operators: The same for the frames of each operator, ``unknown`` for those without one.
        operator_frames: Scored, of each operator.
    """

    head: str
    episodes: int
    frames: int
    loss: float
    scores: ByActor
    operators: Mapping[str, ByActor] = field(default_factory=dict)
    operator_frames: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain types; the loss also as a hexadecimal float, exact to the last bit; what was not scored is None."""
        operators = {name: {"frames": self.operator_frames[name], "scores": _plain(found)} for name, found in self.operators.items()}
        counts = {"episodes": self.episodes, "frames": self.frames, "loss": self.loss, "loss_hex": self.loss.hex()}
        return {**counts, "scores": _plain(self.scores), "operators": operators}


def _plain(scores: ByActor) -> dict[str, dict[str, float | None]]:
    return {who: {name: None if value != value else value for name, value in found.items()} for who, found in scores.items()}


def evaluate_heads(
    module: TrainModule, data: RunData, *, config: EvaluationConfig, shuffle_images: bool = False, progress: Progress = silent
) -> dict[str, HeadScores]:
    """Score a policy on every head that the run scores.

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
            head: _evaluate_head(module, data.part_of(head), head, config=config, shuffle_images=shuffle_images, progress=progress)
            for head in data.scored
        }
    module.train(training)
    return scores


def predict_chunks(module: TrainModule, batch: Batch, *, indices: NDArray[np.int64]) -> NDArray[np.float32]:
    """Predict the actions (B, S, D) of a batch, normalised; the noise of a sample follows from its index, not from the batch."""
    noise = [torch.randn(batch["action"].shape[1:], generator=generator(module.seed, "evaluate", int(i), "noise")) for i in indices]
    chunk = module.policy.predict(module.observe(batch), noise_BSD=torch.stack(noise).to(module.device))
    return np.asarray(chunk.float().cpu().numpy())


def _evaluate_head(
    module: TrainModule, part: Part, head: str, *, config: EvaluationConfig, shuffle_images: bool, progress: Progress
) -> HeadScores:
    source = part.sources[head]
    indices = evaluation_head(source, budget=config.samples_per_head).indices
    if shuffle_images:  # so that neighbours in a batch, which trade images, come from different episodes
        indices = indices[epoch_order(len(indices), seed=module.seed, epoch=0)]
    inverse = part.stats.normalisers(module.data.normalisation)["action"].inverse
    predicted, losses = [], []
    for at, batch in _batches(source, indices, batch_size=config.batch_size, shuffle_images=shuffle_images):
        chunk = predict_chunks(module, batch, indices=indices[at : at + len(batch["frame"])])
        predicted.append(inverse(chunk))
        losses.append(_loss(module, batch, at))
        progress(f"evaluate {head}", at + len(chunk), len(indices))
    errors = _errors(part, source, indices, predicted=np.concatenate(predicted), config=config)
    weight = sum(count for _, count in losses)
    loss = sum(value * count for value, count in losses) / max(1, weight)
    ordinals = source.index.locate(indices)[0]
    operators = np.array([source.episodes[int(e)].operator or UNKNOWN_OPERATOR for e in ordinals])
    known = sorted(set(operators.tolist()), key=str.encode)
    return HeadScores(
        head,
        len(np.unique(ordinals)),
        len(indices),
        loss,
        scores={who: found.mean() for who, found in errors.items()},
        operators={name: {who: found.mean(operators == name) for who, found in errors.items()} for name in known},
        operator_frames={name: int((operators == name).sum()) for name in known},
    )


def _batches(source: HeadSource, indices: NDArray[np.int64], *, batch_size: int, shuffle_images: bool) -> Iterator[tuple[int, Batch]]:
    at = 0
    for batch in make_loader(source, batch_size=batch_size, indices=indices):
        if shuffle_images:
            for camera, images in batch["images"].items():
                batch["images"][camera] = images.roll(1, 0)
        yield at, batch
        at += len(batch["frame"])


def _loss(module: TrainModule, batch: Batch, at: int) -> tuple[float, int]:
    """Return the loss of a batch and the cells it counts; its noise follows from the position, hence from the batch size."""
    action, mask = batch["action"].to(module.device), batch["action_mask"].to(module.device)
    source = torch.Generator().manual_seed(derive_seed(module.seed, "evaluate", at, "loss"))
    return float(module.policy.loss(module.observe(batch), action, mask_BSD=mask, generator=source)), int(mask.sum())


def _errors(
    part: Part, source: HeadSource, indices: NDArray[np.int64], *, predicted: Actions, config: EvaluationConfig
) -> dict[str, Errors]:
    """Return the errors of the policy and of each baseline on samples of a head."""
    samples = source.with_normalisers({}).samples(indices.tolist(), with_images=False)
    truth, mask, reference = (np.stack([getattr(sample, name) for sample in samples]) for name in ("action", "action_mask", "reference"))
    acted: dict[str, Actions | None] = {POLICY: predicted}
    if config.baselines:
        proprio = np.stack([sample.proprio[-1] for sample in samples])
        mean = np.nan_to_num(part.stats.features["action"].fields["mean"])
        acted[HOLD_STILL] = hold_still(part.recipe, steps=truth.shape[1], reference=reference, proprio=proprio)
        acted[MEAN_ACTION] = np.broadcast_to(mean, truth.shape)
        if part.train in part.sources:
            pool = Neighbours.of(part.sources[part.train], samples=config.neighbour_samples)
            acted[NEAREST] = pool.copied(source.samples(indices.tolist(), with_images=False))
    return {
        who: chunk_errors(chunk, truth, mask=mask, recipe=part.recipe, reference=reference)
        for who, chunk in acted.items()
        if chunk is not None and chunk.shape == truth.shape
    }
