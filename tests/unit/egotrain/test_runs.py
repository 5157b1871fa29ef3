import csv
import json
import shutil
import subprocess
from dataclasses import asdict, replace

import pytest
import torch
import yaml

from egodata.errors import ConfigError, InputError, NotFoundError
from egodata.schema.layout import open_root
from egotrain.build import fit
from egotrain.checkpoint import find_checkpoint, load_checkpoint
from egotrain.compose import compose_evaluate
from egotrain.conf import plain
from egotrain.datasets import load_datasets
from egotrain.evaluate import evaluate
from egotrain.numerics import code_changes, environment
from egotrain.report import operator_rows, run_report
from egotrain.runs import check_same


@pytest.fixture
def checkpoint(done, tmp_path):
    """A copy of a checkpoint, and a way to change what it carries."""
    path = tmp_path / "step-00000004.ckpt"
    shutil.copy(find_checkpoint(done[1].path / "checkpoints"), path)

    def change(how):
        found = torch.load(path, weights_only=True)
        how(found["egotrain"])
        torch.save(found, path)
        return path

    return change


def older(values):
    values["schema"] = 1
    del values["revision"]
    for name in ("devices", "keep_checkpoints", "wandb_project", "precision", "ddp_bf16", "compile"):
        del values["config"]["trainer"][name]
    for name in ("neighbour_samples", "videos", "pins"):
        del values["config"]["evaluation"][name]


def test_a_checkpoint_of_the_first_schema_loads(checkpoint, done):
    found = load_checkpoint(checkpoint(older))
    assert found.config.trainer.devices == 1
    assert found.config.policy == done[0].policy
    assert found.revision == ""
    current = load_checkpoint(find_checkpoint(done[1].path / "checkpoints"))
    assert found.weights.keys() == current.weights.keys()


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (lambda values: values.update(schema=99), "schema 99, this egotrain reads up to 3"),
        (
            lambda values: values["config"]["policy"].update(gone=1),
            r"schema 3, written by revision \w{12}, says what this egotrain no longer",
        ),
        (lambda values: (older(values), values["config"].pop("optim")), "schema 1, written by an older revision, says what"),
        (lambda values: values["dims"].pop("arms"), "says what this egotrain no longer knows"),
    ],
)
def test_a_checkpoint_that_cannot_be_read_says_why_not(checkpoint, how, said):
    if "12" in said and environment()["git"] is None:
        pytest.skip("not in a git checkout")
    with pytest.raises(InputError, match=said):
        load_checkpoint(checkpoint(how))


def test_a_run_of_before_new_keys_is_the_same_run(done, tmp_path):
    config, run, _ = done
    folder = tmp_path / "done"
    shutil.copytree(run.path, folder, symlinks=True)
    values = plain(asdict(config))
    values["trainer"].pop("devices")
    values.pop("co_train")
    values["data"].pop("mixing")
    (folder / "config.yaml").write_text(yaml.safe_dump(values))
    same = load_datasets(open_root(config.store), config)
    check_same(folder, config, datasets=same)
    with pytest.raises(ConfigError, match=r"trainer.devices is None there and 2 here"):
        check_same(folder, replace(config, trainer=replace(config.trainer, devices=2)), datasets=same)


def test_metrics_are_in_tensorboard_too(done):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(done[1].path / "tensorboard"))
    board.Reload()
    assert {"train/policy/loss", "seen/policy/head.xyz_mse_m2", "unseen_operator/nearest_neighbour/head.dtw_m"} <= set(
        board.Tags()["scalars"]
    )
    assert board.Scalars("train/policy/loss")[-1].step == 4
    assert board.Scalars("train/policy/loss")[-1].value == pytest.approx(done[1].train_loss, rel=1e-6)


def test_wandb_is_an_extra_and_says_so(config, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match=r"trainer.wandb_project 'lab': wandb is not installed. pip install 'egodata\[wandb\]'"):
        fit(config("trainer.wandb_project=lab"))


def test_only_the_newest_checkpoints_are_kept_where_asked(config):
    done = fit(config("trainer.checkpoint_every_steps=1", "trainer.keep_checkpoints=2"))
    kept = sorted(path.name for path in (done.path / "checkpoints").iterdir())
    assert kept == ["last.ckpt", "step-00000003.ckpt", "step-00000004.ckpt"]


def test_scores_are_kept_per_operator_and_add_up(done):
    heads = done[1].result["heads"]
    for scores in heads.values():
        assert sum(found["frames"] for found in scores["operators"].values()) == scores["frames"]
    assert list(heads["unseen_operator"]["operators"]) == ["mecka/op2"]
    only = heads["unseen_operator"]
    assert only["operators"]["mecka/op2"]["scores"] == only["scores"]
    with (done[1].path / "metrics.csv").open() as file:
        assert "unseen_operator/mecka/op2" in {row["head"] for row in csv.DictReader(file)}
    columns, rows = operator_rows(heads)
    assert columns[:3] == ["head / operator", "metric", "policy"]
    assert rows[-1][0].startswith("unseen_operator / mecka/op2")


def test_a_head_of_another_dataset_is_scored_like_ones_own(done):
    run = done[1].path
    own = evaluate(run, compose_evaluate(["heads=[seen]"]))["seen"]
    other = evaluate(run, compose_evaluate(["heads=['small@v1:seen']"]))["small@v1:seen"]
    assert other.scores == own.scores
    assert other.loss == own.loss
    with pytest.raises(NotFoundError, match="did you mean small@v1"):
        evaluate(run, compose_evaluate(["heads=['smal@v1:seen']"]))
    with pytest.raises(ConfigError, match=r"evaluation.heads 'sen': expected .* did you mean seen"):
        evaluate(run, compose_evaluate(["heads=[sen]"]))


def test_a_run_tells_what_it_was_made_from_and_what_came_out(done):
    told = run_report(done[1])
    assert told["dataset"] == "small@v1"
    assert told["checkpoint"].endswith("done/checkpoints/step-00000004.ckpt")
    assert told["seen/head.xyz_mse_m2"] == done[1].result["heads"]["seen"]["scores"]["policy"]["head.xyz_mse_m2"]
    json.dumps(told, allow_nan=False)


def test_code_changes_are_a_patch_of_this_checkout():
    try:
        root = subprocess.run(["git", "rev-parse", "--show-toplevel"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        pytest.skip("not in a git checkout")
    wanted = subprocess.run(["git", "-C", f"{root}/egotrain", "diff", "HEAD"], capture_output=True, text=True, check=True).stdout
    assert code_changes() == wanted.rstrip("\n")
