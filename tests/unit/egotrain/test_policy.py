"""What every policy keeps."""

from dataclasses import replace

import pytest
import torch

from egodata.config import config_root
from egodata.errors import ConfigError, SampleError
from egodata.sampling import load_recipe
from egotrain.data import check_dims
from egotrain.numerics import fixed_numerics, generator
from egotrain.policies.base import Observation
from egotrain.policies.dims import BodyDims, PolicyDims
from egotrain.policies.registry import build_policy, check_policy
from tests.unit.egotrain.policy_help import HUMAN, JOINTS, awake, config_of, loss_of, noise_of, observation, predicted

TINY = ("hpt_tiny", "rdt_tiny")
RECIPES = sorted(path.stem for path in (config_root() / "recipes").glob("*.yaml"))
JOINT_ROBOT_WIDTH = 26


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny tensors on a busy machine: more threads wait for each other."""
    with fixed_numerics(1):
        yield


@pytest.fixture(params=TINY)
def config(request):
    return config_of(f"policy={request.param}").policy


@pytest.fixture(params=[HUMAN, JOINTS], ids=["human", "joints"])
def dims(request):
    return request.param


def test_every_parameter_learns(config, dims):
    policy = awake(config, dims).train()
    torch.manual_seed(3)  # in training, so that what only dropout reaches is reached
    loss = loss_of(policy, observation(dims, batch=24))
    assert loss.shape == ()
    loss.backward()
    still = [name for name, parameter in policy.named_parameters() if parameter.grad is None or not parameter.grad.abs().sum()]
    assert still == []


@pytest.mark.parametrize("name", ["hpt_cpu", "rdt_cpu"])
@pytest.mark.parametrize("recipe_name", RECIPES)
def test_the_cpu_sizes_take_every_recipe_forward_and_back(name, recipe_name):
    recipe = load_recipe(recipe_name)
    width, proprio = recipe.action_dim or JOINT_ROBOT_WIDTH, recipe.proprio_dim or JOINT_ROBOT_WIDTH
    sizes = (recipe.action.steps, width, recipe.proprio.history, proprio, len(recipe.arms))
    dims = PolicyDims(*sizes, recipe.cameras, recipe.image_history.count, 90, 160)
    config = config_of(f"policy={name}").policy
    check_policy(config, dims)
    policy = awake(config, dims).train()
    loss_of(policy, observation(dims, batch=2)).backward()
    gradients = [parameter.grad for parameter in policy.parameters() if parameter.grad is not None]
    assert len(gradients) > 0.95 * len(list(policy.parameters()))
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert any(gradient.abs().sum() > 0 for gradient in gradients)


@pytest.mark.parametrize("kind", ["flow", "diffusion"])
def test_a_prediction_is_a_function_of_observation_and_noise(config, dims, kind):
    policy = awake(replace(config, objective=replace(config.objective, kind=kind)), dims)
    first = predicted(policy, observation(dims))
    torch.manual_seed(99)
    torch.testing.assert_close(predicted(policy, observation(dims)), first, rtol=0, atol=0)
    assert not torch.allclose(predicted(policy, observation(dims), seed=1), first)
    assert first.shape == noise_of(dims).shape
    assert first.isfinite().all()
    assert predicted(policy, observation(dims, batch=1)).shape == (1, *first.shape[1:])


def test_masked_cells_do_not_matter(config):
    policy, seen = awake(config, JOINTS), observation(JOINTS)
    mask = torch.rand(3, 97, 26, generator=generator(0, "mask")) < 0.5
    action = torch.where(mask, noise_of(JOINTS, seed=5), 0.0)
    assert loss_of(policy, seen, mask=mask, action=action).item() != loss_of(policy, seen, action=action).item()
    policy.zero_grad()
    loss_of(policy, seen, mask=torch.zeros_like(mask), action=action).backward()
    assert not any(parameter.grad is not None and parameter.grad.abs().sum() for parameter in policy.parameters())


def test_images_that_were_not_recorded_do_not_matter(config):
    policy, seen = awake(config, JOINTS), observation(JOINTS)
    hidden = {name: value.clone() for name, value in seen.image_mask.items()}
    hidden["front_1"][:, 0] = False
    images = {name: value.clone() for name, value in seen.images.items()}
    masked = predicted(policy, replace(seen, image_mask=hidden))
    images["front_1"][:, 0] = 5.0
    torch.testing.assert_close(predicted(policy, replace(seen, images=images, image_mask=hidden)), masked)
    assert not torch.allclose(predicted(policy, seen), masked)


@pytest.mark.parametrize("what", ["images", "proprio", "arms", "prompts"])
def test_all_that_is_observed_reaches_the_action(config, what):
    policy, seen = awake(config, HUMAN), observation(HUMAN)
    changed = {
        "images": {"images": {"front_1": seen.images["front_1"].flip(-1)}},
        "proprio": {"proprio_BKP": seen.proprio_BKP + 1},
        "arms": {"arm_valid_BKA": ~seen.arm_valid_BKA},
        "prompts": {"prompts": ["grasp", "grasp", "grasp"]},
    }[what]
    assert not torch.allclose(predicted(policy, replace(seen, **changed)), predicted(policy, seen), rtol=0, atol=1e-6)


def test_a_few_samples_can_be_learned_by_heart(config):
    torch.manual_seed(0)
    dims = replace(HUMAN, action_steps=10)
    wide = replace(config, steps_per_token=5, objective=replace(config.objective, steps=10))
    policy, seen = build_policy(wide, dims).eval(), observation(dims, batch=2)
    action = 0.5 * noise_of(dims, batch=2, seed=7)
    before = (predicted(policy, seen) - action).square().mean().item()
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-2)
    for step in range(100):
        optimizer.zero_grad()
        loss_of(policy, seen, action=action, seed=step).backward()
        optimizer.step()
    assert (predicted(policy, seen) - action).square().mean().item() < 0.3 * before


def row_of(seen, row):
    def one(value):
        return {key: item[row : row + 1] for key, item in value.items()} if isinstance(value, dict) else value[row : row + 1]

    return Observation(*(one(getattr(seen, name)) for name in Observation.__slots__))


HANDS, ROBOT = BodyDims("human_bimanual", 18, 20, 2), BodyDims("eva_bimanual", 20, 16, 1)
MIXED = replace(HUMAN, action_dim=20, bodies=(HANDS, ROBOT))


def test_several_embodiments_of_several_widths_learn_in_one_batch(config):
    policy = awake(config, MIXED)
    names = ["eva_bimanual", "human_bimanual", "eva_bimanual"]
    seen = observation(MIXED, embodiments=names)
    together = predicted(policy, seen)
    for row in range(3):
        with torch.inference_mode():
            alone = policy.predict(row_of(seen, row), noise_BSD=noise_of(MIXED)[row : row + 1])
        torch.testing.assert_close(together[row : row + 1], alone, rtol=1e-4, atol=1e-5)
    moved = replace(seen, proprio_BKP=seen.proprio_BKP + 3 * (torch.arange(20) >= 16))
    after = predicted(policy, moved)
    torch.testing.assert_close(after[[0, 2]], together[[0, 2]], rtol=0, atol=0)  # the robot has 16 channels
    assert not torch.allclose(after[1], together[1])
    loss_of(policy, seen).backward()
    assert all(parameter.grad is not None for name, parameter in policy.named_parameters() if "parts." in name)


def test_a_part_is_known_by_the_name_of_its_embodiment(config):
    one, two = awake(config, replace(MIXED, bodies=(ROBOT,))), awake(config, MIXED)
    weights = {name for name in two.state_dict() if "parts.human_bimanual" not in name}
    assert weights == set(one.state_dict())
    two.load_state_dict(one.state_dict(), strict=False)
    seen = observation(MIXED, embodiments=["eva_bimanual"] * 3)
    torch.testing.assert_close(predicted(two, seen), predicted(one, seen), rtol=0, atol=0)


def test_an_embodiment_that_the_policy_lacks_is_named(config):
    policy = awake(config, MIXED)
    with pytest.raises(SampleError, match=r"no part for embodiment 'eva_bimanua'; did you mean eva_bimanual"):
        predicted(policy, observation(MIXED, embodiments=["eva_bimanua"] * 3))
    with pytest.raises(SampleError, match="samples without an embodiment, expected one of human_bimanual, eva_bimanual"):
        predicted(policy, observation(MIXED))
    with pytest.raises(ConfigError, match="embodiment eva_bimanual is wider than the policy"):
        replace(HUMAN, bodies=(ROBOT,))
    with pytest.raises(ConfigError, match="expected each once"):
        replace(MIXED, bodies=(ROBOT, ROBOT))


def test_sizes_read_back_and_those_that_differ_are_named():
    assert PolicyDims.from_json(MIXED.to_json()) == MIXED
    old = {name: value for name, value in HUMAN.to_json().items() if name != "bodies"}
    assert PolicyDims.from_json(old) == HUMAN, "a checkpoint from before bodies"
    with pytest.raises(ConfigError, match=r"^run r: .*; action_dim 18 in the policy, 26 in the data; .*\. Use the recipe"):
        check_dims(HUMAN, JOINTS, what="run r")
    check_dims(HUMAN, HUMAN, what="run r")


@pytest.mark.parametrize(
    ("words", "changed", "said"),
    [
        ((), {"cameras": ()}, "the recipe has no camera"),
        (("policy.steps_per_token=101",), {}, "steps_per_token 101 exceeds the 100 action steps"),
        (("policy.images.conv_widths=[8,8,8,8]",), {}, "4 conv stages halve images of 24 pixels to less than 2"),
    ],
)
@pytest.mark.parametrize("name", TINY)
def test_data_that_does_not_fit_is_refused(name, words, changed, said):
    with pytest.raises(ConfigError, match=said):
        check_policy(config_of(f"policy={name}", *words).policy, replace(HUMAN, **changed))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("policy=rdt_tiny", "policy.blocks=1"), "odd blocks see the images"),
        (("policy=rdt_tiny", "policy.heads=3"), "a width of 16 does not divide into 3 heads"),
        (("policy=rdt_tiny", "policy.condition_dropout=1.0"), r"rates of dropout in \[0, 1\)"),
        (("policy=rdt_tiny", "policy.action_depth=0"), "depths of the adaptors must be at least 1"),
        (("policy=hpt_tiny", "policy.images.width=8"), "images.width 8 differs from the trunk's width 16"),
        (("policy=hpt_tiny", "policy.head_mlp_layers=0"), "head_mlp_layers"),
        (("policy=hpt_tiny", "policy.objective.steps=0"), "expected 1 <= steps <= 1000"),
        (("policy=hpt_tiny", "policy.images.keypoints=0"), "expected conv_widths, keypoints"),
        (("policy=hpt_tiny", "policy.text.vocabulary=2"), "vocabulary >= 3"),
        (("policy=rdt_tiny", "policy.text.tokens=0"), "expected tokens >= 1"),
        (("policy=rdt_tiny", "policy.images.frozen_layers=-2"), "frozen_layers >= -1"),
        (("policy=rdt_tiny", "policy.drop_path=0.1"), "drop_path"),
        (("policy.name=act",), "'hpt', 'rdt'"),
    ],
)
def test_a_wrong_size_is_named(words, said):
    with pytest.raises(ConfigError, match=said):
        config_of(*words)
