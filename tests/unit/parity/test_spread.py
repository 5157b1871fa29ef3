"""Samples that rotate, several processes, and going on after an interruption."""

import json
from datetime import date, timedelta

import pytest

from egodata.catalog.rows import CatalogRow, catalog_from_lance
from egodata.parity import Choice, ParityConfig, check_parity, choose_episodes, spread

DAY = date(2026, 12, 1)


def row(name, operator):
    same = {"vendor": "v", "dataset": "d", "delivery": "d", "session": None, "task_name": "t", "embodiment": "e", "n_frames": 9}
    counts = {"fps_num": 30, "fps_den": 1, "content": "0" * 64, "media": "0" * 64, "annotation_keys": (), "cameras": ()}
    return CatalogRow(name, name, clip_index=0, aliased=True, operator=operator, has_calibration=False, **same, **counts)


def rows(sizes):
    return [row(f"{operator}-{number}", operator) for operator, size in sizes.items() for number in range(size)]


def test_every_operator_has_its_share_and_all_have_their_turn():
    catalog = rows({"v/a": 20, "v/b": 6, "v/c": 2})
    seen = set()
    for day in range(12):
        chosen = choose_episodes(catalog, Choice(7, DAY + timedelta(days=day)), seed=1)
        assert len(chosen) == 7 and {name.split("-")[0] for name in chosen} == {"v/a", "v/b", "v/c"}
        assert chosen == choose_episodes(list(reversed(catalog)), Choice(7, DAY + timedelta(days=day)), seed=1)
        seen |= set(chosen)
    assert len(seen) == 28
    assert choose_episodes(catalog, Choice(7, DAY), seed=1) != choose_episodes(catalog, Choice(7, DAY), seed=2)
    assert len(choose_episodes(catalog, Choice(99, DAY), seed=1)) == 28


def test_fewer_places_than_operators_go_round():
    catalog = rows({f"v/{letter}": 3 for letter in "abcde"})
    seen = [choose_episodes(catalog, Choice(2, DAY + timedelta(days=day)), seed=0) for day in range(60)]
    assert all(len(chosen) == 2 for chosen in seen)
    assert {name for chosen in seen for name in chosen} == {row.episode_id for row in catalog}


def test_a_sample_is_recorded(store):
    report = check_parity(store.paths, episode_ids=Choice(2, DAY))
    assert report.passed and report.chosen == {"episodes": 2, "of": 3, "day": "2026-12-01"}
    assert report.level("content").outcome.counts["episodes"] == 2
    assert report.to_json()["chosen"]["of"] == len(catalog_from_lance(store.paths))


def test_processes_find_the_same(store):
    store.set_number("b", "obs_head_pose", 3, 0, 5.0)
    alone = check_parity(store.paths, samples=9)
    many = check_parity(store.paths, samples=9, config=ParityConfig(workers=2))
    assert not many.passed
    for level in ("catalog", "content"):
        assert many.level(level).outcome == alone.level(level).outcome and many.level(level).failed == alone.level(level).failed


class Interrupted(BaseException):
    pass


def test_an_interrupted_check_goes_on(monkeypatch, store):
    store.set_number("a", "obs_head_pose", 3, 0, 5.0)
    real, compared, kills = spread.compare_one, [], [Interrupted]

    def dying(scope, episode_id, **options):
        if episode_id == "c" and kills:
            raise kills.pop()
        compared.append(episode_id)
        return real(scope, episode_id, **options)

    with monkeypatch.context() as patch:
        patch.setattr(spread, "compare_one", dying)
        with pytest.raises(Interrupted):
            check_parity(store.paths)
        (journal,) = (store.paths.cache / "parity").iterdir()
        assert [json.loads(line)["id"] for line in journal.read_text().splitlines()] == ["a", "b"]
        journal.write_text(journal.read_text() + '{"id": "c", "cont')  # a kill in the middle of a line
        report = check_parity(store.paths)
    assert compared == ["a", "b", "c"] and not journal.exists()
    assert report.level("content").failed == ("a",) and report.level("content").outcome.counts["episodes"] == 3
    compared.clear()
    with monkeypatch.context() as patch:
        patch.setattr(spread, "compare_one", dying)
        assert check_parity(store.paths, episode_ids=["a", "b"]).level("content").failed == ("a",)
    assert compared == ["a", "b"]  # finished checks are made again in full


def test_other_bounds_do_not_go_on_from_it(monkeypatch, store):
    def dying(*_, **__):
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(spread, "compare_one", dying)
        for config in (ParityConfig(), ParityConfig(numeric=1.0), ParityConfig(seed=3), ParityConfig(workers=4, fresh=True)):
            with pytest.raises(Interrupted):
                check_parity(store.paths, episode_ids=["a"], config=config)
    assert len(list((store.paths.cache / "parity").iterdir())) == 3
