"""A hundred damaged deliveries in every test run, two thousand with `python -m tests.fuzz.run`; the seeds name the damage."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.fuzz.case import ABSENT, BUILT, REFUSED, SET_ASIDE, WITH_FINDINGS, run_case
from tests.fuzz.deliveries import WRITERS
from tests.fuzz.run import MEMORY, cases, watched

FEW, MANY, PARTS = 100, 2000, 4


def run(vendors, first, count, tmp_path):
    endings, bad = {vendor: Counter() for vendor in vendors}, []
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else tmp_path) as folder:
        for vendor, seed in cases(vendors, first, count):
            case = run_case(vendor, seed, Path(folder) / "case")
            endings[vendor].update(case.endings)
            bad += [case] if case.problems else []
    return endings, bad


@pytest.mark.parametrize("part", range(PARTS))
def test_every_damaged_delivery_ends_built_or_set_aside(part, tmp_path):
    each = FEW // PARTS
    endings, bad = run(sorted(WRITERS), part * each, each, tmp_path)
    assert bad == []
    assert all(set(counts) <= {REFUSED, BUILT, WITH_FINDINGS, SET_ASIDE, ABSENT} for counts in endings.values())
    total = sum(endings.values(), Counter())
    assert total[SET_ASIDE] and total[BUILT] + total[WITH_FINDINGS], total  # the damage neither kills everything nor nothing


def test_one_seed_is_one_damage(tmp_path):
    vendor = sorted(WRITERS)[0]
    one, other = (run_case(vendor, 7, tmp_path / name) for name in ("a", "b"))
    assert (one.damage, one.endings) == (other.damage, other.endings)
    assert one.damage != run_case(vendor, 8, tmp_path / "c").damage


def test_the_watcher_names_a_case_that_does_not_come_back(monkeypatch):
    monkeypatch.setattr("tests.fuzz.run.CHILD", ("import sys, time; print('{\"seed\": 5}', flush=True); time.sleep(60)",))
    results = list(watched(["mecka"], 5, 2, 3.0))
    assert results[0] == {"seed": 5} and results[1]["seed"] == 6 and "no answer for 3 s" in results[1]["problems"][0]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_thousand():
    bad = [result for result in watched(sorted(WRITERS), 0, MANY, 120.0) if result["problems"]]
    assert bad == []
