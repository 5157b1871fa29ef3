"""Shards: safe keys, members that never move, and the same truth as single recordings."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from egodata.errors import InputError
from egodata.schema.ids import EPISODE_ID
from egodata.schema.layout import StorePaths, open_root
from egodata.testing.world import WorldOptions, write_delivery
from pipelines.deliveries import Delivery, register
from pipelines.units import SHARD_ABOVE_VARIABLE, is_shard, shard_above, shard_key, shard_of, units

IDS = st.from_regex(r"[A-Za-z0-9_-]{1,96}", fullmatch=True)
TEXT = st.text(min_size=1, max_size=40)


@pytest.fixture
def paths(tmp_path: Path) -> StorePaths:
    return open_root(tmp_path / "store", create=True)


@given(IDS)
def test_no_recording_can_be_called_like_a_shard(recording: str) -> None:
    assert EPISODE_ID.fullmatch(recording)
    assert not is_shard(recording)


@given(st.lists(st.tuples(TEXT, TEXT, TEXT), min_size=2, max_size=6, unique=True), st.integers(0, 99_999))
def test_different_deliveries_never_share_a_key(names: list[tuple[str, str, str]], number: int) -> None:
    keys = [shard_key(Delivery(vendor="mecka", raw=f"/{raw}", dataset=dataset, delivery=name), number) for raw, dataset, name in names]
    assert len(set(keys)) == len(keys)
    assert all(is_shard(key) and "..." not in key and set(key) <= set(SAFE) for key in keys)


SAFE = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."


@given(IDS, st.integers(1, 500))
def test_a_recording_stays_in_its_shard(recording: str, count: int) -> None:
    assert 0 <= shard_of(recording, count) < count
    assert shard_of(recording, count) == shard_of(recording, count)


def deliver(folder: Path, paths: StorePaths, *, episodes: int) -> set[str]:
    summary = write_delivery(folder, WorldOptions(operators=1, episodes=episodes, seed=1, size=(64, 64), fps=10))
    register(paths, Delivery(vendor="mecka", raw=str(folder)))
    return set(summary.episodes)


def test_a_large_delivery_is_cut_once_and_growing_moves_nothing(paths: StorePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHARD_ABOVE_VARIABLE, "2")
    monkeypatch.setattr("pipelines.units.SHARD_SIZE", 2)
    ids = deliver(tmp_path / "monday", paths, episodes=3)
    before = units(paths)
    assert all(is_shard(key) for key in before)
    assert {recording for unit in before.values() for recording in unit.recordings} == ids
    place = {recording: key for key, unit in before.items() for recording in unit.recordings}

    more = deliver(tmp_path / "monday", paths, episodes=5)
    monkeypatch.setenv(SHARD_ABOVE_VARIABLE, "1000")  # what is settled stays, whatever the number is now
    after = units(paths)
    assert {recording for unit in after.values() for recording in unit.recordings} == more
    assert {recording: key for key, unit in after.items() for recording in unit.recordings if recording in ids} == place
    grown = {key for key, unit in after.items() if set(unit.recordings) - ids}
    assert {key for key in before if before[key].version != after[key].version} == grown & set(before)


def test_a_small_delivery_stays_in_single_recordings_when_it_grows(
    paths: StorePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SHARD_ABOVE_VARIABLE, "2")
    assert set(units(paths)) == set()
    assert set(deliver(tmp_path / "monday", paths, episodes=2)) == set(units(paths))
    assert set(deliver(tmp_path / "monday", paths, episodes=4)) == set(units(paths))


def test_a_correction_takes_its_recording_out_of_the_shard(paths: StorePaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SHARD_ABOVE_VARIABLE, "2")
    ids = deliver(tmp_path / "monday", paths, episodes=3)
    (fixed,) = deliver(tmp_path / "tuesday", paths, episodes=1)
    found = units(paths)
    assert found[fixed].delivery.raw == str(tmp_path / "tuesday")
    assert {recording for unit in found.values() for recording in unit.recordings} == ids
    assert all(fixed not in unit.recordings for key, unit in found.items() if is_shard(key))


@pytest.mark.parametrize("text", ["0", "-1", "many", ""])
def test_a_senseless_number_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(SHARD_ABOVE_VARIABLE, text)
    with pytest.raises(InputError, match=SHARD_ABOVE_VARIABLE):
        shard_above()


def test_a_damaged_list_of_shards_is_named(paths: StorePaths, tmp_path: Path) -> None:
    deliver(tmp_path / "monday", paths, episodes=1)
    (paths.ledger / "shards.json").write_text("{")
    with pytest.raises(InputError, match=r"shards\.json: damaged"):
        units(paths)
