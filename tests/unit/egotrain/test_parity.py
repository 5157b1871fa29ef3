import json
import shutil

import pytest
from click.testing import CliRunner

from egodata.formats.lance import build_lance
from egodata.parity import latest
from egodata.schema.layout import open_root
from egotrain.cli import cli
from egotrain.parity import Gap, training_parity


@pytest.fixture
def quick_words(small_store, config):
    words = ("trainer.max_steps=2", "evaluation.heads=[seen]", "evaluation.baselines=false")
    return lambda store: config(*words, f"store={store.root}", run="parity")


def test_the_same_run_on_both_formats_is_equal_to_the_last_bit_and_is_kept(small_store, quick_words):
    found = training_parity(quick_words(small_store), samples=8)
    assert found.passed
    assert found.weights_equal
    assert found.samples == (8, 0)
    assert [gap.name for gap in found.gaps[:2]] == ["loss at step 1", "loss at step 2"]
    assert {gap.name for gap in found.metrics()} >= {"seen policy loss", "seen policy head.xyz_mse_m2", "seen policy head.dtw_m"}
    assert all(gap.relative == 0 for gap in found.gaps)
    row = latest(small_store, "training")[-1]
    assert row["passed"]
    assert row["dataset"] == "small@v1"
    assert json.loads(row["counts"])["steps"] == 2
    assert not list(small_store.cache.glob("training-parity-*"))
    assert not (small_store.runs / "parity").exists()


def test_video_that_was_encoded_again_is_told_apart(small_store, quick_words, tmp_path):
    other = tmp_path / "av1"
    shutil.copytree(small_store.root, other, symlinks=True, ignore=shutil.ignore_patterns("lance_v2", "runs", "reports"))
    paths = open_root(other)
    build_lance(paths, video="av1")
    exact = training_parity(quick_words(paths), samples=4)
    assert not exact.passed
    assert exact.samples == (4, 4)
    messages = [finding.message for finding in exact.report.levels[0].outcome.findings]
    assert "training: training samples 0, 1, 2, 3 of the epoch's order differ (4 in all)" in messages[0]
    assert any("seen policy" in text and "on lance" in text for text in messages)
    assert not latest(paths, "training")[-1]["passed"]
    loose = training_parity(quick_words(paths), tolerance=5.0, samples=4)
    assert loose.passed
    assert 0 < max(gap.relative for gap in loose.gaps) < 5.0
    assert json.loads(latest(paths, "training")[-1]["config"])["numeric"] == 5.0


def test_a_gap_between_a_number_and_none_is_infinite():
    assert Gap("m", 1.0, float("nan")).relative == float("inf")
    assert Gap("m", float("nan"), float("nan")).relative == 0
    assert Gap("m", 2.0, 1.0).relative == 0.5


def test_the_commands_say_what_they_did(done, small_store, tmp_path):
    run, cli_run = str(done[1].path), CliRunner()
    predicted = cli_run.invoke(cli, ["predict", run, "--episode", "ep1", "--frame", "3", "--out", str(tmp_path / "a.npz")])
    assert predicted.exit_code == 0, predicted.output
    assert "ep1: 1 frames predicted by step 4, 0 without a valid hand left out" in predicted.output
    as_json = cli_run.invoke(cli, ["predict", run, "--episode", "ep1", "--frame", "3", "--json"])
    assert json.loads(as_json.output)["scores"]["head.xyz_mse_m2"] > 0
    compared = cli_run.invoke(cli, ["compare", run, run])
    assert compared.exit_code == 0, compared.output
    scored = cli_run.invoke(cli, ["eval", run, "heads=[seen]", "--json"])
    assert json.loads(scored.stdout)["seen"]["operators"].keys() <= {"mecka/op0", "mecka/op1"}
    refused = cli_run.invoke(cli, ["export", run, str(tmp_path / "out"), "--image-size", "big"])
    assert "expected HxW, each 16 to 8192 pixels" in str(refused.exception)
