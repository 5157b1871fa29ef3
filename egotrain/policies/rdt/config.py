"""Sizes of an RDT."""

from dataclasses import dataclass
from typing import Literal

from egodata.config import strict_config
from egodata.errors import ConfigError
from egotrain.policies.dims import PolicyDims
from egotrain.policies.encoders.config import ImageEncoderConfig, TextEncoderConfig, check_images
from egotrain.policies.objective_config import ObjectiveConfig


@strict_config
@dataclass(frozen=True, slots=True)
class RdtConfig:
    """An RDT.

    Attributes:
        name: Tells policies apart.
        width: Of the tokens.
        heads: Attention heads.
        blocks: Even ones attend to language, odd ones to images.
        mlp_ratio: Hidden over outer width of the feed-forward parts.
        images: Encoder of images, one for all cameras.
        text: Encoder of prompts.
        action_depth: Linear layers of the adaptors of action and state, one of each per embodiment.
        language_depth: Linear layers of the adaptor of language.
        image_depth: Linear layers of the adaptor of images.
        condition_dropout: Rate at which, while training, the state is a learned null, and rate at which the prompt is empty.
        history_dropout: Rate at which images before the current one are left out while training.
        steps_per_token: Action steps that one token stands for.
        shortcuts: For small policies that have minutes to learn: what stands for a whole image and the state
            history are added to every token of the chunk, and the noise in the input is handed on to the output.
        objective: What the network learns.
    """

    name: Literal["rdt"]
    width: int
    heads: int
    blocks: int
    mlp_ratio: int
    images: ImageEncoderConfig
    text: TextEncoderConfig
    action_depth: int
    language_depth: int
    image_depth: int
    condition_dropout: float
    history_dropout: float
    steps_per_token: int
    shortcuts: bool
    objective: ObjectiveConfig

    def __post_init__(self) -> None:
        if self.heads < 1 or self.width % (2 * self.heads):
            raise ConfigError(
                f"policy rdt: a width of {self.width} does not divide into {self.heads} heads of even width. Change one of them."
            )
        if self.blocks < 2:
            raise ConfigError(f"policy rdt: blocks {self.blocks}: expected at least 2, since odd blocks see the images")
        if min(self.steps_per_token, self.action_depth, self.language_depth, self.image_depth, self.mlp_ratio) < 1:
            raise ConfigError("policy rdt: steps_per_token, mlp_ratio and the depths of the adaptors must be at least 1")
        if not 0 <= min(self.condition_dropout, self.history_dropout) <= max(self.condition_dropout, self.history_dropout) < 1:
            raise ConfigError("policy rdt: expected rates of dropout in [0, 1)")


def check_rdt(config: RdtConfig, dims: PolicyDims) -> None:
    """Refuse data that the sizes do not fit.

    Raises:
        ConfigError: Images too small for the stages, or action chunks shorter than a token.
    """
    check_images(config.images, (dims.image_height, dims.image_width), policy="rdt")
    if config.steps_per_token > dims.action_steps:
        raise ConfigError(f"policy rdt: steps_per_token {config.steps_per_token} exceeds the {dims.action_steps} action steps. Lower it.")
    if not dims.cameras:
        raise ConfigError("policy rdt: the recipe has no camera. Add one to its cameras.")
