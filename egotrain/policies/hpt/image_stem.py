"""Images to tokens, trained from scratch. Suffixes as in `policies.base`; C channels, G points."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from egotrain.policies.dims import PolicyDims
from egotrain.policies.hpt.config import HptConfig
from egotrain.policies.layers import Latents, Mlp, sinusoids

GROUPS, FIRST_KERNEL, KERNEL = 8, 5, 3
COLOURS, COORDINATES = 3, 2


def _stage(before: int, after: int, *, kernel: int) -> nn.Sequential:
    groups = GROUPS if after % GROUPS == 0 else 1
    return nn.Sequential(nn.Conv2d(before, after, kernel, stride=2, padding=kernel // 2), nn.GroupNorm(groups, after), nn.SiLU())


def coordinates(features_BCHW: Tensor) -> tuple[Tensor, Tensor]:
    """Return x (W,) and y (H,) of a feature map, from -1 to 1."""
    height, width = features_BCHW.shape[-2:]
    device = features_BCHW.device
    return torch.linspace(-1, 1, width, device=device), torch.linspace(-1, 1, height, device=device)


class SoftArgmax(nn.Module):
    """Points of an image: the mean position under a softmax over each learned map (Finn et al. 2016, "Deep spatial autoencoders")."""

    def __init__(self, channels: int, *, points: int) -> None:
        super().__init__()
        self.maps = nn.Conv2d(channels, points, 1)
        self.log_sharpness = nn.Parameter(torch.ones(points))

    def forward(self, features_BCHW: Tensor) -> Tensor:
        """Return (B, G, 4): x and y in -1..1, their spread, and how strongly the map fires there."""
        x, y = coordinates(features_BCHW)
        maps_BGHW = self.maps(features_BCHW)
        weight_BGHW = torch.softmax(maps_BGHW.flatten(2) * self.log_sharpness.exp()[:, None], -1).view_as(maps_BGHW)
        along_x, along_y = weight_BGHW.sum(2), weight_BGHW.sum(3)
        mean_x, mean_y = along_x @ x, along_y @ y
        spread = along_x @ x.square() + along_y @ y.square() - mean_x.square() - mean_y.square()
        return torch.stack([mean_x, mean_y, spread, (weight_BGHW * maps_BGHW).sum((2, 3)).tanh()], -1)


class ImageStem(nn.Module):
    """One camera: convolutions, then what is where in three ways.

    Latents attend to the grid of features with positions; two more tokens hold soft-argmax points of a finer map, and the
    whole coarse map at once. The latter two learn within minutes where attention takes hours.
    """

    def __init__(self, config: HptConfig, dims: PolicyDims) -> None:
        super().__init__()
        widths = (COLOURS + COORDINATES, *config.conv_widths)
        self.stages = nn.ModuleList(_stage(a, b, kernel=KERNEL if i else FIRST_KERNEL) for i, (a, b) in enumerate(pairwise(widths)))
        height, width = dims.image_height, dims.image_width
        for _ in config.conv_widths:
            height, width = -(-height // 2), -(-width // 2)
        self.fine = min(1, len(self.stages) - 1)
        self.grid = nn.Linear(widths[-1], config.width)
        self.position = nn.Linear(2 * (config.width // 2), config.width)
        self.points = SoftArgmax(widths[self.fine + 1], points=config.image_keypoints)
        self.point_token = Mlp(4 * config.image_keypoints, hidden=2 * config.width, out=config.width)
        self.map_token = nn.Linear(widths[-1] * height * width, config.width)
        self.age_NE = nn.Parameter(torch.zeros(dims.images, config.width))
        self.norm = nn.LayerNorm(config.width)
        self.latents = Latents(config.image_latents, width=config.width, heads=config.heads)

    def forward(self, images_BN3HW: Tensor, mask_BN: Tensor) -> Tensor:
        """Return tokens (B, L, E); the current image always counts, recorded or black."""
        batch, count = mask_BN.shape
        flat = images_BN3HW.flatten(0, 1)
        x, y = coordinates(flat)
        where = torch.stack(torch.meshgrid(y, x, indexing="ij")).expand(len(flat), -1, -1, -1)
        features = torch.cat([flat, where], 1).contiguous(memory_format=torch.channels_last)
        direct: list[Tensor] = []
        for i, stage in enumerate(self.stages):
            features = stage(features)
            if i == self.fine:
                direct.append(self.point_token(self.points(features).flatten(1)))
        direct.append(self.map_token(features.flatten(1)))
        tokens = self._grid_tokens(features).unflatten(0, (batch, count)) + self.age_NE[:, None]
        keep = mask_BN | (torch.arange(count, device=mask_BN.device) == count - 1)
        keep_BM = keep.repeat_interleave(tokens.shape[2], 1) if count > 1 else None
        latents = self.latents(self.norm(tokens.flatten(1, 2)), keep_BM)
        return torch.cat([latents, torch.stack(direct, 1).unflatten(0, (batch, count))[:, -1]], 1)

    def _grid_tokens(self, features_BCHW: Tensor) -> Tensor:
        x, y = (50 * (values + 1) for values in coordinates(features_BCHW))
        half = self.position.in_features // 2
        across = sinusoids(x, half).expand(len(y), -1, -1)
        down = sinusoids(y, half)[:, None].expand(-1, len(x), -1)
        return self.grid(features_BCHW.flatten(2).transpose(1, 2)) + self.position(torch.cat([across, down], -1)).flatten(0, 1)
