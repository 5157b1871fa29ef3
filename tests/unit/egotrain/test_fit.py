import csv
import json
import os
import re
import shutil
import signal
from dataclasses import replace

import pytest
import torch
import yaml

from egodata.errors import ConfigError, ConflictError, GateError, InputError, NotFoundError, RecipeError, SchemaError
from egodata.schema.layout import open_root
from egotrain.build import fit
from egotrain.checkpoint import find_checkpoint, load_checkpoint
from egotrain.compose import compose_evaluate
from egotrain.data import TrainStream
from egotrain.evaluate import evaluate
from egotrain.runs import check_same

CURVE = ("loss", "learning_rate")


def rows(path, *metrics):
    with (path / "metrics.csv").open() as file:
        return [row for row in csv.DictReader(file) if not metrics or row["metric"] in metrics]


def test_a_run_leaves_what_it_was_and_what_came_out(done, small_store):
    wanted, run, said = done
    names = {path.name for path in run.path.iterdir()}
    assert names >= {"config.yaml", "dataset.json", "stats.json", "environment.json", "metrics.csv", "checkpoints", "result.json"}
    assert run.path == small_store.runs / wanted.run
    dataset = json.loads((run.path / "dataset.json").read_text())
    manifest = json.loads(small_store.manifest("small", "v1").read_text())
    assert dataset["digest"] == manifest["digest"] == run.result["dataset_digest"]
    assert yaml.safe_load((run.path / "config.yaml").read_text())["policy"]["width"] == wanted.policy.width
    assert json.loads((run.path / "environment.json").read_text())["threads"] == 1
    assert run.result["steps"] == 4
    assert float.fromhex(run.result["train_loss_hex"]) == run.result["train_loss"] == run.train_loss
    assert set(run.validation_loss) == {"seen", "unseen_operator"}
    assert set(run.result["heads"]["seen"]["scores"]) == {"policy", "hold_still", "mean_action", "nearest_neighbour"}
    assert [row["step"] for row in rows(run.path, "loss") if row["head"] == "train"] == ["1", "2", "3", "4"]
    assert float(rows(run.path, "loss")[3]["value"]) == run.train_loss
    text = "\n".join(said)
    assert re.search(r"prompts: \d+\.\d% of the training frames have none", text)
    assert re.search(r"train: 3 episodes, \d+ frames; excluded: none", text)
    invalid = 30 / dataset["heads"]["train"]["frames"]  # 10 frames of each episode's left hand
    assert f"arms: in the training frames, left is invalid in {invalid:.1%}, right is invalid in 0.0%" in text


def test_a_checkpoint_is_plain_and_its_link_relative(done):
    config, run, _ = done
    folder = run.path / "checkpoints"
    assert os.readlink(folder / "last.ckpt") == "step-00000004.ckpt"
    assert sorted(path.name for path in folder.iterdir()) == ["last.ckpt", "step-00000002.ckpt", "step-00000004.ckpt"]
    found = torch.load(folder / "last.ckpt", weights_only=True)
    assert found["egotrain"]["schema"] == 3
    carried = load_checkpoint(find_checkpoint(folder))
    assert carried.step == 4
    assert carried.config == config
    assert carried.first.dataset["digest"] == run.result["dataset_digest"]
    assert carried.first.stats.key == run.result["stats_key"]
    assert carried.first.recipe.name == "human_wrist6d"


def test_both_formats_give_the_same_losses_and_another_seed_others(done, config):
    zarr, lance, seeded = done[1], fit(config("format=lance")), fit(config("seed=1", run="seeded"))
    assert rows(zarr.path, *CURVE) == rows(lance.path, *CURVE)
    assert zarr.result["heads"] == lance.result["heads"]
    assert zarr.result["train_loss_hex"] == lance.result["train_loss_hex"] != seeded.result["train_loss_hex"]
    same_weights(zarr, lance, step=4)


def same_weights(run, other, step):
    ends = [torch.load(found.path / "checkpoints/last.ckpt", weights_only=True) for found in (run, other)]
    assert ends[0]["global_step"] == ends[1]["global_step"] == step
    assert ends[0]["state_dict"].keys() == ends[1]["state_dict"].keys()
    for name, tensor in ends[0]["state_dict"].items():
        assert torch.equal(tensor, ends[1]["state_dict"][name]), name


class Stopped(Exception):
    """Stands for a process that dies."""


def stop_at(monkeypatch, step):
    whole = TrainStream.__iter__

    def broken(self):
        for k, batch in enumerate(whole(self), self.start_step):
            if k == step:
                raise Stopped
            yield batch

    monkeypatch.setattr(TrainStream, "__iter__", broken)


def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(config, monkeypatch):
    words = ("trainer.max_steps=10", "trainer.checkpoint_every_steps=5", "trainer.evaluate_every_steps=4", "data.batch_size=8")
    unbroken = fit(config(*words, run="unbroken"))
    with monkeypatch.context() as patch:
        stop_at(patch, 7)  # two steps after the checkpoint of step 5
        with pytest.raises(Stopped):
            fit(config(*words, run="broken"))
    with pytest.raises(ConflictError, match=r"run broken: exists and is not finished. Add resume=true"):
        fit(config(*words, run="broken"))
    torch.manual_seed(123)  # whatever the global generators hold
    said = []
    resumed = fit(config(*words, "resume=true", run="broken"), say=said.append)
    assert "going on from step 5 of 10" in said[0]
    assert rows(unbroken.path, *CURVE) == rows(resumed.path, *CURVE)
    assert unbroken.result["heads"] == resumed.result["heads"]
    same_weights(unbroken, resumed, step=10)


def test_a_run_that_stopped_while_it_was_scored_needs_no_more_steps(done, config, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("egotrain.training.rows_of", lambda scores: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            fit(config())
    again = fit(config("resume=true"))
    for key in ("steps", "train_loss_hex", "heads"):
        assert again.result[key] == done[1].result[key]


def test_a_loss_that_is_not_a_number_stops_the_run(config):
    with pytest.raises(ConfigError, match=r"step \d: the loss is (nan|inf). Lower optim.learning_rate"):
        fit(config("optim.learning_rate=1e30", "optim.warmup_steps=0", "optim.clip_norm=0"))


@pytest.mark.parametrize(("name", "text"), [("config.yaml", "["), ("config.yaml", "- 1"), ("dataset.json", "{"), ("dataset.json", None)])
def test_a_run_that_cannot_be_read_is_not_taken_for_ones_own(done, tmp_path, name, text):
    config, run, _ = done
    folder = tmp_path / "broken"
    shutil.copytree(run.path, folder)
    (folder / name).unlink() if text is None else (folder / name).write_text(text)
    with pytest.raises(InputError, match=r"run broken: its config.yaml or dataset.json cannot be read .*choose another run name"):
        check_same(folder, config, datasets=())


def test_a_finished_run_is_reported_and_nothing_is_done(done):
    config, run, _ = done
    before = {path: path.stat().st_mtime_ns for path in run.path.rglob("*")}
    said = []
    again = fit(config, say=said.append)
    assert again.already_done
    assert again.result == run.result
    assert "already done, 4 steps on small@v1" in said[0]
    assert {path: path.stat().st_mtime_ns for path in run.path.rglob("*")} == before
    with pytest.raises(ConfigError, match=r"exists with another config: seed is 0 there and 5 here. Choose another run name"):
        fit(replace(config, seed=5, resume=True))


def test_a_link_that_leads_nowhere_is_repaired_and_said(config, monkeypatch):
    with monkeypatch.context() as patch:
        stop_at(patch, 3)
        with pytest.raises(Stopped):
            fit(config())
    folder = open_root(config().store).runs / config().run / "checkpoints"
    (folder / "last.ckpt").unlink()
    (folder / "last.ckpt").symlink_to("step-00000099.ckpt")
    with pytest.raises(NotFoundError, match=r"the link leads nowhere; the newest is step-00000002.ckpt"):
        find_checkpoint(folder)
    said = []
    assert fit(config("resume=true"), say=said.append).result["steps"] == 4
    assert "taking the newest complete checkpoint, step-00000002.ckpt" in said[0]


def test_evaluations_equal_the_run_on_both_formats(done):
    run = done[1]
    scores = [evaluate(run.path, compose_evaluate(words)) for words in ([], ["format=lance"])]
    wanted = run.result["heads"]
    for found in scores:
        assert {head: score.to_json() for head, score in found.items()} == wanted
    shuffled = evaluate(run.path, compose_evaluate(["shuffle_images=true", "heads=[train]"]))
    assert list(shuffled) == ["train"]
    with pytest.raises(NotFoundError, match=r"did you mean step-00000004.ckpt"):
        evaluate(run.path, compose_evaluate(["checkpoint=step-0000004.ckpt"]))
    with pytest.raises(NotFoundError, match=r"no config.yaml there; did you mean"):
        evaluate(run.path.with_name(run.path.name[:-1]), compose_evaluate([]))


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"dataset": "small"}, SchemaError, "small"),
        ({"dataset": "small@latest"}, SchemaError, "latest"),
        ({"dataset": "smal@v1"}, NotFoundError, "not frozen in this store; did you mean small@v1"),
        ({"recipe": "joints"}, RecipeError, "expected embodiment joint_robot, got human_bimanual"),
        ({"recipe": "human_wrist6"}, NotFoundError, "did you mean human_wrist6d"),
        ({"run": "a/b"}, SchemaError, "run name 'a/b'"),
        ({"store": "nowhere"}, NotFoundError, "no store.json there"),
    ],
)
def test_what_cannot_be_trained_stops_before_it_starts(config, change, error, said):
    with pytest.raises(error, match=re.escape(said)):
        fit(replace(config(), **change))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["policy.steps_per_token=101"], "steps_per_token 101 exceeds the 100 action steps"),
        (["policy.images.conv_widths=[8,8,8,8]"], "4 conv stages halve images of 24 pixels to less than 2"),
        (["data.batch_size=4000"], "make no batch of 4000"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(config, words, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        fit(config(*words))


def test_a_changed_manifest_is_refused(config, small_store, tmp_path):
    value = json.loads(small_store.manifest("small", "v1").read_text())
    value["identity"]["heads"]["train"]["ids"].reverse()
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(value))
    with pytest.raises(GateError, match="changed since it was frozen"):
        fit(replace(config(), dataset=str(path)))


def test_a_checkpoint_that_does_not_belong_or_is_damaged_is_refused(done):
    folder = done[1].path.with_name("copy")
    shutil.copytree(done[1].path, folder, symlinks=True)
    path = find_checkpoint(folder / "checkpoints")
    found = torch.load(path, weights_only=True)
    found["egotrain"]["dataset"]["digest"] = "0" * 64
    torch.save(found, path)
    with pytest.raises(ConfigError, match=r"trained on small@v1 \(0000000000000000\), got small@v1"):
        evaluate(folder, compose_evaluate([]))
    found["egotrain"]["dataset"]["digest"] = done[1].result["dataset_digest"]
    found["state_dict"]["policy.gone"] = found["state_dict"].pop("policy.trunk_norm.bias")
    torch.save(found, path)
    with pytest.raises(ConfigError, match=r"another policy: trunk_norm.bias is not in it; gone is not in the policy. Train again"):
        evaluate(folder, compose_evaluate([]))
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(ValueError, match="cannot be read"):
        evaluate(folder, compose_evaluate([]))


def test_ctrl_c_is_not_swallowed_and_the_signal_stays_usable(config, monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt
        yield

    handler = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        patch.setattr(TrainStream, "__iter__", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fit(config())
    assert signal.getsignal(signal.SIGINT) is handler
    assert fit(config("resume=true")).result["steps"] == 4, "stopped before the first checkpoint: starts from the beginning"


@pytest.mark.slow
def test_reading_in_another_process_changes_no_bit(done, config):
    worker = fit(config("format=lance", "data.num_workers=1"))
    assert rows(worker.path, *CURVE) == rows(done[1].path, *CURVE)
    assert worker.result["heads"] == done[1].result["heads"]


def test_an_attempt_that_failed_before_its_first_checkpoint_claims_no_name(config):
    config = config()
    folder = open_root(config.store).runs / config.run
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text("seed: 3\n")
    (folder / "metrics.csv").write_text("half a line")
    said = []
    assert fit(config, say=said.append).result["steps"] > 0
    assert any("an earlier attempt stopped before its first checkpoint; begun anew" in line for line in said)
    assert "half a line" not in (folder / "metrics.csv").read_text()
