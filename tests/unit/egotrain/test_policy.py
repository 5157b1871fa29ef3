from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from egodata.errors import ConfigError
from egotrain.compose import compose_fit
from egotrain.data import check_dims, jittered
from egotrain.numerics import generator
from egotrain.optim import learning_rate_share, make_optimizer, parameter_groups
from egotrain.policies.base import Observation
from egotrain.policies.dims import PolicyDims
from egotrain.policies.encoders.text import hash_words
from egotrain.policies.registry import build_policy, check_policy

CONFIG = compose_fit(["store=s", "dataset=d@v1", "run=r", "policy=hpt_tiny"])
HUMAN = PolicyDims(100, 18, 3, 20, 2, ("front_1",), 1, 24, 32)
JOINTS = PolicyDims(97, 26, 2, 26, 1, ("front_1", "left_wrist"), 2, 24, 32)


def observation(dims, batch=3, seed=0):
    source = generator(seed, "observation")

    def draw(*shape):
        return torch.randn(*shape, generator=source)

    images = {camera: draw(batch, dims.images, 3, dims.image_height, dims.image_width) for camera in dims.cameras}
    masks = {camera: torch.ones(batch, dims.images, dtype=torch.bool) for camera in dims.cameras}
    history = torch.ones(batch, dims.proprio_history, dtype=torch.bool)
    arms = torch.ones(batch, dims.proprio_history, dims.arms, dtype=torch.bool)
    proprio = draw(batch, dims.proprio_history, dims.proprio_dim)
    return Observation(images, masks, proprio, history, arms, ["", "reach for the cube", "reach"][:batch], torch.full((batch,), 30.0))


@pytest.fixture(params=[HUMAN, JOINTS], ids=["human", "joints"])
def dims(request):
    return request.param


def test_every_parameter_learns(dims):
    torch.manual_seed(0)
    policy = build_policy(CONFIG.policy, dims).eval()
    with torch.no_grad():  # outputs start at zero, which would hide what lies before them
        for parameter in policy.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    action = torch.randn(3, dims.action_steps, dims.action_dim)
    loss = policy.loss(observation(dims), action, mask_BSD=torch.ones_like(action, dtype=torch.bool), generator=generator(0, "n"))
    assert loss.shape == ()
    loss.backward()
    still = [name for name, parameter in policy.named_parameters() if parameter.grad is None or not parameter.grad.abs().sum()]
    assert still == []


def test_a_prediction_is_a_function_of_observation_and_noise(dims):
    policy = build_policy(CONFIG.policy, dims).eval()
    noise = torch.randn(3, dims.action_steps, dims.action_dim)
    with torch.inference_mode():
        first = policy.predict(observation(dims), noise_BSD=noise)
        torch.manual_seed(99)
        again = policy.predict(observation(dims), noise_BSD=noise)
        alone = policy.predict(observation(dims, batch=1), noise_BSD=noise[:1])
    assert first.shape == noise.shape
    torch.testing.assert_close(first, again, rtol=0, atol=0)
    assert alone.shape == noise[:1].shape


def test_masked_cells_and_unrecorded_images_do_not_matter():
    policy = build_policy(CONFIG.policy, JOINTS).eval()
    seen = observation(JOINTS)
    action = torch.randn(3, 97, 26)
    mask = torch.rand(3, 97, 26, generator=generator(0, "mask")) < 0.5
    other = torch.where(mask, action, torch.full_like(action, 77.0))
    losses = []
    for chunk in (action, other):
        noisy = policy.loss(seen, torch.where(mask, chunk, 0.0), mask_BSD=mask, generator=generator(0, "n"))
        losses.append(noisy.item())
    assert losses[0] == losses[1]
    before = policy.encode(seen)
    hidden = {name: value.clone() for name, value in seen.image_mask.items()}
    hidden["front_1"][:, 0] = False
    images = {name: value.clone() for name, value in seen.images.items()}
    masked = policy.encode(replace(seen, image_mask=hidden))
    images["front_1"][:, 0] = 5.0
    torch.testing.assert_close(policy.encode(replace(seen, images=images, image_mask=hidden)), masked)
    assert not torch.allclose(before, masked)


def test_images_proprio_and_prompt_all_reach_the_head():
    policy = build_policy(CONFIG.policy, HUMAN).eval()
    seen = observation(HUMAN)
    base = policy.encode(seen)
    for change in (
        {"images": {"front_1": seen.images["front_1"] + 1}},
        {"proprio_BKP": seen.proprio_BKP + 1},
        {"arm_valid_BKA": ~seen.arm_valid_BKA},
        {"prompts": ["grasp", "grasp", "grasp"]},
    ):
        assert not torch.allclose(policy.encode(replace(seen, **change)), base), change


def test_words_hash_the_same_everywhere():
    numbers = hash_words(["", "Reach  for", "for"], words=3, vocabulary=64)
    assert numbers[0].tolist() == [1, 0, 0]
    assert numbers[1, 1] == numbers[2, 0]
    assert numbers[1].tolist() == [2 + 224670618 % 62, 2 + 4017424888 % 62, 0], "CRC-32 of reach and for"


def test_sizes_that_differ_are_named():
    with pytest.raises(ConfigError, match=r"^run r: .*; action_dim 18 in the policy, 26 in the data; .*\. Use the recipe"):
        check_dims(HUMAN, JOINTS, what="run r")
    check_dims(HUMAN, HUMAN, what="run r")
    with pytest.raises(ConfigError, match="no camera"):
        check_policy(CONFIG.policy, replace(HUMAN, cameras=()))


def test_norms_and_biases_do_not_decay():
    policy = build_policy(CONFIG.policy, HUMAN)
    decayed, kept = parameter_groups(policy, weight_decay=0.1)
    assert decayed["weight_decay"] == 0.1
    assert kept["weight_decay"] == 0.0
    names = {id(parameter): name for name, parameter in policy.named_parameters()}
    assert len(decayed["params"]) + len(kept["params"]) == len(names)
    assert all("norm" not in names[id(p)] and not names[id(p)].endswith("bias") for p in decayed["params"])


def test_the_learning_rate_rises_and_falls():
    config = replace(CONFIG.optim, warmup_steps=4, schedule="cosine", final_share=0.1)
    shares = [learning_rate_share(step, config=config, max_steps=10) for step in range(11)]
    assert shares[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert shares[10] == pytest.approx(0.1)
    assert all(a >= b for a, b in pairwise(shares[4:]))
    assert learning_rate_share(500, config=replace(config, schedule="constant"), max_steps=10) == 1.0
    optimizer, schedule = make_optimizer(build_policy(CONFIG.policy, HUMAN), config, max_steps=10)
    assert schedule.get_last_lr() == [config.learning_rate * 0.25] * 2
    assert len(optimizer.param_groups) == 2


def test_jitter_is_per_sample_seeded_and_the_same_for_all_images_of_a_sample():
    images = torch.randn(2, 1, 3, 8, 8).clamp(-1, 1).expand(2, 2, 3, 8, 8)
    one, same, other = (jittered(images, strength=0.1, generator=generator(seed, "j")) for seed in (0, 0, 1))
    torch.testing.assert_close(one, same, rtol=0, atol=0)
    assert not torch.allclose(one, other)
    torch.testing.assert_close(one[:, 0], one[:, 1])
    still = jittered(images, strength=0.0, generator=generator(0, "j"))
    torch.testing.assert_close(still, images, atol=1e-5, rtol=1e-5)
