"""A run on two datasets through Dagster: every dataset passes its gate, and lineage names all of them, both ways."""

import json
from pathlib import Path

import pytest

from egodata.catalog import load_dataset
from egodata.errors import GateError
from egodata.parity import check_parity
from egodata.parity.table import append_report
from egodata.sampling import load_recipe
from pipelines.assets.training import TRAINING_RUN
from pipelines.instance import open_instance
from pipelines.launch import Launcher, RunFailedError
from pipelines.lineage import lineage, of_checkpoint, of_episode
from pipelines.resources import STORE_VARIABLE
from tests.unit.egotrain.conftest import QUICK
from tests.unit.egotrain.robots import store_of_bodies

DATASETS = (("hands@v1", "human_wrist6d"), ("robots@v1", "eva_ee20"))


@pytest.mark.timeout(300)
def test_every_dataset_of_a_run_is_gated_and_traced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = store_of_bodies(tmp_path)
    monkeypatch.setenv(STORE_VARIABLE, str(paths.root))
    manifests = [load_dataset(paths, ref) for ref, _ in DATASETS]
    robots = {"dataset": "robots@v1", "recipe": "eva_ee20", "weight": 0.5}
    config = {"run": "both", "experiment": "synthetic", "dataset": "hands@v1", "recipe": "human_wrist6d", "co_train": [robots]}
    brief = {**config, "overrides": [*QUICK, "trainer.max_steps=6"]}
    with open_instance(paths) as instance:
        launcher = Launcher(instance)
        for (_, recipe), manifest in zip(DATASETS, manifests, strict=True):
            with pytest.raises(GateError, match=f"loader parity under recipe {recipe} was never checked.*training was not started"):
                launcher.asset(TRAINING_RUN, config=brief)
            append_report(paths, check_parity(paths, dataset=manifest, recipe=load_recipe(recipe), samples=4))
        with pytest.raises(
            (GateError, RunFailedError), match=r"overrides: co_train=\[\] belongs into the config's own co_train, so that it is gated"
        ):
            launcher.asset(TRAINING_RUN, config={**config, "overrides": ["co_train=[]"]})
        launcher.asset(TRAINING_RUN, config=brief)
        event = instance.get_latest_materialization_event(TRAINING_RUN)
    assert event is not None and event.asset_materialization is not None
    metadata = event.asset_materialization.metadata
    assert [one["digest"] for one in metadata["co_train"].value] == [manifests[1].digest]
    assert metadata["robots@v1:seen_loss"].value > 0

    found = of_checkpoint(paths, paths.runs / "both")
    assert found["problems"] == []
    assert [one["dataset"]["digest"] for one in (found, *found["co_train"])] == [manifest.digest for manifest in manifests]
    wanted = {(manifest.ref, e.episode_id) for manifest in manifests for head in manifest.heads.values() for e in head}
    assert {(one["dataset"], one["episode_id"]) for one in found["episodes"]} == wanted
    assert found["co_train"][0]["parity"]["loader"]["eva_ee20"]["passed"]
    assert lineage(paths.runs / "both", episode=None, store=paths.root, as_json=False) == 0
    told = capsys.readouterr().out
    assert all(manifest.digest in told for manifest in manifests)
    (use,) = of_episode(paths, "arm0")["runs"]
    assert (use["run"], use["dataset"]) == ("both", "robots@v1")
    assert json.loads((paths.runs / "both/result.json").read_text())["co_train"][0]["weight"] == 0.5
