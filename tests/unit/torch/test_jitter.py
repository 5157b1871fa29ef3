"""Colour jitter: what each factor does, by an independent restatement, and that it follows from the sample alone."""

import colorsys
from math import pi

import numpy as np
import pytest
import torch

from egodata.errors import ConfigError, InputError
from egodata.torch import ColourJitter, images_to_device
from egodata.torch.images import IMAGENET_MEAN, IMAGENET_STD
from egodata.torch.jitter import change_colours

NEUTRAL = [1.0, 1.0, 1.0, 0.0]
GREY = np.array([0.299, 0.587, 0.114])


def random_images(*shape, seed=0):
    return torch.randint(0, 256, (*shape, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def by_hand(image, brightness, contrast, saturation, turn):
    """One image (h, w, 3) in [0, 1], pixel by pixel in float64."""
    image = np.clip(image * brightness, 0, 1)
    image = np.clip(contrast * image + (1 - contrast) * (image @ GREY).mean(), 0, 1)
    image = np.clip(saturation * image + (1 - saturation) * (image @ GREY)[..., None], 0, 1)
    out = np.empty_like(image)
    for at in np.ndindex(image.shape[:2]):
        hue, saturated, value = colorsys.rgb_to_hsv(*image[at])
        out[at] = colorsys.hsv_to_rgb((hue + turn) % 1, saturated, value)
    return out


def test_every_factor_does_what_it_says():
    images = random_images(6, 5, 7)
    rows = [NEUTRAL, [1.1, 1, 1, 0], [1, 0.9, 1, 0], [1, 1, 1.1, 0], [1, 1, 1, -0.05 * 2 * pi], [0.93, 1.08, 0.91, 0.04 * 2 * pi]]
    out = change_colours(images.permute(0, 3, 1, 2) / 255, torch.tensor(rows)).permute(0, 2, 3, 1).numpy()
    for image, found, (brightness, contrast, saturation, hue) in zip(images.numpy() / 255, out, rows, strict=True):
        np.testing.assert_allclose(found, by_hand(image, brightness, contrast, saturation, hue / (2 * pi)), atol=2e-6)


def test_neutral_factors_leave_the_images_as_they_are():
    images = random_images(2, 1, 9, 16)
    plain = images_to_device(images, size=None)
    torch.testing.assert_close(images_to_device(images, size=None, factors=torch.tensor([NEUTRAL] * 2)), plain, atol=2e-5, rtol=0)
    drawn = images_to_device(images, size=None, factors=ColourJitter().draw([(0, 0, 0), (0, 0, 1)]))
    assert (drawn - plain).abs().max() > 0.05


def test_colours_change_before_the_mean_is_subtracted():
    images = torch.full((1, 2, 4, 4, 3), 100, dtype=torch.uint8)
    out = images_to_device(images, size=None, factors=torch.tensor([[1.1, 1, 1, 0]]))
    expected = (110 / 255 - torch.tensor(IMAGENET_MEAN)) / torch.tensor(IMAGENET_STD)
    torch.testing.assert_close(out, expected.view(3, 1, 1).expand(1, 2, 3, 4, 4), atol=1e-5, rtol=0)


def test_factors_follow_from_the_sample_and_not_from_its_batch():
    draws = [(7, 2, index) for index in (5, 900, 5, 13)]
    drawn = ColourJitter().draw(draws)
    assert drawn.shape == (4, 4)
    assert torch.equal(drawn[0], drawn[2])
    for at, draw in enumerate(draws):
        assert torch.equal(ColourJitter().draw([draw])[0], drawn[at])
    others = ColourJitter().draw([(7, 2, 5), (8, 2, 5), (7, 3, 5), (7, 2, 6), (7, 2, 5, 1)])
    assert len({tuple(row.tolist()) for row in others}) == 5
    images = random_images(4, 2, 18, 32)
    together = images_to_device(images, size=(9, 16), factors=drawn)
    for at in range(4):
        alone = images_to_device(images[at : at + 1], size=(9, 16), factors=drawn[at : at + 1])[0]
        torch.testing.assert_close(alone, together[at], atol=1e-5, rtol=0)


def test_drawing_leaves_the_runs_random_state_alone():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    factors = ColourJitter().draw([(0, 0, 0)])
    images_to_device(random_images(1, 4, 4), size=None, factors=factors)
    assert torch.equal(torch.get_rng_state(), before)


def test_factors_are_uniform_within_their_widths_and_independent():
    widths = torch.tensor([0.1, 0.2, 0.3, 0.05 * 2 * pi])
    drawn = ColourJitter(0.1, 0.2, 0.3, 0.05).draw([(0, 1, index) for index in range(4000)])
    unit = (drawn - torch.tensor(NEUTRAL)) / widths
    assert unit.abs().max() <= 1 + 1e-5
    for channel in unit.T:  # a uniform variable: quarters of the range are equally likely
        counts = torch.histc(channel, bins=4, min=-1, max=1)
        assert ((counts - 1000).abs() < 4.5 * (4000 * 0.25 * 0.75) ** 0.5).all()
    assert (torch.corrcoef(unit.T) - torch.eye(4)).abs().max() < 4.5 / 4000**0.5


def test_no_width_is_no_change():
    assert ColourJitter(0, 0, 0, 0).draw([(0, 0, 1)]).tolist() == [NEUTRAL]


def test_widths_out_of_range_and_factors_of_another_batch_are_refused():
    with pytest.raises(ConfigError, match=r"colour jitter: contrast -0.1, hue 0.6: expected 0 to 1, and hue 0 to 0.5"):
        ColourJitter(contrast=-0.1, hue=0.6)
    with pytest.raises(InputError, match=r"expected factors \(3, 4\), got \(2, 4\)"):
        images_to_device(random_images(3, 4, 4), size=None, factors=torch.ones(2, 4))
