"""Images to tokens, trained from scratch. Suffixes as in `policies.base`; C channels, G points."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from egotrain.policies.hpt.config import HptConfig
from egotrain.policies.layers import Latents, Mlp, sinusoids

GROUPS = 8


def _stage(before: int, after: int, *, first: bool) -> nn.Sequential:
    kernel = 5 if first else 3
    groups = GROUPS if after % GROUPS == 0 else 1
    layers: list[nn.Module] = [nn.Conv2d(before, after, kernel, stride=2, padding=kernel // 2), nn.GroupNorm(groups, after), nn.SiLU()]
    if not first:
        layers += [nn.Conv2d(after, after, 3, padding=1), nn.GroupNorm(groups, after), nn.SiLU()]
    return nn.Sequential(*layers)


class SoftArgmax(nn.Module):
    """Points of an image: the mean position under a softmax over each learned map (Finn et al. 2016, "Deep spatial autoencoders")."""

    def __init__(self, channels: int, *, points: int) -> None:
        super().__init__()
        self.maps = nn.Conv2d(channels, points, 1)
        self.log_sharpness = nn.Parameter(torch.zeros(points))

    def forward(self, features_BCHW: Tensor) -> Tensor:
        """Return (B, G, 4): x and y in -1..1, their spread, and how strongly the map fires there."""
        maps_BGHW = self.maps(features_BCHW)
        height, width = maps_BGHW.shape[-2:]
        flat = maps_BGHW.flatten(2)
        weight = torch.softmax(flat * self.log_sharpness.exp()[:, None], -1)
        y = torch.linspace(-1, 1, height, device=flat.device).repeat_interleave(width)
        x = torch.linspace(-1, 1, width, device=flat.device).repeat(height)
        mean_x, mean_y = weight @ x, weight @ y
        spread = weight @ (x.square() + y.square()) - mean_x.square() - mean_y.square()
        return torch.stack([mean_x, mean_y, spread, (weight * flat).sum(-1).tanh()], -1)


class ImageStem(nn.Module):
    """One camera: convolutions, then grid tokens with positions and soft-argmax points, then latents."""

    def __init__(self, config: HptConfig, *, images: int) -> None:
        super().__init__()
        widths = (3, *config.conv_widths)
        self.stages = nn.Sequential(*[_stage(a, b, first=i == 0) for i, (a, b) in enumerate(pairwise(widths))])
        self.grid = nn.Linear(widths[-1], config.width)
        self.position = nn.Linear(config.width, config.width)
        self.points = SoftArgmax(widths[-2] if len(widths) > 2 else widths[-1], points=config.image_keypoints)
        self.point_token = Mlp(4 * config.image_keypoints, hidden=2 * config.width, out=config.width)
        self.age_NE = nn.Parameter(torch.zeros(images, config.width))
        self.norm = nn.LayerNorm(config.width)
        self.latents = Latents(config.image_latents, width=config.width, heads=config.heads)

    def forward(self, images_BN3HW: Tensor, mask_BN: Tensor) -> Tensor:
        """Return latents (B, L, E); at least the current image is looked at, recorded or black."""
        batch, count = mask_BN.shape
        flat = images_BN3HW.flatten(0, 1).contiguous(memory_format=torch.channels_last)
        features = self.stages[:-1](flat)
        tokens = self._grid_tokens(self.stages[-1](features))
        fine = features if len(self.stages) > 1 else self.stages[-1](flat)
        point = self.point_token(self.points(fine).flatten(1))[:, None]
        tokens = torch.cat([tokens, point], 1).unflatten(0, (batch, count)) + self.age_NE[:, None]
        keep = mask_BN | (torch.arange(count, device=mask_BN.device) == count - 1)
        keep_BM = keep.repeat_interleave(tokens.shape[2], 1)
        out = self.latents(self.norm(tokens.flatten(1, 2)), keep_BM if count > 1 else None)
        return torch.cat([out, point.unflatten(0, (batch, count))[:, -1]], 1)

    def _grid_tokens(self, features_BCHW: Tensor) -> Tensor:
        height, width = features_BCHW.shape[-2:]
        y = torch.linspace(0, 100, height, device=features_BCHW.device).repeat_interleave(width)
        x = torch.linspace(0, 100, width, device=features_BCHW.device).repeat(height)
        half = self.position.in_features // 2
        where = self.position(torch.cat([sinusoids(x, half), sinusoids(y, half)], -1))
        return self.grid(features_BCHW.flatten(2).transpose(1, 2)) + where
