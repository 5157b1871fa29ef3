"""The typed configuration of training and evaluation. YAML files in configs/ hold the values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Discriminator

from egodata.config import strict_config
from egodata.errors import ConfigError
from egodata.names import nearest
from egodata.schema.ids import HEADS
from egotrain.policies.config import PolicyConfig

Format = Literal["zarr", "lance"]


@strict_config
@dataclass(frozen=True, slots=True)
class DataConfig:
    """How samples become batches.

    Attributes:
        batch_size: Samples per step.
        num_workers: Processes that read; 0 reads in the training process.
        normalisation: How actions and proprio are scaled; statistics are those of the training head.
        image_height: Of the batch path, pixels.
        image_width: Of the batch path, pixels.
        colour_jitter: Largest change of brightness, contrast and saturation while training, as a share; 0 is off.
        hue_jitter: Largest turn of the hue, as a share of a full turn; two thirds of the jitter's cost on a CPU.
        mixing: With several datasets: a ``batch`` of all ranks comes from one of them, or each ``sample`` from any, for which they need
            equal channels, cameras and image sizes.
    """

    batch_size: int
    num_workers: int
    normalisation: Literal["quantile", "minmax", "zscore"]
    image_height: int
    image_width: int
    colour_jitter: float
    hue_jitter: float = 0.0
    mixing: Literal["batch", "sample"] = "batch"

    def __post_init__(self) -> None:
        sizes = self.batch_size >= 1 and self.num_workers >= 0 and min(self.image_height, self.image_width) >= 16
        if not sizes or not 0 <= self.colour_jitter < 1 or not 0 <= self.hue_jitter <= 0.5:
            raise ConfigError(
                "data: expected batch_size >= 1, num_workers >= 0, images of at least 16 pixels, 0 <= colour_jitter < 1, "
                "0 <= hue_jitter <= 0.5"
            )


@strict_config
@dataclass(frozen=True, slots=True)
class OptimConfig:
    """AdamW with a schedule.

    Attributes:
        learning_rate: At its highest.
        weight_decay: Not applied to norms and biases.
        betas: Of AdamW.
        warmup_steps: Linear rise from 0.
        schedule: After the rise.
        final_share: Share of the learning rate that a cosine ends at.
        clip_norm: Largest norm of all gradients; 0 does not clip.
        accumulate: Parts that a batch goes through in, one after the other; each draws its own noise.
        ema_decay: Of averaged weights, with which the policy is scored; 0 averages nothing.
        outlier_factor: Times the median of recent norms of gradients from which on one is reported; it is clipped like any other. 0 is off.
    """

    learning_rate: float
    weight_decay: float
    betas: tuple[float, float]
    warmup_steps: int
    schedule: Literal["constant", "cosine"]
    final_share: float
    clip_norm: float
    accumulate: int = 1
    ema_decay: float = 0.0
    outlier_factor: float = 0.0

    def __post_init__(self) -> None:
        low = min(self.weight_decay, self.warmup_steps, self.clip_norm, self.outlier_factor)
        if self.learning_rate <= 0 or low < 0 or not 0 <= self.final_share <= 1:
            raise ConfigError("optim: expected learning_rate > 0, weight_decay, warmup_steps and clip_norm >= 0, and 0 <= final_share <= 1")
        if self.accumulate < 1 or not 0 <= self.ema_decay < 1:
            raise ConfigError(f"optim: expected accumulate >= 1 and 0 <= ema_decay < 1, got {self.accumulate} and {self.ema_decay}")


@strict_config
@dataclass(frozen=True, slots=True)
class TrainerConfig:
    """How long, where, and how often to look.

    Attributes:
        max_steps: Optimiser steps.
        accelerator: ``auto`` takes a GPU if there is one.
        threads: CPU threads of torch per rank, fixed so that results repeat; recorded in the run.
        log_every_steps: Between rows of training loss.
        evaluate_every_steps: Between evaluations; 0 evaluates at the end only.
        checkpoint_every_steps: Between checkpoints; one is always written at the end, and when the run is asked to stop.
        precision: ``bf16`` computes in it where that is safe; weights and optimiser stay in 32 bits.
        ddp_bf16: Whether ranks exchange gradients in bfloat16.
        devices: Ranks on this machine, each with its own batch of data.batch_size; started from outside they are counted there.
        keep_checkpoints: How many of the newest to keep; 0 keeps all.
        wandb_project: Project that a copy of the metrics goes to, with the extra of that name; empty for none.
        compile: Whether torch compiles the policy's heavy parts, which takes a minute at the start.
    """

    max_steps: int
    accelerator: Literal["auto", "cpu", "gpu"]
    threads: int
    log_every_steps: int
    evaluate_every_steps: int
    checkpoint_every_steps: int
    precision: Literal["float32", "bf16"] = "float32"
    ddp_bf16: bool = False
    devices: int = 1
    keep_checkpoints: int = 0
    wandb_project: str = ""
    compile: bool = False

    def __post_init__(self) -> None:
        low = min(self.max_steps, self.threads, self.log_every_steps, self.checkpoint_every_steps, self.devices)
        if low < 1 or min(self.evaluate_every_steps, self.keep_checkpoints) < 0:
            raise ConfigError(
                "trainer: expected max_steps, threads, devices and the steps between log rows and checkpoints >= 1, "
                "evaluate_every_steps and keep_checkpoints >= 0"
            )


@strict_config
@dataclass(frozen=True, slots=True)
class EvaluationConfig:
    """Which frames are scored, and which episodes are shown.

    Attributes:
        heads: Of every dataset of the run, or ``NAME@VERSION:HEAD`` of one of them or of another one; those that a dataset does not have
            are left out and named. In scores, a bare name is that of the first dataset's head, those of the others are
            ``NAME@VERSION:HEAD``; a head named so goes by that name.
        samples_per_head: Budget, spent evenly over the head's episodes.
        batch_size: Samples per batch; does not change the result beyond rounding.
        baselines: Whether to score holding still, the mean action and the nearest training frame beside the policy.
        neighbour_samples: Training frames, evenly spread, among which the nearest one is looked for.
        videos: Pinned episodes per head shown as overlay videos after an evaluation; 0 makes none.
        pins: Episodes to show instead of those that the dataset pins, as ``HEAD/EPISODE``.
    """

    heads: tuple[str, ...]
    samples_per_head: int
    batch_size: int
    baselines: bool
    neighbour_samples: int = 2048
    videos: int = 0
    pins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.heads or min(self.samples_per_head, self.batch_size, self.neighbour_samples) < 1 or self.videos < 0:
            raise ConfigError(
                "evaluation: expected at least one head, samples_per_head, batch_size and neighbour_samples >= 1, and videos >= 0"
            )
        odd = [head for head in self.heads if head not in HEADS and not _elsewhere(head)]
        if odd:
            raise ConfigError(f"evaluation.heads {odd[0]!r}: expected {', '.join(HEADS)} or NAME@VERSION:HEAD; {nearest(odd[0], HEADS)}")
        for pin in self.pins:
            head = pin.rpartition("/")[0]
            if head not in self.heads and head.rpartition(":")[2] not in self.heads:
                raise ConfigError(f"evaluation.pins {pin!r}: expected HEAD/EPISODE with a head of {', '.join(self.heads)}")


@strict_config
@dataclass(frozen=True, slots=True)
class CoTrainConfig:
    """One more dataset of a run, of the same or of another body.

    Attributes:
        dataset: ``name@version``, or the path of a manifest.
        recipe: Which numbers, images and texts make a sample of it.
        weight: How often it is read, relative to the run's first dataset, whose weight is 1: shares of batches or samples, see
            `DataConfig.mixing`.
    """

    dataset: str
    recipe: str
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not self.weight > 0:
            raise ConfigError(f"co_train {self.dataset}: expected a weight above 0, got {self.weight}. Leave the dataset out instead.")


@strict_config
@dataclass(frozen=True, slots=True)
class FitConfig:
    """One training run.

    Attributes:
        store: Root folder of the store.
        dataset: ``name@version``, or the path of a manifest.
        run: Name of the run; its folder is runs/<run> in the store.
        recipe: Which numbers, images and texts make a sample.
        format: Which copy of the episodes to read; both give the same samples.
        seed: Everything random follows from it.
        resume: Go on with an unfinished run of this name and config.
        co_train: Further datasets that are trained on in the same run.
    """

    store: str
    dataset: str
    run: str
    recipe: str
    data: DataConfig
    policy: Annotated[PolicyConfig, Discriminator("name")]
    optim: OptimConfig
    trainer: TrainerConfig
    evaluation: EvaluationConfig
    format: Format = "zarr"
    seed: int = 0
    resume: bool = False
    co_train: tuple[CoTrainConfig, ...] = ()


@strict_config
@dataclass(frozen=True, slots=True)
class EvaluateConfig:
    """One evaluation of a checkpoint; what is None is taken from the run.

    Attributes:
        format: Which copy to read.
        checkpoint: File name in the run's checkpoints folder.
        samples_per_head: Budget, spent evenly over the head's episodes.
        heads: As in a run's config.
        videos: Pinned episodes per head shown as overlay videos.
        shuffle_images: Give every sample the images of another one, to see how much the policy uses what it sees.
        threads: CPU threads of torch.
    """

    checkpoint: str
    shuffle_images: bool
    format: Format | None = None
    samples_per_head: int | None = None
    heads: tuple[str, ...] | None = field(default=None)
    videos: int | None = None
    threads: int | None = None


def _elsewhere(head: str) -> bool:
    """Say whether a head is one of another dataset, ``NAME@VERSION:HEAD``."""
    dataset, colon, name = head.partition(":")
    return bool(colon) and dataset.count("@") == 1 and name in HEADS


def plain(value: Any) -> Any:
    """Turn tuples into lists and mappings into dicts, all the way down."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
