"""Observations and sizes that the tests of policies share."""

from functools import cache

import torch

from egotrain.compose import compose_fit
from egotrain.numerics import generator
from egotrain.policies.base import Observation
from egotrain.policies.dims import PolicyDims
from egotrain.policies.registry import build_policy

NEEDED = ("store=s", "dataset=d@v1", "run=r")
HUMAN = PolicyDims(100, 18, 3, 20, 2, ("front_1",), 1, 24, 32)
JOINTS = PolicyDims(97, 26, 2, 26, 1, ("front_1", "left_wrist"), 2, 24, 32)
PROMPTS = ("", "reach for the cube", "reach")


@cache
def config_of(*words):
    return compose_fit([*NEEDED, *words])


def observation(dims, batch=3, seed=0, embodiments=()):
    source = generator(seed, "observation")

    def draw(*shape):
        return torch.randn(*shape, generator=source)

    images = {camera: draw(batch, dims.images, 3, dims.image_height, dims.image_width) for camera in dims.cameras}
    masks = {camera: torch.ones(batch, dims.images, dtype=torch.bool) for camera in dims.cameras}
    history = torch.ones(batch, dims.proprio_history, dtype=torch.bool)
    arms = torch.ones(batch, dims.proprio_history, dims.arms, dtype=torch.bool)
    proprio = draw(batch, dims.proprio_history, dims.proprio_dim)
    prompts = [PROMPTS[i % len(PROMPTS)] for i in range(batch)]
    return Observation(images, masks, proprio, history, arms, prompts, torch.full((batch,), 30.0), embodiments)


def awake(config, dims):
    """Build a policy whose outputs, zero at first, show what lies before them."""
    torch.manual_seed(0)
    policy = build_policy(config, dims).eval()
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return policy


def noise_of(dims, batch=3, seed=0):
    return torch.randn(batch, dims.action_steps, dims.action_dim, generator=generator(seed, "noise"))


def predicted(policy, seen, seed=0):
    with torch.inference_mode():
        return policy.predict(seen, noise_BSD=noise_of(policy.dims, len(seen.proprio_BKP), seed))


def loss_of(policy, seen, *, mask=None, action=None, seed=0):
    action = noise_of(policy.dims, len(seen.proprio_BKP), seed=99) if action is None else action
    mask = torch.ones_like(action, dtype=torch.bool) if mask is None else mask
    return policy.loss(seen, action, mask_BSD=mask, generator=generator(seed, "n"))
