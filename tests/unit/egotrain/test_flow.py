import math
import random

import pytest
import torch

from egotrain.numerics import fixed_numerics, generator, seeded_dropout
from egotrain.policies.flow import flow_loss, flow_times, integrate, masked_mse, noised
from egotrain.policies.objective import objective_loss, sampled, signal_share
from egotrain.policies.objective_config import ObjectiveConfig


def test_times_follow_the_beta_distribution():
    times = flow_times(200_000, generator=generator(0, "t"))
    assert times.min() >= 0.001
    assert times.max() <= 1.0
    for share in (0.1, 0.5, 0.9):  # the cumulative distribution of Beta(1.5, 1) is t^1.5
        level = share ** (1 / 1.5) * 0.999 + 0.001
        assert (times < level).float().mean().item() == pytest.approx(share, abs=0.005)


def test_noise_is_at_time_one_and_the_action_at_zero():
    action, noise = torch.randn(2, 3, 4, generator=generator(1, "a")), torch.randn(2, 3, 4, generator=generator(1, "n"))
    mixed, target = noised(action, noise, time_B=torch.tensor([1.0, 0.0]))
    torch.testing.assert_close(mixed[0], noise[0])
    torch.testing.assert_close(mixed[1], action[1])
    torch.testing.assert_close(target, noise - action)


@pytest.mark.parametrize("steps", [1, 2, 10])
def test_euler_along_the_true_velocity_ends_at_the_action(steps):
    action, noise = torch.randn(2, 3, 4, generator=generator(2, "a")), torch.randn(2, 3, 4, generator=generator(2, "n"))
    seen = []

    def velocity(x, t):
        seen.append(t[0].item())
        return noise - action

    torch.testing.assert_close(integrate(velocity, noise, steps=steps), action, atol=1e-5, rtol=1e-5)
    assert seen == pytest.approx([1 - i / steps for i in range(steps)])


def test_only_cells_in_the_mask_count():
    mask = torch.zeros(2, 3, 4, dtype=torch.bool)
    mask[0, 1, 2] = True
    predicted, target = torch.zeros(2, 3, 4), torch.full((2, 3, 4), 1e6)
    target[0, 1, 2] = 3.0
    assert masked_mse(predicted, target, mask=mask).item() == 9.0
    assert masked_mse(predicted, target, mask=torch.zeros_like(mask)).item() == 0.0


def test_the_loss_depends_on_the_generator_only():
    action, mask = torch.ones(4, 3, 2), torch.ones(4, 3, 2, dtype=torch.bool)

    def loss(seed):
        torch.manual_seed(random.randrange(2**31))
        return flow_loss(lambda x, t: x * t[:, None, None], action, mask_BSD=mask, generator=generator(seed, 7, 0, "noise")).item()

    assert loss(0) == loss(0) != loss(1)


def test_dropout_is_seeded_and_the_global_state_comes_back():
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    with seeded_dropout(0, 3, 0):
        first = torch.rand(3)
    torch.testing.assert_close(torch.rand(3), wanted, rtol=0, atol=0)
    with seeded_dropout(0, 3, 0):
        torch.testing.assert_close(torch.rand(3), first, rtol=0, atol=0)


def test_threads_are_fixed_and_put_back():
    before = torch.get_num_threads()
    with fixed_numerics(before + 1):
        assert torch.get_num_threads() == before + 1
        assert torch.are_deterministic_algorithms_enabled()
    assert torch.get_num_threads() == before
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_perfect_velocity_has_no_loss():
    action, mask = torch.zeros(64, 2, 2), torch.ones(64, 2, 2, dtype=torch.bool)
    assert flow_loss(lambda x, t: x / t[:, None, None], action, mask_BSD=mask, generator=generator(0, "x")).item() < 1e-8
    assert math.isclose(flow_loss(lambda x, t: 0 * x, action, mask_BSD=mask, generator=generator(0, "x")).item(), 1.0, abs_tol=0.2)


@pytest.mark.parametrize("steps", [1, 7])
def test_diffusion_ends_at_the_action_that_the_network_tells(steps):
    config = ObjectiveConfig(kind="diffusion", steps=steps)
    action, noise = torch.randn(2, 3, 4, generator=generator(2, "a")), torch.randn(2, 3, 4, generator=generator(2, "n"))
    seen = []

    def network(x, t):
        seen.append((t[0].item(), x.clone()))
        return action

    torch.testing.assert_close(sampled(config, network, noise_BSD=noise), action)
    assert [time for time, _ in seen] == pytest.approx([1 - i / steps for i in range(steps)])
    torch.testing.assert_close(seen[0][1], noise)
    for time, x in seen[1:]:  # on the way it is as noised as training makes it, with the noise that it started from
        share = signal_share(torch.tensor([time])).float()
        torch.testing.assert_close(x, share.sqrt() * action + (1 - share).sqrt() * noise, atol=0.03, rtol=0)


def test_the_schedule_of_diffusion_falls_from_the_action_to_noise():
    shares = signal_share(torch.linspace(0, 1, 1001))
    assert shares[0] == 1.0
    assert shares[-1] < 1e-3
    assert (shares.diff() <= 0).all()
    assert shares[500].item() == pytest.approx(math.cos((0.5 + 0.008) / 1.008 * math.pi / 2) ** 2, rel=1e-3)


def test_a_perfect_network_has_no_diffusion_loss_and_masked_cells_do_not_count():
    config, mask = ObjectiveConfig(kind="diffusion", steps=5), torch.ones(64, 2, 2, dtype=torch.bool)
    action = torch.randn(64, 2, 2, generator=generator(3, "a"))
    draw = {"action_BSD": action, "generator": generator(0, "x")}
    assert objective_loss(config, lambda x, t: action, mask_BSD=mask, **draw).item() == 0.0
    assert objective_loss(config, lambda x, t: 0 * x, mask_BSD=mask, **draw).item() == pytest.approx(1.0, abs=0.2)
    assert objective_loss(config, lambda x, t: action + 7 * ~mask, mask_BSD=mask & False, **draw).item() == 0.0
    times = []
    objective_loss(config, lambda x, t: times.append(t) or x, mask_BSD=mask, **draw)
    assert 0 < times[0].min() <= times[0].max() <= 1
