"""Sizes of an HPT."""

from dataclasses import dataclass
from typing import Literal

from egodata.config import strict_config
from egodata.errors import ConfigError
from egotrain.policies.dims import PolicyDims
from egotrain.policies.encoders.config import ImageEncoderConfig, TextEncoderConfig, check_images
from egotrain.policies.objective_config import ObjectiveConfig


@strict_config
@dataclass(frozen=True, slots=True)
class HptConfig:
    """An HPT.

    Attributes:
        name: Tells policies apart.
        width: Of the trunk's tokens.
        heads: Attention heads of stems and trunk.
        blocks: Trunk blocks.
        mlp_ratio: Hidden over outer width of the trunk's MLPs.
        drop_path: Rate at the last trunk block; it rises linearly from 0.
        action_tokens: Learned tokens that carry the trunk's result to the action head.
        images: Encoder of images, one per camera.
        text: Encoder of prompts.
        stem_head_width: Width of an attention head in the stems.
        image_latents: Latents per camera.
        proprio_latents: Latents of the proprio stem.
        text_latents: Latents of the language stem.
        modality_dropout: Rate at which a camera or the prompt is left out while training.
        history_dropout: Rate at which the steps before the current one are left out while training.
        head_width: Of the action head.
        head_layers: Of the action head.
        head_heads: Attention heads of the action head.
        head_mlp_ratio: Hidden over outer width of the action head's MLPs.
        head_mlp_layers: Hidden layers of each of these MLPs.
        steps_per_token: Action steps that one token of the head stands for.
        shortcuts: For small policies that have minutes to learn: a token of the whole proprio history, norms of the action head scaled by
            time and context, and the noise in the input handed on to the output.
        objective: What the action head learns.
    """

    name: Literal["hpt"]
    width: int
    heads: int
    blocks: int
    mlp_ratio: int
    drop_path: float
    action_tokens: int
    images: ImageEncoderConfig
    text: TextEncoderConfig
    stem_head_width: int
    image_latents: int
    proprio_latents: int
    text_latents: int
    modality_dropout: float
    history_dropout: float
    head_width: int
    head_layers: int
    head_heads: int
    head_mlp_ratio: int
    head_mlp_layers: int
    steps_per_token: int
    shortcuts: bool
    objective: ObjectiveConfig

    def __post_init__(self) -> None:
        for width, heads in ((self.width, self.heads), (self.head_width, self.head_heads)):
            if heads < 1 or width % (2 * heads):
                raise ConfigError(f"policy hpt: a width of {width} does not divide into {heads} heads of even width. Change one of them.")
        low = min(
            self.steps_per_token, self.head_mlp_layers, self.action_tokens, self.image_latents, self.proprio_latents, self.text_latents
        )
        if low < 1:
            raise ConfigError("policy hpt: steps_per_token, head_mlp_layers, action_tokens and the numbers of latents must be at least 1")
        if self.images.width != self.width:
            raise ConfigError(f"policy hpt: images.width {self.images.width} differs from the trunk's width {self.width}. Make them equal.")


def check_hpt(config: HptConfig, dims: PolicyDims) -> None:
    """Refuse data that the sizes do not fit.

    Raises:
        ConfigError: Images too small for the stages, or action chunks shorter than a token.
    """
    check_images(config.images, (dims.image_height, dims.image_width), policy="hpt")
    if config.steps_per_token > dims.action_steps:
        raise ConfigError(f"policy hpt: steps_per_token {config.steps_per_token} exceeds the {dims.action_steps} action steps. Lower it.")
    if not dims.cameras:
        raise ConfigError("policy hpt: the recipe has no camera. Add one to its cameras.")
