"""The command line that a training run is launched with."""

import dagster as dg
import pytest

from egodata.schema.layout import StorePaths
from pipelines.assets.training import CoTraining, TrainingConfig


def test_an_experiment_with_further_datasets_is_not_run_on_the_first_alone(tmp_path):
    paths = StorePaths(tmp_path)
    config = TrainingConfig(run="r", experiment="people_and_robots", dataset="hands@v1", recipe="human_wrist6d")
    with pytest.raises(dg.Failure, match=r"experiment people_and_robots also trains on robots@v1. Name what is meant in the config's own"):
        config.command(paths)
    named = config.model_copy(update={"co_train": [CoTraining(dataset="robots@v2", recipe="eva_ee20", weight=0.5)]})
    assert "co_train=[{dataset: 'robots@v2', recipe: 'eva_ee20', weight: 0.5}]" in named.command(paths)
    assert "co_train=[]" in config.model_copy(update={"experiment": "synthetic"}).command(paths)
