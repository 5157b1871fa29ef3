"""A run that is stopped anywhere, in whatever way, goes on as if it had not been: losses, weights and scores to the last bit."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
import torch

from egodata.errors import ConflictError
from egotrain.build import fit
from egotrain.compose import compose_fit
from egotrain.runs import MetricsFile, only_one

STEPS = 12
DEADLINE_S = 240
pytestmark = pytest.mark.timeout(900)
WORDS = (
    "policy=hpt_tiny",
    f"trainer.max_steps={STEPS}",
    "trainer.log_every_steps=1",
    "data.batch_size=4",
    "data.image_height=24",
    "data.image_width=32",
    "evaluation.samples_per_head=8",
    "evaluation.videos=0",
)


def command(store, run, *words):
    given = (f"store={store.root}", "dataset=small@v1", f"run={run}", *WORDS, *words)
    return [sys.executable, "-m", "egotrain", "fit", *given]


def train(store, run, *words):
    done = subprocess.run(command(store, run, *words), capture_output=True, text=True, check=False, timeout=DEADLINE_S, cwd=store.root)
    assert done.returncode == 0, done.stderr
    return done.stderr


def stop_after(store, run, step, number, *words):
    """Start a run, send it a signal once it has logged a step, and return its exit status and what it said."""
    process = subprocess.Popen(command(store, run, *words), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=store.root)
    metrics = MetricsFile(store.runs / run / "metrics.csv")
    ends = time.monotonic() + DEADLINE_S
    while process.poll() is None and time.monotonic() < ends:
        if any(row.step >= step for row in metrics.rows()):
            process.send_signal(number)
            break
        time.sleep(0.005)
    said = process.communicate(timeout=DEADLINE_S)[1]
    return process.returncode, said


def curve(store, run):
    return [
        (row.step, row.metric, row.value)
        for row in MetricsFile(store.runs / run / "metrics.csv").rows()
        if row.metric in ("loss", "learning_rate")
    ]


def weights(store, run):
    return torch.load(store.runs / run / "checkpoints/last.ckpt", weights_only=True)


def same(store, run, other):
    assert curve(store, run) == curve(store, other)
    ends = [weights(store, name) for name in (run, other)]
    assert ends[0]["global_step"] == ends[1]["global_step"] == STEPS
    for name, tensor in ends[0]["state_dict"].items():
        assert torch.equal(tensor, ends[1]["state_dict"][name]), name


@pytest.fixture(scope="module")
def unbroken(small_store):
    train(small_store, "whole", "trainer.checkpoint_every_steps=1")
    return "whole"


@pytest.mark.slow
def test_sigterm_leaves_a_checkpoint_and_the_run_goes_on_exactly(small_store, unbroken):
    status, said = stop_after(small_store, "termed", 3, signal.SIGTERM, "trainer.checkpoint_every_steps=100")
    assert status == 130, said
    assert "stopped by SIGTERM after step" in said
    left = sorted((small_store.runs / "termed/checkpoints").glob("step-*.ckpt"))
    assert len(left) == 1, "the step that was under way, and no other"
    said = train(small_store, "termed", "trainer.checkpoint_every_steps=100", "resume=true")
    assert "going on from step" in said
    same(small_store, "termed", unbroken)


@pytest.mark.slow
def test_sigkill_loses_the_steps_since_the_last_checkpoint_and_nothing_else(small_store, unbroken):
    words = ("trainer.checkpoint_every_steps=2",)
    status, _ = stop_after(small_store, "killed", 5, signal.SIGKILL, *words)
    assert status == -signal.SIGKILL
    leftovers = small_store.runs / "killed/checkpoints"
    (leftovers / "step-00000099.tmp").write_bytes(b"half a checkpoint")
    train(small_store, "killed", *words, "resume=true", "data.num_workers=1")
    same(small_store, "killed", unbroken)


@pytest.mark.slow
def test_a_run_resumed_at_any_step_equals_the_unbroken_one(small_store, unbroken):
    for step in range(1, STEPS):
        run = f"from{step:02d}"
        folder = small_store.runs / run
        shutil.copytree(small_store.runs / unbroken, folder, symlinks=True)
        (folder / "result.json").unlink()
        text = (folder / "config.yaml").read_text()
        (folder / "config.yaml").write_text(text.replace(f"run: {unbroken}", f"run: {run}"))
        for later in range(step + 1, STEPS + 1):
            (folder / f"checkpoints/step-{later:08d}.ckpt").unlink()
        (folder / "checkpoints/last.ckpt").unlink()
        said = []
        fit(compose_fit(command(small_store, run, "trainer.checkpoint_every_steps=1", "resume=true")[4:]), say=said.append)
        assert f"taking the newest complete checkpoint, step-{step:08d}.ckpt" in said[0]
        same(small_store, run, unbroken)


@pytest.mark.slow
def test_two_ranks_stop_at_one_step_and_go_on(small_store):
    words = ("trainer.devices=2", "trainer.checkpoint_every_steps=100")
    train(small_store, "pair", *words)
    status, said = stop_after(small_store, "stopped_pair", 3, signal.SIGTERM, *words)
    assert status == 130, said
    train(small_store, "stopped_pair", *words, "resume=true")
    same(small_store, "pair", "stopped_pair")


@pytest.mark.slow
def test_two_jobs_that_share_cold_caches_both_end_well(small_store):
    shutil.rmtree(small_store.cache, ignore_errors=True)
    started = [
        subprocess.Popen(
            command(small_store, f"job{k}"), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=small_store.root
        )
        for k in range(2)
    ]
    ended = [(process.communicate(timeout=DEADLINE_S)[1], process.returncode) for process in started]
    assert [status for _, status in ended] == [0, 0], ended
    same(small_store, "job0", "job1")


def test_a_second_process_does_not_touch_a_run_that_is_trained(small_store):
    words = command(small_store, "held")[4:]
    with only_one(small_store.runs / "held"), pytest.raises(ConflictError, match="another process is training it"):
        fit(compose_fit(words))
    assert os.listdir(small_store.runs / "held") == [".lock"]
