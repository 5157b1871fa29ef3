import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from click.testing import CliRunner

from egodata.errors import ConfigError, InputError
from egodata.geometry.rotation import matrix_from_zyx
from egotrain.baselines import Neighbours
from egotrain.build import fit
from egotrain.cli import cli
from egotrain.compare import compare, write_comparison
from egotrain.curves import bar_plot, line_plot
from egotrain.sweep import sweep
from egotrain.warp import warped_distance


def test_runs_side_by_side(done, config, tmp_path):
    other = fit(config("optim.learning_rate=1e-5", "evaluation.heads=[seen]", run="slower"))
    found = compare([done[1].path, other.path])
    assert found.names == ("done", "slower")
    rows = {(head, metric): values for head, metric, values in found.rows}
    assert rows["seen", "loss"] == (done[1].result["heads"]["seen"]["loss"], other.result["heads"]["seen"]["loss"])
    assert rows["unseen_operator", "loss"][1] is None
    assert found.notes == ("the frames that were scored differ: heads or samples_per_head are not the same",)
    columns, lines = found.table()
    assert columns == ["head", "metric", "done", "slower"]
    assert sum(cell.endswith("*") for cell in next(line for line in lines if line[:2] == ["seen", "loss"])) == 1
    page = write_comparison(tmp_path / "out", found)
    assert "| seen | loss |" in page.read_text()
    for svg in page.parent.glob("*.svg"):
        ET.parse(svg)
    with pytest.raises(InputError, match="at least two runs, got 1"):
        compare([done[1].path])


def test_the_card_shows_what_the_run_was(done):
    text = (done[1].path / "card.md").read_text()
    assert "# Run done" in text
    assert "small@v1" in text
    assert "| seen | head.xyz_mse_m2 |" in text
    assert "curves/loss.svg" in text
    ET.parse(done[1].path / "curves/loss.svg")


@pytest.mark.parametrize("series", [{}, {"a": [(1, math.nan)]}, {"a": [(5, 1.0)]}, {"a<b": [(1, 1.0), (2, 0.5)], "c": [(1, 0.0)]}])
def test_plots_are_whole_documents(series):
    for log in (False, True):
        ET.fromstring(line_plot("a & b", series, log=log))
    ET.fromstring(bar_plot("t", {"g": {"x": 1.0, "y": math.nan}, "h": {}}))


def test_sweeps_are_named_in_order():
    assert sweep(["run=lr", "seed=0,1", "data.batch_size=range(2,6,2)"]) == [
        ["run=lr-000", "seed=0", "data.batch_size=2"],
        ["run=lr-001", "seed=0", "data.batch_size=4"],
        ["run=lr-002", "seed=1", "data.batch_size=2"],
        ["run=lr-003", "seed=1", "data.batch_size=4"],
    ]
    assert sweep(["run=a", "evaluation.heads=[seen,train]", "seed=1,2"])[1] == ["run=a-001", "evaluation.heads=[seen,train]", "seed=2"]
    with pytest.raises(ConfigError, match="missing run"):
        sweep(["seed=0,1"])
    with pytest.raises(ConfigError, match="no word has several values"):
        sweep(["run=a", "seed=0"])


def test_a_sweep_is_listed_for_a_queue_and_checked_whole():
    words = ["fit", "--multirun", "--list", "store=a store", "dataset=d@v1", "run=x", "seed=0,1"]
    result = CliRunner().invoke(cli, words)
    assert result.output.splitlines() == [
        "egotrain fit run=x-000 'store=a store' dataset=d@v1 seed=0",
        "egotrain fit run=x-001 'store=a store' dataset=d@v1 seed=1",
    ]
    with pytest.raises(ConfigError, match="heads"):
        CliRunner().invoke(cli, [*words, "policy.heads=4,5"], catch_exceptions=False)


def slow_warp(a, b):
    table = np.full((len(a) + 1, len(b) + 1), np.inf)
    table[0, 0] = 0
    for i in range(len(a)):
        for j in range(len(b)):
            table[i + 1, j + 1] = np.linalg.norm(a[i] - b[j]) + min(table[i, j], table[i, j + 1], table[i + 1, j])
    return table[-1, -1] / len(b)


def test_warping_equals_the_textbook_table_on_recorded_steps():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(5, 12, 3)), rng.normal(size=(5, 12, 3))
    mask = np.ones((5, 12), bool)
    mask[1, 7:] = False
    mask[2, :4] = False
    mask[3, 1:] = False
    mask[4] = False
    b[4] = np.nan
    found = warped_distance(a, b, mask=mask)
    np.testing.assert_allclose(found[:4], [slow_warp(a[k][mask[k]], b[k][mask[k]]) for k in range(4)])
    assert np.isnan(found[4])


def test_a_path_that_runs_ahead_costs_little():
    t = np.linspace(0, 1, 100)
    path = np.stack([np.sin(6 * t), np.cos(6 * t), t], -1)[None]
    late = np.concatenate([path[:, :1].repeat(10, 1), path[:, :-10]], 1)
    mask = np.ones((1, 100), bool)
    paired = np.linalg.norm(late - path, axis=-1).mean()
    assert warped_distance(late, path, mask=mask)[0] < 0.35 * paired
    assert warped_distance(path, path, mask=mask)[0] == 0
    turned = path @ matrix_from_zyx(np.array(0.3), np.array(0.2), np.array(0.1)).T + 5
    other = late @ matrix_from_zyx(np.array(0.3), np.array(0.2), np.array(0.1)).T + 5
    np.testing.assert_allclose(warped_distance(other, turned, mask=mask), warped_distance(late, path, mask=mask))


def test_the_nearest_neighbour_is_of_another_episode():
    keys = np.array([[0.0], [1.0], [5.0]], np.float32)
    actions = np.arange(3, dtype=np.float32)[:, None, None]

    class Sample:
        def __init__(self, episode_id, at):
            self.episode_id, self.proprio, self.arm_valid = episode_id, np.array([[at]], np.float32), np.ones((1, 1), bool)

    pool = Neighbours(np.concatenate([keys, np.ones_like(keys)], 1), actions, np.array(["a", "b", "c"]))
    found = pool.copied([Sample("a", 0.0), Sample("x", 0.1), Sample("c", 4.0)])
    assert found[:, 0, 0].tolist() == [1.0, 0.0, 1.0]
    alone = Neighbours(pool.keys[:1], actions[:1], pool.episodes[:1])
    assert alone.copied([Sample("a", 0.0)]) is None
