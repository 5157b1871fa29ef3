"""One run on several datasets of several bodies: what it reads, what it keeps, what it refuses."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from egodata.catalog import check_together, load_dataset
from egodata.catalog.leases import held_leases
from egodata.catalog.manifest import manifest_bytes, manifest_digest
from egodata.config import config_root
from egodata.errors import ConfigError, GateError, InputError, NotFoundError, RecipeError
from egodata.sampling import load_recipe
from egodata.stats import norm_stats, pooled_stats
from egodata.stats.pooled import pooled_episodes
from egotrain.build import fit
from egotrain.checkpoint import check_carried, find_checkpoint, load_checkpoint
from egotrain.compose import compose_evaluate, compose_fit
from egotrain.data import TrainStream
from egotrain.datasets import load_datasets
from egotrain.evaluate import evaluate
from egotrain.export import export
from egotrain.predict import locate, predict
from egotrain.runs import MetricsFile
from tests.unit.egotrain.conftest import QUICK
from tests.unit.egotrain.robots import store_of_bodies

ROBOTS = "{dataset: robots@v1, recipe: eva_ee20, weight: 0.5}"
MORE = "{dataset: more@v1, recipe: human_wrist6d}"
ALL = f"co_train=[{ROBOTS}, {MORE}]"
HEADS = ["seen", "robots@v1:seen", "more@v1:seen", "unseen_operator"]


@pytest.fixture(scope="module")
def bodies(tmp_path_factory):
    return store_of_bodies(tmp_path_factory.mktemp("bodies"))


def co(paths, *words, run):
    return compose_fit([f"store={paths.root}", "dataset=hands@v1", f"run={run}", *QUICK, "trainer.max_steps=10", *words])


@pytest.fixture(scope="module")
def done(bodies):
    said = []
    config = co(bodies, ALL, "evaluation.videos=1", run="done")
    return config, fit(config, say=said.append), said


def test_every_dataset_is_read_by_its_weight_scored_and_named(done, bodies):
    _, run, said = done
    assert list(run.result["heads"]) == HEADS
    assert all(np.isfinite(found["loss"]) for found in run.result["heads"].values())
    assert "grip.l1" in run.result["heads"]["robots@v1:seen"]["scores"]["policy"]
    assert set(run.result["heads"]["robots@v1:seen"]["scores"]) == {"policy", "hold_still", "mean_action", "nearest_neighbour"}
    text = "\n".join(said)
    assert "mixture: 39.8% hands@v1, 20.4% robots@v1, 39.8% more@v1 of the batches, each from one dataset" in text
    assert re.search(r"robots@v1:train: 3 episodes, \d+ frames; excluded: none", text)
    rows = [row for row in MetricsFile(run.path / "metrics.csv").rows() if (row.head, row.metric) == ("train", "loss")]
    own = {row.step: row for row in rows if row.who != "policy"}
    assert {row.who for row in own.values()} == {"hands@v1", "robots@v1", "more@v1"}
    assert {row.step: row.value for row in rows if row.who == "policy"} == {step: row.value for step, row in own.items()}
    noted = json.loads((run.path / "dataset.json").read_text())
    everything = [noted, *noted["co_train"]]
    manifests = [load_dataset(bodies, ref) for ref in ("hands@v1", "robots@v1", "more@v1")]
    assert [one["digest"] for one in everything] == [manifest.digest for manifest in manifests]
    assert [one["weight"] for one in everything] == [1.0, 0.5, 1.0]
    assert (run.path / "videos/step-00000010/robots@v1/seen").is_dir()
    card = (run.path / "card.md").read_text()
    assert all(manifest.digest[:16] in card for manifest in manifests)


def test_datasets_of_one_recipe_share_statistics_of_all_their_training_episodes(done, bodies):
    carried = load_checkpoint(find_checkpoint(done[1].path / "checkpoints"))
    hands, robots, more = carried.parts
    assert hands.stats.key == more.stats.key != robots.stats.key
    manifests = [load_dataset(bodies, ref) for ref in ("hands@v1", "more@v1")]
    whole = replace(manifests[0], name="whole", heads={"train": pooled_episodes(manifests)})
    recipe = load_recipe("human_wrist6d")
    assert norm_stats(bodies, whole, recipe=recipe).to_bytes() == hands.stats.to_bytes()
    assert pooled_stats(bodies, manifests[::-1], recipe=recipe, format="lance").to_bytes() == hands.stats.to_bytes()
    assert hands.stats.key != norm_stats(bodies, manifests[0], recipe=recipe).key


def test_the_policy_has_an_end_per_body_and_an_encoder_per_camera(done):
    dims = load_checkpoint(find_checkpoint(done[1].path / "checkpoints")).dims
    assert {body.name: (body.action_dim, body.proprio_dim, body.cameras) for body in dims.bodies} == {
        "human_bimanual": (18, 20, ("front_1",)),
        "eva_bimanual": (20, 20, ("front_1", "left_wrist", "right_wrist")),
    }
    assert (dims.action_dim, dims.cameras) == (20, ("front_1", "left_wrist", "right_wrist"))


@pytest.mark.parametrize("policy", ["hpt_tiny", "rdt_tiny"])
def test_both_formats_and_a_resumed_run_give_the_same(bodies, policy, monkeypatch):
    words = (ALL, f"policy={policy}", "trainer.checkpoint_every_steps=4")
    runs = [fit(co(bodies, *words, f"format={name}", run=f"{name}-{policy}")) for name in ("zarr", "lance")]
    whole = TrainStream.__iter__

    def broken(self):
        for step, batch in enumerate(whole(self), self.start_step):
            if step == 6:
                raise InterruptedError
            yield batch

    resumed = co(bodies, *words, "data.num_workers=1", "resume=true", run=f"broken-{policy}")
    with monkeypatch.context() as patch:
        patch.setattr(TrainStream, "__iter__", broken)
        with pytest.raises(InterruptedError):
            fit(replace(resumed, data=replace(resumed.data, num_workers=0)))
    runs.append(fit(resumed))
    ends = [torch.load(run.path / "checkpoints/last.ckpt", weights_only=True)["state_dict"] for run in runs]
    for run, end in zip(runs[1:], ends[1:], strict=True):
        assert run.result["heads"] == runs[0].result["heads"]
        assert run.result["train_loss_hex"] == runs[0].result["train_loss_hex"]
        assert all(torch.equal(tensor, ends[0][name]) for name, tensor in end.items())


def test_a_checkpoint_is_scored_predicts_and_is_exported_for_each_body(done, bodies, tmp_path):
    run = done[1]
    scores = evaluate(run.path, compose_evaluate(["format=lance", "videos=0"]))
    assert {head: found.to_json() for head, found in scores.items()} == run.result["heads"]
    only = evaluate(run.path, compose_evaluate(["heads=['robots@v1:seen']", "videos=0"]))
    assert {head: found.to_json() for head, found in only.items()} == {"robots@v1:seen": run.result["heads"]["robots@v1:seen"]}
    for episode, width in (("ep0", 18), ("arm0", 20)):
        found = predict(locate(run.path), episode, store=bodies.root, frames=[3])
        assert found.found.actions.shape == (1, 100, width)
        assert np.isfinite(found.found.actions).all()
    with pytest.raises(ConfigError, match="trained on several embodiments. Choose one: --embodiment human_bimanual or eva_bimanual"):
        export(locate(run.path), tmp_path / "none")
    with pytest.raises(ConfigError, match="not trained on embodiment 'eva'; known: eva_bimanual, human_bimanual"):
        export(locate(run.path), tmp_path / "none", embodiment="eva")
    out = export(locate(run.path), tmp_path / "robot", embodiment="eva_bimanual")
    about = json.loads((out / "policy.json").read_text())
    assert about["output"]["shape"] == [1, 100, 20]
    assert about["inputs"][:3] == ["images.front_1", "images.left_wrist", "images.right_wrist"]
    assert about["embodiment"] == "eva_bimanual" and [one["dataset"] for one in about["datasets"]] == ["robots@v1"]


def test_samples_of_equal_shape_may_mix_in_a_batch(bodies):
    said = []
    run = fit(co(bodies, f"co_train=[{MORE}]", "data.mixing=sample", "trainer.max_steps=2", run="mixed"), say=said.append)
    assert list(run.result["heads"]) == ["seen", "more@v1:seen", "unseen_operator"]
    assert "mixture: 50.2% hands@v1, 49.8% more@v1 of the samples, mixed in every batch" in said
    assert {row.who for row in MetricsFile(run.path / "metrics.csv").rows() if row.head == "train"} == {"policy"}
    with pytest.raises(RecipeError, match="robots@v1 has 20 action .* Mix them per batch"):
        fit(co(bodies, ALL, "data.mixing=sample", run="refused"))


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (["co_train=[{dataset: hands@v1, recipe: human_wrist6d}]"], GateError, "dataset hands@v1 comes twice; name it once"),
        (["co_train=[{dataset: more@v1, recipe: human_keypoints144}]"], ConfigError, "embodiment human_bimanual: recipe human_wrist6d for"),
        (["co_train=[{dataset: more@v1, recipe: human_wrist6d_2images}]"], ConfigError, "more@v1: image_history is"),
        (["co_train=[{dataset: robot@v1, recipe: eva_ee20}]"], NotFoundError, "did you mean robots@v1"),
        (["co_train=[{dataset: more@v1, recipe: eva_ee20}]"], RecipeError, "expected embodiment eva_bimanual, got human_bimanual"),
        (["co_train=[{dataset: robots@v1, recipe: eva_ee20, weight: 0.0001}]"], InputError, "has no batches of 4 of robots@v1. Raise its"),
        ([ALL, "evaluation.pins=['robot@v1:seen/arm1']"], ConfigError, "head robot@v1:seen is not scored; did you mean robots@v1:seen"),
        ([ALL, "evaluation.pins=['robots@v1:seen/arm9']", "evaluation.videos=1"], GateError, "arm9"),
    ],
)
def test_what_does_not_go_together_stops_before_it_starts(bodies, words, error, said):
    with pytest.raises(error, match=re.escape(said)):
        fit(co(bodies, *words, run="refused"))
    assert not (bodies.runs / "refused/checkpoints").exists()


@pytest.mark.parametrize("value", ["robots@v1", "null", "{dataset: more@v1}", "[{dataset: more@v1}"])
def test_a_list_of_datasets_is_written_as_one(bodies, value):
    with pytest.raises(ConfigError, match=r"expected a list, got .* Write it as 'co_train=\[\{dataset: NAME@V, recipe: RECIPE"):
        co(bodies, f"co_train={value}", run="refused")


@pytest.mark.parametrize("weight", ["0", "-1"])
def test_a_weight_is_a_positive_number(bodies, weight):
    with pytest.raises(ConfigError, match="expected a weight above 0"):
        co(bodies, f"co_train=[{{dataset: more@v1, recipe: human_wrist6d, weight: {weight}}}]", run="refused")


def test_what_one_dataset_holds_out_no_other_may_train_on(bodies):
    hands, more = load_dataset(bodies, "hands@v1"), load_dataset(bodies, "more@v1")
    check_together([hands, more])
    held_out = hands.heads["unseen_operator"][0]
    leaky = replace(more, heads={"train": (*more.heads["train"], replace(held_out, episode_id="copy"))})
    with pytest.raises(
        GateError, match=r"1 episodes that hands@v1 holds out are in the training head of more@v1, by episode, recording or media digest"
    ):
        check_together([hands, leaky])
    other = replace(held_out, episode_id="new", media="0" * 64, recording_id="new")
    leaky = replace(more, heads={"train": (*more.heads["train"], other)})
    with pytest.raises(GateError, match=r"operators that hands@v1 holds out are in the training head of more@v1: mecka/op2"):
        check_together([hands, leaky])
    grouped = replace(hands, rule={**hands.rule, "group_by": "session"}, held_out_operators=())
    other = replace(other, session=held_out.session)
    with pytest.raises(GateError, match="by episode, recording, media digest or session: "):
        check_together([grouped, replace(more, heads={"train": (*more.heads["train"], other)})])


def test_other_datasets_make_it_another_run(done, bodies):
    config = done[0]
    assert fit(config).already_done
    with pytest.raises(ConfigError, match="exists with another config: co_train is"):
        fit(replace(config, co_train=config.co_train[:1]))
    carried = load_checkpoint(find_checkpoint(done[1].path / "checkpoints"))
    datasets = load_datasets(bodies, config)
    check_carried(carried, datasets)
    with pytest.raises(ConfigError, match="trained on 3 datasets, got 2"):
        check_carried(carried, datasets[:2])
    changed = (replace(datasets[0], recipe=replace(datasets[0].recipe, default_prompt="x")), *datasets[1:])
    with pytest.raises(ConfigError, match="recipe human_wrist6d has other values than when it was trained"):
        check_carried(carried, changed)
    foreign = replace(carried.parts[1], stats=carried.parts[0].stats)
    with pytest.raises(ConfigError, match="its statistics are of another training head than robots@v1's. Train again"):
        check_carried(replace(carried, parts=(carried.parts[0], foreign, carried.parts[2])), datasets)


def test_a_lease_is_held_on_every_dataset(bodies, monkeypatch):
    held = []
    monkeypatch.setattr(
        "egotrain.training.rows_of", lambda scores: held.extend({kept.by.split()[-1] for kept in held_leases(bodies)}) or []
    )
    fit(co(bodies, ALL, "trainer.max_steps=1", run="leased"))
    assert sorted(held) == ["hands@v1", "more@v1", "robots@v1"]
    assert held_leases(bodies) == []


def frozen_as(paths, manifest):
    path = paths.manifest(manifest.name, "v1")
    path.parent.mkdir(parents=True)
    path.write_bytes(manifest_bytes(replace(manifest, digest=manifest_digest(manifest))))


def test_a_head_elsewhere_is_read_as_the_dataset_of_its_body(done, bodies):
    frozen_as(bodies, replace(load_dataset(bodies, "robots@v1"), name="arms", provenance={}))
    found = evaluate(done[1].path, compose_evaluate(["heads=['arms@v1:seen', 'robots@v1:seen']", "videos=0"]))
    other, own = (found[head].to_json() for head in ("arms@v1:seen", "robots@v1:seen"))
    assert other == own


def test_heads_elsewhere_that_were_trained_on_are_said(bodies):
    found = load_dataset(bodies, "more@v1")
    heads = {"train": found.heads["seen"], "seen": found.heads["train"]}
    frozen_as(bodies, replace(found, name="swapped", heads=heads, pins={}))
    said = []
    words = (f"co_train=[{MORE}]", "evaluation.heads=[seen, 'swapped@v1:seen']", "trainer.max_steps=1")
    fit(co(bodies, *words, run="elsewhere"), say=said.append)
    assert any(re.match(r"swapped@v1:seen: 3 of its 3 episodes are trained on, such as more\d", line) for line in said)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_ranks_train_on_bodies_whose_parts_are_not_in_every_batch(bodies):
    runs = [fit(co(bodies, ALL, "trainer.devices=2", "data.batch_size=2", run=f"ranks{k}")) for k in range(2)]
    assert runs[0].result["heads"] == runs[1].result["heads"]
    alone = fit(co(bodies, ALL, run="one-rank"))
    assert list(alone.result["heads"]) == list(runs[0].result["heads"])


def test_a_checkpoint_keeps_its_own_recipe_and_manifest_whatever_became_of_the_files(bodies, tmp_path):
    recipe, manifest = tmp_path / "mine.yaml", tmp_path / "manifest.json"
    recipe.write_text((config_root() / "recipes/human_wrist6d.yaml").read_text().replace("human_wrist6d", "mine"))
    manifest.write_bytes(bodies.manifest("hands", "v1").read_bytes())
    config = co(bodies, f"recipe={recipe}", "trainer.checkpoint_every_steps=4", run="own-files")
    run = fit(replace(config, dataset=str(manifest)))
    recipe.unlink()
    manifest.unlink()
    scores = evaluate(run.path, compose_evaluate([]))
    assert {head: found.to_json() for head, found in scores.items()} == run.result["heads"]
