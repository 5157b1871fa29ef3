"""Sizes of an HPT."""

from dataclasses import dataclass
from typing import Literal

from egodata.config import strict_config
from egodata.errors import ConfigError
from egotrain.policies.dims import PolicyDims


@strict_config
@dataclass(frozen=True, slots=True)
class HptConfig:
    """An HPT-shaped policy.

    Attributes:
        name: Tells policies apart.
        width: Of the trunk's tokens.
        heads: Attention heads of stems and trunk.
        blocks: Trunk blocks.
        mlp_ratio: Hidden over outer width of the trunk's MLPs.
        drop_path: Rate at the last trunk block; it rises linearly from 0.
        action_tokens: Learned tokens that carry the trunk's result to the action head.
        conv_widths: Channels of the image stem's stages; each stage halves the image, rounding up.
        image_keypoints: Soft-argmax points per image.
        image_latents: Latents per camera.
        proprio_latents: Latents of the proprio stem.
        text_latents: Latents of the language stem.
        text_words: Words of a prompt that are read.
        text_vocabulary: Buckets that words are hashed into.
        modality_dropout: Rate at which a camera or the prompt is left out while training.
        history_dropout: Rate at which the steps before the current one are left out while training.
        head_width: Of the action head.
        head_layers: Of the action head.
        head_heads: Attention heads of the action head.
        steps_per_token: Action steps that one token of the head stands for.
        flow_draws: Noise draws per sample and step; stems and trunk run once for all of them.
        flow_steps: Euler steps of a prediction.
    """

    name: Literal["hpt"]
    width: int
    heads: int
    blocks: int
    mlp_ratio: int
    drop_path: float
    action_tokens: int
    conv_widths: tuple[int, ...]
    image_keypoints: int
    image_latents: int
    proprio_latents: int
    text_latents: int
    text_words: int
    text_vocabulary: int
    modality_dropout: float
    history_dropout: float
    head_width: int
    head_layers: int
    head_heads: int
    steps_per_token: int
    flow_draws: int
    flow_steps: int

    def __post_init__(self) -> None:
        for width, heads in ((self.width, self.heads), (self.head_width, self.head_heads)):
            if heads < 1 or width % (2 * heads):
                raise ConfigError(f"policy hpt: a width of {width} does not divide into {heads} heads of even width. Change one of them.")
        if min(self.flow_draws, self.flow_steps, self.steps_per_token, len(self.conv_widths)) < 1:
            raise ConfigError("policy hpt: flow_draws, flow_steps, steps_per_token and the number of conv_widths must be at least 1")


def check_hpt(config: HptConfig, dims: PolicyDims) -> None:
    """Refuse data that the sizes do not fit.

    Raises:
        ConfigError: Images too small for the stages, or action chunks shorter than a token.
    """
    smallest, needed = min(dims.image_height, dims.image_width), 2 ** len(config.conv_widths)
    if smallest < 2 * needed:
        raise ConfigError(
            f"policy hpt: {len(config.conv_widths)} conv stages halve images of {smallest} pixels to less than 2. "
            f"Use fewer conv_widths or larger data.image_height and data.image_width."
        )
    if config.steps_per_token > dims.action_steps:
        raise ConfigError(f"policy hpt: steps_per_token {config.steps_per_token} exceeds the {dims.action_steps} action steps. Lower it.")
    if not dims.cameras:
        raise ConfigError("policy hpt: the recipe has no camera. Add one to its cameras.")
