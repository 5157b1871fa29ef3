"""Raw recordings: seen by size and mtime, never opened here."""

from collections.abc import Iterable, Mapping

import dagster as dg
from dagster._core.definitions.data_version import DATA_VERSION_TAG

from egodata.schema.layout import StorePaths
from pipelines.partitions import RECORDINGS
from pipelines.resources import OWNER
from pipelines.units import Unit, units

RAW_EPISODE = dg.AssetKey("raw_episode")
OBSERVE_LIMIT = 500

raw_episode = dg.AssetSpec(
    RAW_EPISODE,
    partitions_def=RECORDINGS,
    group_name="raw",
    kinds={"file"},
    owners=[OWNER],
    description="One recording as a vendor delivered it. Its data version follows path, size and mtime of its files.",
)


def raw_news(paths: StorePaths, known: Mapping[str, str]) -> tuple[dict[str, Unit], list[Unit]]:
    """Look at all registered deliveries.

    Args:
        paths: The store.
        known: Data version per partition as last observed.

    Returns:
        Every partition by key, and those that are new or changed, sorted by key.
    """
    found = units(paths)
    return found, [unit for key, unit in found.items() if known.get(key) != unit.version]


def raw_events(news: Iterable[Unit]) -> list[dg.AssetObservation]:
    """Return the event that reports each new or changed partition."""
    return [
        dg.AssetObservation(
            RAW_EPISODE,
            partition=unit.key,
            tags={DATA_VERSION_TAG: unit.version},
            metadata={
                "vendor": unit.delivery.vendor,
                "delivery": dg.MetadataValue.path(unit.delivery.raw),
                "recordings": len(unit.recordings),
            },
        )
        for unit in news
    ]
