"""Images to tokens by convolutions trained from scratch. Suffixes as in `policies.base`; C channels, G points."""

from itertools import pairwise

import torch
from torch import Tensor, nn

from egotrain.policies.dims import PolicyDims
from egotrain.policies.encoders.config import ImageEncoderConfig
from egotrain.policies.encoders.images import ImageEncoder
from egotrain.policies.layers import Mlp, grid_positions

GROUPS, FIRST_KERNEL, KERNEL = 8, 5, 3
COLOURS, COORDINATES = 3, 2
DIRECT_TOKENS = 2


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


class ConvImages(ImageEncoder):
    """Convolutions on pixels with their coordinates, then what is where in three ways.

    A token per cell of the last map, with its position; one of soft-argmax points of a finer map; one of the whole last map. The latter two
    learn within minutes where attention takes hours.
    """

    def __init__(self, config: ImageEncoderConfig, dims: PolicyDims) -> None:
        super().__init__()
        widths = (COLOURS + COORDINATES, *config.conv_widths)
        self.stages = nn.ModuleList(_stage(a, b, kernel=KERNEL if i else FIRST_KERNEL) for i, (a, b) in enumerate(pairwise(widths)))
        height, width = dims.image_height, dims.image_width
        for _ in config.conv_widths:
            height, width = -(-height // 2), -(-width // 2)
        self.width, self.direct, self.tokens = config.width, DIRECT_TOKENS, height * width + DIRECT_TOKENS
        self.fine = min(1, len(self.stages) - 1)
        self.grid = nn.Linear(widths[-1], config.width)
        self.position = nn.Linear(config.width, config.width)
        self.points = SoftArgmax(widths[self.fine + 1], points=config.keypoints)
        self.point_token = Mlp(4 * config.keypoints, 2 * config.width, config.width)
        self.map_token = nn.Linear(widths[-1] * height * width, config.width)

    def forward(self, images_B3HW: Tensor) -> Tensor:
        """Return tokens."""
        x, y = coordinates(images_B3HW)
        where = torch.stack(torch.meshgrid(y, x, indexing="ij")).expand(len(images_B3HW), -1, -1, -1)
        features = torch.cat([images_B3HW, where], 1).contiguous(memory_format=torch.channels_last)
        finer = features
        for i, stage in enumerate(self.stages):
            features = stage(features)
            finer = features if i == self.fine else finer
        direct = [self.point_token(self.points(finer).flatten(1)), self.map_token(features.flatten(1))]
        height, width = features.shape[-2:]
        positions = self.position(grid_positions(height, width, channels=self.width, device=features.device))
        cells = self.grid(features.flatten(2).transpose(1, 2)) + positions
        return torch.cat([cells, torch.stack(direct, 1)], 1)
