"""Moves start and end where and when they say, smoothly."""

import numpy as np

from egodata.testing.world.motion import Move, follow, minimum_jerk, sway


def test_minimum_jerk_is_still_at_both_ends_and_held_outside():
    share = np.array([-1.0, 0.0, 0.5, 1.0, 2.0])
    np.testing.assert_allclose(minimum_jerk(share), [0, 0, 0.5, 1, 1])
    near = minimum_jerk(np.array([1e-3, 1 - 1e-3]))
    assert near[0] < 1e-8
    assert 1 - near[1] < 1e-8


def test_moves_add_up_and_bulge_only_on_the_way():
    moves = [Move(0.0, 1.0, (1.0, 0.0), (0.0, 0.2)), Move(2.0, 3.0, (1.0, 4.0))]
    got = follow(moves, (0.0, 0.0), times_s=np.array([-1.0, 0.0, 0.5, 1.0, 1.5, 2.5, 9.0]))
    np.testing.assert_allclose(got, [[0, 0], [0, 0], [0.5, 0.2], [1, 0], [1, 0], [1, 2], [1, 4]], atol=1e-12)


def test_sway_stays_within_its_amplitude_and_follows_its_generator():
    times = np.linspace(0, 20, 500)
    first, again = (sway(np.random.default_rng(4), times, amplitude=(0.1, 2.0), period_s=2.0) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert (np.abs(first).max(axis=0) <= (0.1, 2.0)).all()
    assert (np.abs(first).max(axis=0) > (0.03, 0.6)).all()
