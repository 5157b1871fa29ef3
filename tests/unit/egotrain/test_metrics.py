import numpy as np
import pytest

from egodata.geometry.rotation import matrix_from_zyx
from egodata.sampling import ArmParts, Poses, load_recipe
from egodata.sampling.transforms import PackArms, actions_from_parts, pack_human, points_into_frame, rows_from_poses
from egotrain.baselines import hold_still
from egotrain.metrics import chunk_metrics, phases

HUMAN, JOINTS = load_recipe("human_wrist6d"), load_recipe("joints")
STILL = np.tile([0, 0, 0, 1, 0, 0, 0, 1, 0.0], 2)


def chunks(n=2, steps=100):
    return np.tile(STILL, (n, steps, 1)), np.ones((n, steps, 18), bool), np.tile([0.1, 0.2, 0.3, 0.6, 0.8, 0, 0], (n, 2, 1))


def score(predicted, truth, mask, reference, recipe=HUMAN):
    return chunk_metrics(predicted, truth, mask=mask, recipe=recipe, reference=reference)


def test_equal_chunks_have_no_error():
    truth, mask, reference = chunks()
    assert max(abs(value) for value in score(truth, truth, mask, reference).values()) < 1e-6


def test_known_errors_in_both_coordinate_frames():
    truth, mask, reference = chunks()
    predicted = truth.copy()
    predicted[:, 10:50, [0, 9]] += 0.03
    predicted[:, 10:50, [1, 10]] -= 0.04
    found = score(predicted, truth, mask, reference)
    for frame in ("head", "wrist"):
        assert found[f"{frame}.xyz_l2_early_m"] == pytest.approx(0, abs=1e-9)
        assert found[f"{frame}.xyz_l2_mid_m"] == pytest.approx(0.05)
        assert found[f"{frame}.xyz_l2_late_m"] == pytest.approx(0, abs=1e-9)
        assert found[f"{frame}.xyz_mse_m2"] == pytest.approx(0.4 * 0.05**2 / 3)


def test_rotation_in_degrees_over_all_steps_and_at_the_last_recorded_one():
    truth, mask, reference = chunks(n=1)
    angle = np.radians(np.linspace(0, 90, 100))
    turned = Poses(np.zeros((100, 2, 3)), matrix_from_zyx(angle, 0 * angle, 0 * angle)[:, None].repeat(2, 1))
    predicted = pack_human(turned, grip=False)[None]
    mask[:, 51:] = False
    found = score(predicted, truth, mask, reference)
    assert found["wrist.rotation_deg"] == pytest.approx(np.degrees(angle[:51]).mean())
    assert found["head.rotation_final_deg"] == pytest.approx(np.degrees(angle[50]))


def test_a_hand_that_is_not_in_the_mask_does_not_count():
    truth, mask, reference = chunks()
    predicted = truth.copy()
    predicted[..., :9] += 5.0
    mask[..., :9] = False
    assert score(predicted, truth, mask, reference)["wrist.xyz_mse_m2"] == 0
    assert np.isnan(score(predicted, truth, np.zeros_like(mask), reference)["wrist.xyz_mse_m2"])


def test_joints_are_compared_as_they_are():
    truth = np.zeros((3, 100, 4))
    predicted = truth + [3, 4, 0, 0]
    mask = np.ones(truth.shape, bool)
    found = score(predicted, truth, mask, np.zeros((3, 0, 7)), JOINTS)
    assert found == {"joint.mse": 25 / 4, "joint.l2_early": 5, "joint.l2_mid": 5, "joint.l2_late": 5}


def test_holding_still_is_the_identity_in_the_wrist_frame_and_the_current_joints():
    _, _, reference = chunks()
    held = hold_still(HUMAN, steps=100, reference=reference, proprio=np.zeros((2, 20)))
    np.testing.assert_allclose(held, chunks()[0], atol=1e-12)
    joints = np.arange(8.0).reshape(2, 4)
    held = hold_still(JOINTS, steps=100, reference=np.zeros((2, 0, 7)), proprio=joints)
    assert held.shape == (2, 100, 4)
    assert (held == joints[:, None]).all()


def test_phases_cover_a_chunk_once():
    for steps in (3, 10, 30, 100):
        covered = [i for part in phases(steps).values() for i in range(steps)[part]]
        assert covered == list(range(steps))


def arms(seed, *shape):
    rng = np.random.default_rng(seed)
    turns = [rng.uniform(-1, 1, shape) for _ in range(3)]
    poses = Poses(rng.normal(size=(*shape, 3)), matrix_from_zyx(*turns))
    return ArmParts(poses, rng.normal(size=(*shape, 21, 3)), rng.uniform(0, 1, shape))


@pytest.mark.parametrize("name", ["human_keypoints144", "eva_ee20"])
def test_an_arm_that_holds_still_is_predicted_by_holding_still(name):
    recipe, now = load_recipe(name), arms(1, 2, 2)
    reference = rows_from_poses(now.poses)
    own = ArmParts(now.poses, points_into_frame(now.points, now.poses), now.grips)
    proprio = PackArms(recipe.proprio_layout).forward(own)
    still = ArmParts(
        Poses(now.poses.positions[:, None].repeat(5, 1), now.poses.rotations[:, None].repeat(5, 1)),
        now.points[:, None].repeat(5, 1),
        now.grips[:, None].repeat(5, 1),
    )
    truth = actions_from_parts(still, recipe, reference=reference)
    held = hold_still(recipe, steps=5, reference=reference, proprio=proprio)
    found = chunk_metrics(held, truth, mask=np.ones(truth.shape, bool), recipe=recipe, reference=reference)
    assert max(abs(value) for value in found.values()) < 1e-5
    frame = "head" if name.startswith("human") else "base"
    assert {f"{frame}.xyz_mse_m2", "wrist.rotation_deg"} <= found.keys()
    assert ("grip.l1" in found) == (frame == "base")
    assert (f"{frame}.keypoint_l2_m" in found) == (frame == "head")


def test_keypoints_are_scored_in_their_own_wrist_and_where_they_are():
    recipe, truth = load_recipe("human_keypoints144"), arms(2, 3, 4, 2)
    reference = rows_from_poses(arms(3, 3, 2).poses)
    moved = ArmParts(Poses(truth.poses.positions + [0.03, 0.0, 0.04], truth.poses.rotations), truth.points + [0.03, 0.0, 0.04])
    actions = [actions_from_parts(parts, recipe, reference=reference) for parts in (moved, truth)]
    mask = np.ones(actions[0].shape, bool)
    found = chunk_metrics(*actions, mask=mask, recipe=recipe, reference=reference)
    assert found["head.keypoint_l2_m"] == pytest.approx(0.05)
    assert found["wrist.keypoint_l2_m"] == pytest.approx(0, abs=1e-9)
    assert [found["head.xyz_l2_late_m"], found["wrist.xyz_l2_late_m"]] == pytest.approx([0.05, 0.05])
    bent = ArmParts(truth.poses, truth.points.copy())
    bent.points[..., 8, 0] += 0.21
    mask[..., 9 + 3 * 20 : 9 + 3 * 21] = False  # the last point of the left hand was not seen
    found = chunk_metrics(actions_from_parts(bent, recipe, reference=reference), actions[1], mask=mask, recipe=recipe, reference=reference)
    assert found["wrist.keypoint_l2_m"] == pytest.approx(0.21 * 2 / 41)
    assert found["head.xyz_mse_m2"] == pytest.approx(0, abs=1e-12)
