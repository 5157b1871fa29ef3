"""The report over episodes in memory whose numbers are known."""

import json
from dataclasses import replace

import numpy as np
import pytest

from egodata.catalog.manifest import HeadEpisode, Manifest
from egodata.reports.stats_page import report_folder, report_page, write_report
from egodata.sampling import load_recipe
from egodata.schema.layout import open_root
from egodata.stats import norm_stats, stats_report
from egodata.testing.memory import MemoryStore, ramp_joints

JOINTS = load_recipe("joints")


def episode(name, values, **changes):
    made = ramp_joints(name, frames=len(values), dim=2)
    rows = np.stack([values, np.full(len(values), 0.25)], axis=1).astype(np.float32)
    made.arrays["cmd_joints"], made.arrays["obs_joints"] = rows, rows
    return made


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Training episodes of two operators, one of them with a spike at frame 17; a head like training and one that is shifted."""
    rng = np.random.default_rng(0)
    values = {name: rng.uniform(0, 1, 200) for name in ("t0", "t1", "t2", "s0", "u0")}
    values["t2"][17] = 40.0
    values["u0"] += 0.6
    store = MemoryStore({name: episode(name, found) for name, found in values.items()})
    monkeypatch.setattr("egodata.stats.compute.open_store", lambda *_, **__: store)

    def head(**operators):
        return tuple(HeadEpisode(n, 200, store.episodes[n].digests.content, operator=f"lab/{who}") for n, who in operators.items())

    heads = {"train": head(t0="a", t1="a", t2="b"), "seen": head(s0="a"), "unseen_operator": head(u0="c")}
    return open_root(tmp_path / "store", create=True), Manifest("set", "v1", "d" * 64, heads, {})


def reported(world, recipe=JOINTS, **options):
    paths, manifest = world
    stats = norm_stats(paths, manifest, recipe=recipe)
    return stats, stats_report(paths, manifest, recipe=recipe, stats=stats, **options)


def test_ranges_outside_and_constant_channels(world):
    stats, report = reported(world)
    first, constant = report.channels[:2]
    fields = stats.features["action"].fields
    assert (first.feature, first.channel, first.kept) == ("action", "joint0", False)
    assert first.count == int(fields["count"][:, 0].sum())
    assert (first.min, first.max) == (fields["min"][:, 0].min(), pytest.approx(40.0))
    assert (first.q01, first.q99) == (fields["q01"][:, 0].min(), fields["q99"][:, 0].max())
    weights = fields["count"][:, 0]
    assert first.mean == pytest.approx(np.average(fields["mean"][:, 0], weights=weights))
    assert 0.01 < first.outside < 0.03
    assert first.constant_steps == () and constant.constant_steps == tuple(range(100))
    assert constant.outside is None and constant.min == constant.max == 0.25
    assert report.windows == {"train": 600, "seen": 200, "unseen_operator": 200}


def test_nearly_constant_is_told_from_constant(world):
    paths, manifest = world
    stats = norm_stats(paths, manifest, recipe=JOINTS)
    fields = dict(stats.features["action"].fields)
    fields["q01"] = fields["q99"].copy()
    changed = replace(stats, features={**stats.features, "action": replace(stats.features["action"], fields=fields)})
    report = stats_report(paths, manifest, recipe=JOINTS, stats=changed)
    assert report.channels[0].nearly_constant_steps == tuple(range(100))
    assert report.channels[0].constant_steps == ()


def test_drift_tells_a_shifted_head_from_an_equal_one(world):
    found = {(one.head, one.feature, one.channel): one for one in reported(world)[1].drift}
    equal, shifted = found["seen", "proprio", "joint0"], found["unseen_operator", "proprio", "joint0"]
    assert not equal.drifts and equal.distance < 0.1 and abs(equal.shift) < 0.15
    assert shifted.drifts and 0.5 < shifted.distance < 0.7 and shifted.shift > 0.5
    assert 0.5 < shifted.outside < 0.7
    assert ("seen", "proprio", "joint1") not in found  # without scale there is nothing to compare


def test_operators_with_their_farthest_cell(world):
    found = {(one.operator, one.head): one for one in reported(world)[1].operators}
    assert found["lab/c", "unseen_operator"].stands_out
    assert not found["lab/a", "train"].stands_out and found["lab/a", "train"].episodes == 2
    spike = found["lab/b", "train"]
    assert spike.episode_id == "t2" and spike.distance > 30
    assert spike.frame <= 17 if spike.channel.startswith("action") else spike.frame in (17, 22, 27)


def test_fewer_windows_are_spread_evenly(world):
    report = reported(world, windows_per_head=30)[1]
    assert report.windows == {"train": 30, "seen": 30, "unseen_operator": 30}
    shares = report.histograms["train"]["proprio joint0"]
    assert len(shares) == 60 and sum(shares) == pytest.approx(1, abs=1e-4)


def test_a_pooled_horizon_has_no_steps(world):
    report = reported(world, replace(JOINTS, pool_horizon=True))[1]
    assert report.steps == {} and len(report.channels) == 4
    assert report.channels[1].constant_steps == (0,)


def test_page_and_json(world, tmp_path):
    stats, report = reported(world)
    html, plain = write_report(report_folder(world[0], stats, dataset="set@v1"), report, stats=stats)
    assert html == world[0].root / f"reports/stats/set/v1/{stats.key[:16]}.html"
    value = json.loads(plain.read_text())
    assert value["schema"] == 1 and value["channels"][0]["channel"] == "joint0"
    text = html.read_text()
    for part in (
        "Statistics of set@v1",
        "<h2>Drift against training</h2>",
        "lab/c",
        "0 to 99",
        "<svg",
        "Action over the horizon",
        "always",
    ):
        assert part in text
    assert "nan" not in text.lower().replace("nanosecond", "")
    assert report_page(replace(report, dataset="<b>"), stats=stats).count("<b>&lt;") == 0 and "&lt;b&gt;" in report_page(
        replace(report, dataset="<b>"), stats=stats
    )
