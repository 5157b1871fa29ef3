"""Images from uint8 in memory to normalised floats on their device: the one conversion to CHW."""

import torch
from torch import Tensor
from torch.nn.functional import interpolate

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def images_to_device(images: Tensor, *, device: torch.device | str = "cpu", size: tuple[int, int] | None = (90, 160)) -> Tensor:
    """Move images to a device as uint8, then resize and normalise them there.

    On a CPU the resampling itself is done in uint8: 20 times faster than in float32, and within one level of 255 of it.

    Args:
        images: (..., H, W, 3) uint8 RGB.
        device: Where to.
        size: (height, width) in pixels, by antialiased bilinear resampling; None keeps the size.

    Returns:
        (..., 3, h, w) float32, minus ImageNet's mean, over its standard deviation.
    """
    lead, (height, width) = images.shape[:-3], images.shape[-3:-1]
    flat = images.to(device, non_blocking=True).reshape(-1, height, width, 3).permute(0, 3, 1, 2)
    values = flat if flat.device.type == "cpu" else flat.float()
    if size is not None and (height, width) != size:
        values = interpolate(values, size=size, mode="bilinear", align_corners=False, antialias=True)
    values = values.to(torch.float32, memory_format=torch.contiguous_format)
    mean = torch.tensor(IMAGENET_MEAN, device=values.device).view(3, 1, 1) * 255
    std = torch.tensor(IMAGENET_STD, device=values.device).view(3, 1, 1) * 255
    return ((values - mean) / std).reshape(*lead, 3, *values.shape[-2:])
