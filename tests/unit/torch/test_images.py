"""uint8 images become normalised floats of the wanted size."""

import numpy as np
import torch
from torch.nn.functional import interpolate

from egodata.torch import images_to_device
from egodata.torch.images import IMAGENET_MEAN, IMAGENET_STD


def test_without_resizing_only_the_scale_changes():
    images = torch.randint(0, 256, (2, 1, 5, 7, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    out = images_to_device(images, size=None)
    assert out.shape == (2, 1, 3, 5, 7)
    for channel in range(3):
        expected = (images[..., channel].double() / 255 - IMAGENET_MEAN[channel]) / IMAGENET_STD[channel]
        torch.testing.assert_close(out[:, :, channel].double(), expected, atol=1e-5, rtol=0)


def triangle(source, target):
    """Weights (target, source) of bilinear reduction: a triangle as wide as the step, around each output pixel's centre."""
    step = source / target
    distance = np.abs((np.arange(source) + 0.5)[None] - (np.arange(target) + 0.5)[:, None] * step)
    weights = np.maximum(0, 1 - distance / step)
    return weights / weights.sum(1, keepdims=True)


def test_resizing_is_an_antialiased_reduction():
    image = np.random.default_rng(0).integers(0, 256, (36, 64, 3), np.uint8)
    expected = np.einsum("yh,hwc,xw->yxc", triangle(36, 9), image, triangle(64, 16))
    out = images_to_device(torch.from_numpy(image)[None], size=(9, 16))[0]
    back = out * torch.tensor(IMAGENET_STD).view(3, 1, 1) + torch.tensor(IMAGENET_MEAN).view(3, 1, 1)
    assert np.abs(back.permute(1, 2, 0).numpy() * 255 - expected).max() < 1


def test_resampling_in_uint8_is_within_one_level_of_float():
    images = torch.randint(0, 256, (2, 36, 64, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    floats = interpolate(images.permute(0, 3, 1, 2).double(), size=(9, 16), mode="bilinear", antialias=True)
    std, mean = torch.tensor(IMAGENET_STD).view(3, 1, 1), torch.tensor(IMAGENET_MEAN).view(3, 1, 1)
    assert ((images_to_device(images, size=(9, 16)) * std + mean) * 255 - floats).abs().max() < 1


def test_a_stripe_finer_than_the_output_becomes_grey():
    stripes = torch.zeros(1, 40, 80, 3, dtype=torch.uint8)
    stripes[:, :, ::2] = 255
    out = images_to_device(stripes, size=(10, 20))[0, 0] * IMAGENET_STD[0] + IMAGENET_MEAN[0]
    assert torch.all((out[:, 2:-2] - 0.5).abs() < 0.02)
