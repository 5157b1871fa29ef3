"""Raw recordings: seen by size and mtime, never opened here."""

from collections.abc import Mapping

import dagster as dg
from dagster._core.definitions.data_version import DATA_VERSION_TAG

from egodata.schema.layout import StorePaths
from pipelines.deliveries import Delivery, observations
from pipelines.partitions import RECORDINGS

RAW_EPISODE = dg.AssetKey("raw_episode")
OBSERVE_LIMIT = 500

raw_episode = dg.AssetSpec(
    RAW_EPISODE,
    partitions_def=RECORDINGS,
    group_name="raw",
    kinds={"file"},
    description="One recording as a vendor delivered it. Its data version follows path, size and mtime of its files.",
)


def raw_observations(
    paths: StorePaths, known: Mapping[str, str], *, limit: int = OBSERVE_LIMIT
) -> tuple[dict[str, tuple[Delivery, str]], list[dg.AssetObservation]]:
    """Look at all registered deliveries.

    Args:
        paths: The store.
        known: Data version per recording as last observed.
        limit: Most observations to return; the rest follow at the next look.

    Returns:
        Every recording with its delivery and data version, and an event for each new or changed one.
    """
    found = observations(paths)
    events = [
        dg.AssetObservation(
            RAW_EPISODE,
            partition=recording,
            tags={DATA_VERSION_TAG: version},
            metadata={"vendor": delivery.vendor, "delivery": dg.MetadataValue.path(delivery.raw)},
        )
        for recording, (delivery, version) in sorted(found.items(), key=lambda item: item[0].encode())
        if known.get(recording) != version
    ]
    return found, events[:limit]
