"""Co-training where it touches what was there before: older runs, names of heads, pins, manifests by path, comparisons."""

import json
import shutil

import numpy as np
import pytest

from egodata.catalog import load_dataset
from egodata.config import config_root
from egodata.errors import NotFoundError
from egodata.sampling import HeadSource, Mixture, MixturePart, Share, load_recipe
from egodata.torch import Loading, make_loader
from egotrain.build import fit
from egotrain.card import write_card
from egotrain.compare import compare
from egotrain.compose import compose_evaluate, compose_fit
from egotrain.evaluate import evaluate, opened
from egotrain.export import export
from egotrain.predict import locate, predict
from tests.unit.egotrain.conftest import QUICK
from tests.unit.egotrain.robots import store_of_bodies

ROBOTS = "{dataset: robots@v1, recipe: eva_ee20, weight: 0.5}"
MORE = "{dataset: more@v1, recipe: human_wrist6d}"


@pytest.fixture(scope="module")
def bodies(tmp_path_factory):
    return store_of_bodies(tmp_path_factory.mktemp("bodies"))


def co(paths, *words, run):
    first = () if any(word.startswith("dataset=") for word in words) else ("dataset=hands@v1",)
    return compose_fit([f"store={paths.root}", *first, f"run={run}", *QUICK, "trainer.max_steps=2", *words])


@pytest.fixture(scope="module")
def both(bodies):
    pins = f"evaluation.pins=['robots@v1:seen/{load_dataset(bodies, 'robots@v1').heads['seen'][0].episode_id}']"
    said = []
    return fit(co(bodies, f"co_train=[{ROBOTS}]", "evaluation.videos=1", pins, run="both"), say=said.append), said


def test_a_card_is_written_for_a_run_begun_before_there_was_co_training(bodies, tmp_path):
    run = fit(co(bodies, run="older"))
    folder = shutil.copytree(run.path, tmp_path / "older")
    noted = json.loads((folder / "dataset.json").read_text())
    for name in ("co_train", "recipe", "weight"):
        del noted[name]
    (folder / "dataset.json").write_text(json.dumps(noted))
    assert write_card(folder, run.result).read_text() == (run.path / "card.md").read_text()


def test_datasets_of_one_body_need_no_embodiment_for_an_export(bodies, tmp_path):
    run = fit(co(bodies, f"co_train=[{MORE}]", run="one-body"))
    about = json.loads((export(locate(run.path), tmp_path / "out") / "policy.json").read_text())
    assert about["embodiment"] == "human_bimanual"


def test_a_body_whose_recipe_orders_cameras_otherwise_can_be_predicted_alone(bodies, tmp_path):
    recipe = tmp_path / "turned.yaml"
    text = (config_root() / "recipes/eva_ee20.yaml").read_text()
    recipe.write_text(text.replace("[front_1, left_wrist, right_wrist]", "[left_wrist, right_wrist, front_1]"))
    run = fit(co(bodies, f"co_train=[{{dataset: robots@v1, recipe: '{recipe}'}}]", "evaluation.baselines=false", run="turned"))
    assert np.isfinite(predict(locate(run.path), "arm0", store=bodies.root, frames=[3]).found.actions).all()
    assert list(evaluate(run.path, compose_evaluate(["heads=['robots@v1:seen']"]))) == ["robots@v1:seen"]


def test_a_dataset_given_by_the_path_of_its_manifest_need_not_be_in_the_store(bodies, tmp_path):
    frozen = bodies.manifest("more", "v1")
    manifest, away = tmp_path / "mine.json", tmp_path / "away"
    shutil.copy(frozen, manifest)
    frozen.parent.parent.rename(away)
    try:
        run = fit(co(bodies, f"dataset={manifest}", run="by-path"))
        scores = evaluate(run.path, compose_evaluate([]))
        assert {head: found.to_json() for head, found in scores.items()} == run.result["heads"]
    finally:
        away.rename(frozen.parent.parent)


def test_heads_that_a_dataset_lacks_are_named_however_they_were_asked_for(bodies, both):
    said = []
    words = ("evaluation.heads=['hands@v1:seen', seen, 'robots@v1:unseen_operator', 'more@v1:unseen_operator']", f"co_train=[{ROBOTS}]")
    run = fit(co(bodies, *words, run="lacking"), say=said.append)
    assert list(run.result["heads"]) == ["hands@v1:seen", "seen", "robots@v1:seen"]
    assert "evaluation: there is no head more@v1:unseen_operator, robots@v1:unseen_operator; left out" in said
    said.clear()
    evaluate(both[0].path, compose_evaluate(["heads=[unseen_operator,'hands@v1:train']", "videos=0"]), say=said.append)
    assert "evaluation: there is no head robots@v1:unseen_operator; left out" in said
    with pytest.raises(
        NotFoundError, match="none of the heads robots@v1:unseen_operator; dataset hands@v1 has .*; robots@v1 has train, seen"
    ):
        evaluate(both[0].path, compose_evaluate(["heads=['robots@v1:unseen_operator']"]))


def test_pins_of_every_dataset_stay_when_a_bare_head_is_asked_for(bodies, both):
    pinned = load_dataset(bodies, "robots@v1").heads["seen"][0].episode_id
    for heads, kept in (("heads=[seen]", {"seen", "robots@v1:seen"}), ("heads=['robots@v1:seen']", {"robots@v1:seen"})):
        with opened(both[0].path, compose_evaluate([heads])) as found:
            assert set(found.pins) == kept
            assert found.pins["robots@v1:seen"] == (pinned,)
            assert found.config.evaluation.pins == (f"robots@v1:seen/{pinned}",)
    with opened(both[0].path, compose_evaluate(["heads=[train]"])) as found:
        assert found.config.evaluation.pins == ()


def test_runs_named_for_different_datasets_are_compared_head_by_head(bodies, both):
    alone = fit(co(bodies, "dataset=robots@v1", "recipe=eva_ee20", run="alone"))
    rows = {(head, metric): values for head, metric, values in compare([alone.path, both[0].path]).rows}
    assert rows["robots@v1:seen", "loss"] == (alone.result["heads"]["seen"]["loss"], both[0].result["heads"]["robots@v1:seen"]["loss"])
    assert rows["hands@v1:seen", "loss"] == (None, both[0].result["heads"]["seen"]["loss"])


def test_shares_are_those_of_whole_batches(bodies):
    said = []
    words = (f"co_train=[{ROBOTS.replace('0.5', '0.3')}]", "data.batch_size=64")
    fit(co(bodies, *words, run="coarse"), say=said.append)  # 4 batches: 3.08 and 0.92 by weight
    assert "mixture: 75.0% hands@v1, 25.0% robots@v1 of the batches, each from one dataset" in said


def test_the_datasets_of_a_batch_are_those_of_all_ranks(bodies):
    manifests = [load_dataset(bodies, ref) for ref in ("hands@v1", "more@v1")]
    sources = [HeadSource.open(bodies, one, head="train", recipe=load_recipe("human_wrist6d"), format="zarr") for one in manifests]
    mixture = Mixture(tuple(MixturePart(one.ref, source) for one, source in zip(manifests, sources, strict=True)))
    ranks = [make_loader(mixture, batch_size=1, loading=Loading(share=Share(rank, 2))) for rank in range(2)]
    alone = make_loader(mixture, batch_size=2)
    found = [[loader.parts_of(number) for number in range(20)] for loader in (*ranks, alone)]
    assert found[0] == found[1] == found[2]
    assert {len(parts) for parts in found[0]} == {1, 2}
    for source in sources:
        source.close()
