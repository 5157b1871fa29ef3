"""Images to tokens, by a backbone or by convolutions. Suffixes as in `policies.base`; M tokens, C channels."""

import torch
from torch import Tensor, nn

from egodata.errors import ConfigError
from egotrain.policies.dims import PolicyDims
from egotrain.policies.encoders.architectures import architecture
from egotrain.policies.encoders.config import CONV, ImageEncoderConfig
from egotrain.policies.encoders.pretrained import Backbone
from egotrain.policies.layers import grid_positions


class ImageEncoder(nn.Module):
    """What every image encoder is: (B, 3, H, W) to tokens (B, M, width), the last `direct` of which stand for the whole image.

    Attributes:
        width: Of a token.
        tokens: M.
        direct: Tokens at the end that policies should take as they are.
    """

    width: int
    tokens: int
    direct: int

    def pretrained_parts(self) -> list[tuple[nn.Module, float]]:
        """Return parts with a share of the learning rate of their own."""
        return []


class BackboneImages(ImageEncoder):
    """A pretrained model: the cells of its last feature map, or its patch tokens without class and register tokens."""

    def __init__(self, config: ImageEncoderConfig, dims: PolicyDims) -> None:
        super().__init__()
        size = (dims.image_height, dims.image_width)
        self.backbone = Backbone(config, frozen_layers=config.frozen_layers)
        self.is_map, self.tokens, own = _token_shape(config, size)
        self.direct, self.width, self.share = 0, config.width or own, config.learning_rate_share
        self.project = nn.Linear(own, self.width) if config.width else nn.Identity()

    def forward(self, images_B3HW: Tensor) -> Tensor:
        """Return tokens."""
        state = self.backbone(images_B3HW)
        if not self.is_map:  # the model has put positions in
            return self.project(state[:, -self.tokens :])
        height, width = state.shape[-2:]
        where = grid_positions(height, width, channels=self.width, device=state.device)
        return self.project(state.flatten(2).transpose(1, 2)) + where

    def pretrained_parts(self) -> list[tuple[nn.Module, float]]:
        """Return the backbone."""
        return [(self.backbone, self.share)]


def _token_shape(config: ImageEncoderConfig, size: tuple[int, int]) -> tuple[bool, int, int]:
    """Return whether a model gives a feature map, how many tokens, and their width, by running it without weights."""
    from transformers import AutoModel

    found = architecture(config)
    patch = getattr(found, "patch_size", 1)
    if size[0] % patch or size[1] % patch:
        raise ConfigError(
            f"policy images {config.source}: patches of {patch} pixels do not divide images of {size[0]}x{size[1]}. "
            f"Set data.image_height and data.image_width to multiples."
        )
    with torch.device("meta"), torch.no_grad():
        model = AutoModel.from_config(found)
        state = model.eval()(torch.empty(1, 3, *size)).last_hidden_state
    if state.dim() == 4:
        return True, state.shape[2] * state.shape[3], state.shape[1]
    return False, (size[0] // patch) * (size[1] // patch), state.shape[-1]


def image_encoder(config: ImageEncoderConfig, dims: PolicyDims) -> ImageEncoder:
    """Build an image encoder with fresh weights.

    Raises:
        NotFoundError: The model is not on this machine.
        ConfigError: It does not take images of that size.
    """
    if config.source == CONV:
        from egotrain.policies.encoders.conv import ConvImages

        return ConvImages(config, dims)
    return BackboneImages(config, dims)
