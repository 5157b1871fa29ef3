"""One step of training: parts of a batch, clipping, the watch on gradients, averaged weights, groups and schedule."""

import csv
import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from egodata.errors import ConfigError
from egotrain.accumulate import micro_batches
from egotrain.build import fit
from egotrain.checkpoint import find_checkpoint, load_checkpoint
from egotrain.compose import compose_evaluate
from egotrain.data import TrainStream
from egotrain.ema import Ema
from egotrain.evaluate import evaluate
from egotrain.gradients import FEWEST, GradientReport, GradientWatch
from egotrain.optim import clip_gradients, learning_rate_share, make_optimizer, parameter_groups
from egotrain.policies.registry import build_policy
from egotrain.runs import MetricsFile
from tests.unit.egotrain.policy_help import HUMAN, config_of

CONFIG = config_of("policy=hpt_tiny")


def rows(run, *metrics):
    with (run.path / "metrics.csv").open() as file:
        return [row for row in csv.DictReader(file) if row["metric"] in metrics]


def test_norms_and_biases_do_not_decay():
    policy = build_policy(CONFIG.policy, HUMAN)
    decayed, kept = parameter_groups(policy, weight_decay=0.1)
    assert decayed["weight_decay"] == 0.1
    assert kept["weight_decay"] == 0.0
    names = {id(parameter): name for name, parameter in policy.named_parameters()}
    assert len(decayed["params"]) + len(kept["params"]) == len(names)
    assert all("norm" not in names[id(p)] and not names[id(p)].endswith("bias") for p in decayed["params"])


def test_the_learning_rate_rises_and_falls():
    config = replace(CONFIG.optim, warmup_steps=4, schedule="cosine", final_share=0.1)
    shares = [learning_rate_share(step, config=config, max_steps=10) for step in range(11)]
    assert shares[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert shares[10] == pytest.approx(0.1)
    assert all(a >= b for a, b in pairwise(shares[4:]))
    assert learning_rate_share(500, config=replace(config, schedule="constant"), max_steps=10) == 1.0
    optimizer, schedule = make_optimizer(build_policy(CONFIG.policy, HUMAN), config, max_steps=10)
    assert schedule.get_last_lr() == [config.learning_rate * 0.25] * 2
    assert len(optimizer.param_groups) == 2


def test_gradients_are_clipped_to_a_norm_and_theirs_is_told():
    weights = [torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(1)), torch.nn.Parameter(torch.zeros(1))]
    for weight, gradient in zip(weights, ([3.0, 0.0], [4.0]), strict=False):
        weight.grad = torch.tensor(gradient)
    assert clip_gradients(weights, largest=0.0) == pytest.approx(5.0)
    assert weights[0].grad.tolist() == [3.0, 0.0], "0 clips nothing"
    assert clip_gradients(weights, largest=10.0) == pytest.approx(5.0)
    assert weights[1].grad.item() == 4.0
    assert clip_gradients(weights, largest=1.0) == pytest.approx(5.0)
    assert torch.cat([weight.grad for weight in weights[:2]]).tolist() == pytest.approx([0.6, 0.0, 0.8], rel=1e-4)
    assert weights[2].grad is None
    weights[0].grad[0] = math.inf
    assert clip_gradients(weights, largest=1.0) == math.inf
    assert weights[1].grad.item() == pytest.approx(0.8, rel=1e-4), "nothing is scaled by nothing"


def test_a_norm_stands_out_after_enough_others():
    watch, told = GradientWatch(factor=10.0), []
    for norm in [500.0] + [1.0, 2.0, 3.0] * FEWEST + [19.0, 21.0, math.inf, 2.0]:
        watch.note(norm)
        told.append(watch.median)
    assert told[:-4] == [None] * (1 + 3 * FEWEST), "too few before the first"
    assert told[-4:] == [None, 2.0, 2.0, None]
    again = GradientWatch(factor=10.0)
    again.restore(watch.state())
    again.note(50.0)
    assert again.median == 2.0
    off = GradientWatch(factor=0.0)
    for norm in [1.0] * 50 + [1e9]:
        off.note(norm)
    assert off.median is None


def test_what_stands_out_is_written_at_once(tmp_path):
    watch, said = GradientWatch(factor=3.0), []
    report = GradientReport(watch, MetricsFile(tmp_path / "metrics.csv"), every_steps=100, say=said.append)

    class Trainer:
        global_step, max_steps = 7, 1000

    watch.restore([1.0] * FEWEST)
    for norm in (2.0, 4.0):
        watch.note(norm)
        report.on_train_batch_end(Trainer(), None)
    assert said == ["step 7: gradient norm 4, the median of recent steps is 1"]
    assert (tmp_path / "metrics.csv").read_text().splitlines()[1:] == ["7,train,policy,gradient_norm_outlier,4.0"]


def test_parts_of_a_batch_count_by_their_recorded_cells():
    mask = torch.ones(5, 4, 2, dtype=torch.bool)
    mask[0] = False
    batch = {"frame": torch.arange(5), "action_mask": mask, "prompt": list("abcde"), "images": {"front_1": torch.arange(10).view(5, 2)}}
    parts = list(micro_batches(batch, 2))
    assert [part["prompt"] for part, _ in parts] == [["a", "b"], ["c", "d", "e"]]
    assert [share for _, share in parts] == [0.25, 0.75]
    assert parts[1][0]["images"]["front_1"].tolist() == [[4, 5], [6, 7], [8, 9]]
    with pytest.raises(ConfigError, match="accumulate 6: more parts than the 5 samples"):
        list(micro_batches(batch, 6))
    with pytest.raises(TypeError, match="cannot cut a float"):
        list(micro_batches({**batch, "fps": 30.0}, 1))


def test_averages_follow_and_trade_places():
    layer = torch.nn.Linear(1, 1, bias=False)
    layer.weight.data.fill_(1.0)
    ema = Ema(layer, decay=0.5)
    layer.weight.data.fill_(3.0)
    ema.update(step=100)
    assert ema.shadow["weight"].item() == 2.0
    with ema.in_place():
        assert layer.weight.item() == 2.0
    assert layer.weight.item() == 3.0
    ema.update(step=1)
    assert ema.shadow["weight"].item() == pytest.approx(2.0 + (3.0 - 2.0) * (1 - 2 / 11)), "the start is forgotten faster"
    with pytest.raises(ConfigError, match="averaged weights are of another policy"):
        ema.restore({"other": torch.zeros(1)})


def test_a_run_with_averages_scores_them_and_resumes_bit_for_bit(config, monkeypatch):
    words = ("optim.ema_decay=0.9", "optim.accumulate=2", "trainer.max_steps=6", "trainer.checkpoint_every_steps=3", "policy=rdt_tiny")
    words += ("trainer.evaluate_every_steps=2",)
    whole = fit(config(*words, run="whole"))
    with monkeypatch.context() as patch:
        stop_at(patch, 5)
        with pytest.raises(RuntimeError, match="stopped"):
            fit(config(*words, run="halves"))
    halves = fit(config(*words, "resume=true", run="halves"))
    metrics = ("loss", "gradient_norm", "learning_rate")
    assert rows(whole, *metrics) == rows(halves, *metrics)
    assert len(rows(whole, "gradient_norm")) == 6
    ends = [torch.load(find_checkpoint(run.path / "checkpoints"), weights_only=True) for run in (whole, halves)]
    for part in ("state_dict", "ema"):
        assert all(torch.equal(tensor, ends[1][part][name]) for name, tensor in ends[0][part].items())
    averaged, plain = ends[0]["ema"]["position_LE"], ends[0]["state_dict"]["policy.position_LE"]
    assert not torch.equal(averaged, plain)
    assert torch.equal(load_checkpoint(find_checkpoint(whole.path / "checkpoints")).weights["position_LE"], averaged)
    scores = evaluate(whole.path, compose_evaluate([]))
    assert {head: found.to_json() for head, found in scores.items()} == whole.result["heads"], "the run scored its averages too"


def stop_at(monkeypatch, step):
    whole = TrainStream.__iter__

    def broken(self):
        for k, batch in enumerate(whole(self), self.start_step):
            if k == step:
                raise RuntimeError("stopped")
            yield batch

    monkeypatch.setattr(TrainStream, "__iter__", broken)


@pytest.mark.parametrize("name", ["hpt_tiny", "rdt_tiny"])
def test_bf16_trains_and_keeps_weights_in_32_bits(config, name):
    words = (f"policy={name}", "trainer.max_steps=2")
    run, plain = fit(config(*words, "trainer.precision=bf16", run=f"bf16-{name}")), fit(config(*words, run=f"float32-{name}"))
    assert run.train_loss == pytest.approx(plain.train_loss, rel=0.05)
    assert run.train_loss != plain.train_loss
    weights = load_checkpoint(find_checkpoint(run.path / "checkpoints")).weights
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}


@pytest.mark.parametrize("words", [("optim.accumulate=0",), ("optim.ema_decay=1.0",), ("trainer.precision=fp16",)])
def test_wrong_values_are_refused(words):
    with pytest.raises(ConfigError, match=words[0].partition("=")[0].partition(".")[2]):
        config_of(*words)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hpt_tiny", "rdt_tiny"])
def test_compiled_parts_give_the_same_losses(config, name):
    plain, compiled = (fit(config(f"policy={name}", f"trainer.compile={on}", run=f"compiled-{name}-{on}")) for on in ("false", "true"))
    assert compiled.train_loss == pytest.approx(plain.train_loss, rel=1e-3)
    assert [row["step"] for row in rows(compiled, "loss")] == [row["step"] for row in rows(plain, "loss")]
    load_checkpoint(find_checkpoint(compiled.path / "checkpoints"))
    evaluate(compiled.path, compose_evaluate([]))
