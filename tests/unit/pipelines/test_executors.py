"""The same episode work in this process, in spawned ones and on Ray gives the same contents."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from egodata.errors import InputError, MissingExtraError
from egodata.ingest import IngestOptions, ingest
from egodata.testing.world import WorldOptions, write_delivery
from pipelines.executors import EXECUTOR_VARIABLE, RAY_ADDRESS_VARIABLE, executor_name, spread_for, workers_for


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("raw") / "monday"
    write_delivery(folder, WorldOptions(operators=2, episodes=5, seed=1, size=(64, 64), fps=10, fault="truncated-video:1"))
    return folder


def contents(raw: Path, store: Path, *, executor: str) -> tuple[dict[str, dict[str, str]], list[str]]:
    heard: list[str] = []
    options = IngestOptions("mecka", store, workers=workers_for(executor, 2))
    report = ingest(raw, options=options, on_outcome=lambda outcome: heard.append(outcome.recording), spread=spread_for(executor))
    assert len(report.set_aside) == 1
    return {outcome.recording: dict(outcome.episodes) for outcome in report.outcomes}, heard


def test_an_executor_is_known_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert executor_name() == "spawned"
    monkeypatch.setenv(EXECUTOR_VARIABLE, "ray")
    assert (executor_name(), executor_name("in_process")) == ("ray", "in_process")
    monkeypatch.setenv(EXECUTOR_VARIABLE, "raye")
    with pytest.raises(InputError, match="did you mean ray"):
        executor_name()


def test_without_ray_the_extra_is_named(raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'egodata\[ray\]'"):
        contents(raw, tmp_path / "store", executor="ray")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    ray = pytest.importorskip("ray", reason="the `ray` extra is not installed")
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    found.add_node(num_cpus=1)
    monkeypatch.setenv(RAY_ADDRESS_VARIABLE, found.address)
    yield ray
    ray.shutdown()
    found.shutdown()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_ray_cluster_of_two_workers_gives_the_same_contents(raw: Path, tmp_path: Path, cluster: object) -> None:
    here, _ = contents(raw, tmp_path / "here", executor="in_process")
    spawned, _ = contents(raw, tmp_path / "spawned", executor="spawned")
    there, heard = contents(raw, tmp_path / "there", executor="ray")
    assert here == spawned == there
    assert sum(bool(episodes) for episodes in here.values()) == 4
    assert sorted(heard) == sorted(here) and len(heard) == 5  # one completion at a time, each told once
