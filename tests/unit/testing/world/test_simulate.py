"""What is simulated is what the images promise: the world is learnable, hands are seen, habits differ."""

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from egodata.geometry.camera import project
from egodata.geometry.hand import hand_poses
from egodata.geometry.pose import invert, transform_points
from egodata.testing.world import WorldOptions
from egodata.testing.world.camera import VENDOR_DISTORTION, VENDOR_TO_OPENCV
from egodata.testing.world.layout import ZONE_M
from egodata.testing.world.options import MAX_FRAMES, MIN_FRAMES
from egodata.testing.world.simulate import SimulatedEpisode, _delivered, simulate_episode

OPTIONS = WorldOptions(operators=5, episodes=25, seed=2)


@pytest.fixture(scope="module")
def episodes() -> list[SimulatedEpisode]:
    return [simulate_episode(OPTIONS, index) for index in range(OPTIONS.episodes)]


def test_each_cube_ends_on_the_zone_of_its_colour_taken_by_the_hand_on_its_side(episodes):
    for episode in episodes:
        zones = {zone.colour: zone.centre_m for zone in episode.layout.zones}
        for cube, centres in zip(episode.layout.cubes, episode.cubes_m, strict=True):
            assert (cube.side == "left") == (cube.centre_m[1] > 0)
            np.testing.assert_allclose(centres[0], cube.centre_m, atol=1e-9)
            assert np.abs(centres[-1] - zones[cube.colour])[:2].max() < ZONE_M / 4
        reaches = [cube.centre_m[0] for cube in episode.layout.cubes]
        assert reaches == sorted(reaches)


def test_a_carried_cube_moves_with_the_hand_that_took_it(episodes):
    for episode in episodes:
        for cube, centres in zip(episode.layout.cubes, episode.cubes_m, strict=True):
            hand = 0 if cube.side == "left" else 1
            lifted = centres[:, 2] > 0.05
            assert lifted.any()
            pinch = episode.keypoints_m[lifted, hand][:, [4, 8, 12]].mean(axis=1)
            assert np.linalg.norm(pinch - centres[lifted], axis=1).max() < 0.01


def test_most_frames_have_a_hand_that_moves_within_a_second_and_the_other_rests(episodes):
    moved = []
    for episode in episodes:
        wrist = hand_poses(episode.keypoints_m.reshape(-1, 21, 3))[0].reshape(-1, 2, 7)[..., :3]
        moved.append(np.linalg.norm(wrist[OPTIONS.fps :] - wrist[: -OPTIONS.fps], axis=-1).max(axis=1))
    far = np.concatenate(moved)
    assert (far > 0.05).mean() > 0.8
    assert np.median(far) > 0.12


def test_hands_are_in_the_picture_and_motions_are_smooth(episodes):
    for episode in episodes:
        seen = transform_points(invert(episode.head.world_T_head)[:, None], episode.keypoints_m)
        pixels = project(seen, episode.k, VENDOR_DISTORTION)
        inside = ((pixels >= 0) & (pixels <= np.array(episode.size) - 1)).all(axis=-1)
        assert inside.mean() > 0.97
        steps = np.diff(episode.keypoints_m[:, :, 0], axis=0)
        assert np.linalg.norm(steps, axis=-1).max() < 0.06
        assert np.linalg.norm(np.diff(episode.head.position_m, axis=0), axis=-1).max() < 0.01


def test_lengths_stamps_and_sessions(episodes):
    assert all(MIN_FRAMES <= episode.frames <= MAX_FRAMES for episode in episodes)
    assert len({episode.frames for episode in episodes}) > 8
    for episode in episodes:
        steps = np.diff(episode.stamps_ns)
        assert (steps > 25_000_000).all()
        assert len(np.unique(steps)) > 30
        days = {int(stamp) // (86_400 * 10**9) for stamp in episode.stamps_ns[[0, -1]]}
        assert len(days) == 1
    sessions = {(e.operator.id, e.session.environment_id, int(e.stamps_ns[0]) // (86_400 * 10**9)) for e in episodes}
    assert len(sessions) == 15
    assert len({e.operator.id for e in episodes}) == 5
    assert len({(e.operator.speed, e.operator.skin, e.operator.arc_m) for e in episodes}) == 5
    annotated = sum(e.annotated for e in episodes)
    assert 0 < annotated < len(episodes)
    assert 0 < sum(not e.delivered.all() for e in episodes) < len(episodes)


@settings(max_examples=60, deadline=None)
@given(fps=st.integers(5, 120) | st.integers(5, 8), seed=st.integers(0, 2**63 - 1), index=st.integers(0, 99))
@example(fps=5, seed=0, index=0)
def test_every_accepted_rate_gives_episodes(fps, seed, index):
    episode = simulate_episode(WorldOptions(operators=3, episodes=100, seed=seed, size=(64, 64), fps=fps), index)
    assert MIN_FRAMES / 30 * fps <= episode.frames <= MAX_FRAMES / 30 * fps  # 3 to 8 s
    assert (np.diff(episode.stamps_ns) > 0).all()
    assert episode.delivered.shape == (episode.frames, 2)
    hidden = np.flatnonzero(~episode.delivered.all(axis=1))
    assert episode.delivered.any(axis=0).all() and len(hidden) < 15
    assert hidden.tolist() == list(range(*((hidden[0], hidden[-1] + 1) if len(hidden) else (0, 0))))  # one stretch


def test_gaps_are_where_they_always_were():
    starts = [_delivered(np.random.default_rng(seed), 120) for seed in range(6)]
    stretches = [np.flatnonzero(~hands.all(axis=1))[[0, -1]].tolist() for hands in starts if not hands.all()]
    assert stretches == [[10, 16], [17, 23]]
    assert all(_delivered(np.random.default_rng(seed), frames).any(axis=0).all() for seed in range(200) for frames in (15, 20, 21))


def test_an_episode_does_not_depend_on_how_many_there_are_but_on_the_seed():
    few, many = (simulate_episode(WorldOptions(operators=5, episodes=n, seed=2), 1) for n in (2, 90))
    other = simulate_episode(WorldOptions(operators=5, episodes=2, seed=3), 1)
    assert few.id == many.id != other.id
    np.testing.assert_array_equal(few.keypoints_m, many.keypoints_m)
    np.testing.assert_array_equal(few.stamps_ns, many.stamps_ns)


def test_head_pose_is_the_vendor_camera_times_the_transposed_axis_change(episodes):
    head = episodes[0].head
    np.testing.assert_allclose(head.world_T_head[:, :3, :3], head.world_T_camera[:, :3, :3] @ VENDOR_TO_OPENCV.T, atol=1e-12)
    assert (head.world_T_head[:, 2, 2] < -0.5).all()
    assert (head.world_T_head[:, 2, 1] < -0.5).all()
