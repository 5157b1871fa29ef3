"""The registry of deliveries, and which delivery a recording belongs to."""

from pathlib import Path

import pytest

from egodata.cli.main import run
from egodata.errors import ConfigError, InputError
from egodata.schema.layout import StorePaths, open_root
from egodata.testing.world import WorldOptions, write_delivery
from pipelines.cli import cli
from pipelines.deliveries import Delivery, deliveries, register
from pipelines.units import units, units_for


@pytest.fixture
def paths(tmp_path: Path) -> StorePaths:
    return open_root(tmp_path / "store", create=True)


def delivery(folder: Path, *, episodes: int) -> Delivery:
    write_delivery(folder, WorldOptions(operators=1, episodes=episodes, seed=1, size=(64, 64), fps=5))
    return Delivery(vendor="mecka", raw=str(folder))


def test_a_delivery_is_registered_once_and_order_is_kept(paths: StorePaths) -> None:
    assert deliveries(paths) == []
    first, second = Delivery("mecka", "/a"), Delivery("lerobot", "/b", dataset="g1")
    for item in (first, second, first):
        register(paths, item)
    assert deliveries(paths) == [first, second]


def test_a_recording_belongs_to_its_newest_delivery(paths: StorePaths, tmp_path: Path) -> None:
    monday, tuesday = delivery(tmp_path / "monday", episodes=2), delivery(tmp_path / "tuesday", episodes=1)
    register(paths, monday)
    before = units(paths)
    register(paths, tuesday)
    again = set(units(paths)) & {path.name for path in (tmp_path / "tuesday").iterdir()}
    (shared,) = again
    assert before[shared].delivery == monday
    assert units(paths)[shared].delivery == tuesday
    found, gone = units_for(paths, list(before))
    assert [unit.delivery for unit in found if unit.key == shared] == [tuesday]
    assert [unit.delivery for unit in found if unit.key != shared] == [monday]
    assert gone == {}


def test_a_delivery_that_is_gone_does_not_stop_the_others(paths: StorePaths, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    register(paths, Delivery("mecka", str(tmp_path / "gone")))
    register(paths, delivery(tmp_path / "monday", episodes=1))
    assert len(units(paths)) == 1
    assert f"registered delivery left out: raw {tmp_path / 'gone'}: no such folder" in caplog.text


@pytest.mark.parametrize("vendor", ["mecka", "lerobot"])
def test_what_is_no_delivery_is_not_registered_by_the_quickstart(tmp_path: Path, vendor: str) -> None:
    (tmp_path / "empty").mkdir()
    store = tmp_path / "store"
    assert run(cli, ["quickstart", "--raw", str(tmp_path / "empty"), "--vendor", vendor, "--store", str(store)], program="egopipe") == 2
    assert deliveries(open_root(store)) == []


@pytest.mark.parametrize("word", ["rule", "recipe", "experiment"])
def test_an_unknown_name_is_said_before_any_work(tmp_path: Path, capsys: pytest.CaptureFixture[str], word: str) -> None:
    store = tmp_path / "store"
    assert run(cli, ["quickstart", "--raw", str(tmp_path), "--store", str(store), f"--{word}", "sinthetic"], program="egopipe") == 2
    assert "sinthetic: not shipped; " in capsys.readouterr().err
    assert not store.exists()


def test_a_recording_that_no_delivery_holds_is_named_and_keeps_nobody_from_the_others(paths: StorePaths, tmp_path: Path) -> None:
    register(paths, delivery(tmp_path / "monday", episodes=1))
    (held,) = units(paths)
    found, gone = units_for(paths, ["zz", held])
    assert [unit.key for unit in found] == [held]
    assert gone["zz"].startswith("recording zz: no registered delivery holds it; ")


@pytest.mark.parametrize(("text", "error"), [("{", InputError), ('[{"vendor": "mecka", "raw": "/a", "colour": 1}]', ConfigError)])
def test_a_damaged_registry_is_named(paths: StorePaths, text: str, error: type[Exception]) -> None:
    paths.ledger.mkdir(parents=True, exist_ok=True)
    (paths.ledger / "deliveries.json").write_text(text)
    with pytest.raises(error, match=r"deliveries\.json"):
        deliveries(paths)


def test_a_word_for_the_training_is_checked_before_anything_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(cli, ["quickstart", "--store", str(tmp_path / "store"), "--set", "bad"], program="egopipe") == 2
    assert "--set 'bad': expected KEY=VALUE" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
