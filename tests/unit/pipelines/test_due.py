"""What is due: from a number of queries that does not grow with the partitions."""

from collections.abc import Iterator

import dagster as dg
import pytest
from dagster._core.definitions.data_version import DATA_VERSION_TAG, get_input_data_version_tag

from pipelines.assets.ingest import EPISODE_ANNOTATIONS, EPISODE_ZARR
from pipelines.assets.raw import RAW_EPISODE
from pipelines.due import due_partitions, stale_partitions
from pipelines.events import latest_observed, latest_versions
from pipelines.partitions import RECORDINGS, add_keys

FROM_RAW, FROM_ZARR = get_input_data_version_tag(RAW_EPISODE), get_input_data_version_tag(EPISODE_ZARR)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as found:
        yield found


def see(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str, **tags: str) -> None:
    instance.report_runless_asset_event(dg.AssetObservation(key, partition=partition, tags=tags))


def make(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str, **tags: str) -> None:
    instance.report_runless_asset_event(dg.AssetMaterialization(key, partition=partition, tags=tags))


def fill(instance: dg.DagsterInstance, count: int) -> None:
    add_keys(instance, RECORDINGS, keys=[f"{number:03d}" for number in range(count)])
    for number in range(count):
        see(instance, RAW_EPISODE, f"{number:03d}", **{DATA_VERSION_TAG: "1"})
        make(instance, EPISODE_ZARR, f"{number:03d}", **{DATA_VERSION_TAG: f"built{number}", FROM_RAW: "1"})


def test_what_was_tried_or_waits_for_its_episode_is_not_due(instance: dg.DagsterInstance) -> None:
    fill(instance, 4)
    see(instance, RAW_EPISODE, "000", **{DATA_VERSION_TAG: "2"})  # delivered again
    see(instance, RAW_EPISODE, "001", **{DATA_VERSION_TAG: "2"})
    see(instance, EPISODE_ZARR, "001", **{FROM_RAW: "2"})  # and failed on it
    make(instance, EPISODE_ANNOTATIONS, "002", **{FROM_RAW: "1", FROM_ZARR: "built2"})
    assert latest_observed(instance, RAW_EPISODE) == {"000": "2", "001": "2", "002": "1", "003": "1"}
    assert latest_versions(instance, EPISODE_ZARR) == {f"00{number}": f"built{number}" for number in range(4)}
    assert stale_partitions(instance, EPISODE_ZARR) == ["000", "001"]
    assert due_partitions(instance, EPISODE_ZARR) == ["000"]
    assert stale_partitions(instance, EPISODE_ANNOTATIONS) == ["000", "001", "003"]
    assert due_partitions(instance, EPISODE_ANNOTATIONS) == ["003"]


@pytest.mark.parametrize("key", [EPISODE_ZARR, EPISODE_ANNOTATIONS])
def test_the_queries_do_not_grow_with_the_partitions(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, key: dg.AssetKey
) -> None:
    asked: list[str] = []
    for name in ("get_latest_storage_id_by_partition", "get_latest_tags_by_partition", "get_event_records"):
        real = getattr(instance.event_log_storage, name)
        monkeypatch.setattr(instance.event_log_storage, name, lambda *args, real=real, **more: asked.append("") or real(*args, **more))
    fill(instance, 2)
    due_partitions(instance, key)
    few, asked[:] = len(asked), []
    fill(instance, 30)
    due_partitions(instance, key)
    assert len(asked) <= few <= 20
