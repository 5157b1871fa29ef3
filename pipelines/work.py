"""`egopipe materialize` and `egopipe backfill`: through the running server if there is one, else in this process on the same instance."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import dagster as dg

from egodata.errors import GateError, InputError, NotFoundError
from egodata.names import nearest, shell_word
from egodata.schema.layout import StorePaths
from pipelines import remote
from pipelines.assets.raw import RAW_EPISODE, raw_events, raw_news
from pipelines.events import latest_observed
from pipelines.launch import Launcher, RunFailedError
from pipelines.partitions import DATASET_RECIPES, DATASETS, RECORDINGS, add_keys, split_key
from pipelines.resources import STORE_VARIABLE
from pipelines.server import served_at
from pipelines.state import failed_partitions, run_reason

PARTITIONS: Mapping[str, dg.DynamicPartitionsDefinition | None] = {
    "episode_zarr": RECORDINGS,
    "episode_annotations": RECORDINGS,
    "episode_calibration": RECORDINGS,
    "lance_v2": None,
    "parity_report": None,
    "dataset": DATASETS,
    "norm_stats": DATASET_RECIPES,
    "loader_parity": DATASET_RECIPES,
}
"""What can be asked for by name; a training run needs a config and is started in the UI or with `egotrain fit`."""
_PARTS = {"datasets": 2, "dataset_recipes": 3}


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of a request.

    Attributes:
        where: Address of the server, or ``this process``.
        failed: Reason by ``asset`` or ``asset partition``.
        done: How many partitions or assets were asked for and are there now.
    """

    where: str
    done: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)


def asset_keys(names: Sequence[str]) -> list[dg.AssetKey]:
    """Return the keys of assets in the order in which they follow each other.

    Raises:
        NotFoundError: No such asset.
    """
    for name in names:
        if name not in PARTITIONS:
            raise NotFoundError(f"asset {name}: {nearest(name, PARTITIONS)}")
    return [dg.AssetKey(name) for name in PARTITIONS if name in names]


def look_again(instance: dg.DagsterInstance, paths: StorePaths) -> int:
    """Observe the registered deliveries now, without waiting for uploads to settle: whoever asks for work says that they are complete."""
    found, news = raw_news(paths, latest_observed(instance, RAW_EPISODE))
    add_keys(instance, RECORDINGS, keys=found)
    for event in raw_events(news):
        instance.report_runless_asset_event(event)
    return len(news)


def run_assets(instance: dg.DagsterInstance, paths: StorePaths, *, keys: Sequence[dg.AssetKey]) -> Asked:
    """Materialise assets without partitions, in one run.

    Raises:
        InputError: One of them has partitions.
    """
    for key in keys:
        if PARTITIONS[key.to_user_string()] is not None:
            raise InputError(f"asset {key.to_user_string()}: has partitions. Say which with --partition, or use `egopipe backfill`.")
    address, names = served_at(paths), [key.to_user_string() for key in keys]
    if address is not None:
        run_id = remote.launch(address, keys)
        good = remote.wait_for_run(instance, run_id, alive=lambda: served_at(paths) is not None)
        return Asked(address, len(keys) if good else 0, {} if good else {", ".join(names): run_reason(instance, run_id)})
    os.environ[STORE_VARIABLE] = str(paths.root)
    launcher = Launcher(instance)
    for place, key in enumerate(keys):
        try:
            launcher.asset(key)
        except (GateError, RunFailedError) as error:
            return Asked("this process", place, {key.to_user_string(): str(error)})
    return Asked("this process", len(keys))


def run_partitions(instance: dg.DagsterInstance, paths: StorePaths, *, key: dg.AssetKey, partitions: Sequence[str]) -> Asked:
    """Materialise partitions of one asset; those that fail are named with their reason.

    Raises:
        InputError: The asset has no partitions.
        NotFoundError: No such partition.
    """
    name = key.to_user_string()
    definition = PARTITIONS[name]
    if definition is None:
        raise InputError(f"asset {name}: has no partitions. Use `egopipe materialize {shell_word(name)}`.")
    _require_known(instance, definition, partitions)
    address = served_at(paths)
    if address is not None:
        started = remote.backfill(address, [key], partitions=partitions, title=f"egopipe backfill {shell_word(name)}")
        remote.wait_for_backfill(instance, started, alive=lambda: served_at(paths) is not None)
    else:
        os.environ[STORE_VARIABLE] = str(paths.root)
        _run_here(Launcher(instance), key, definition, partitions)
    failed = failed_partitions(instance, paths, key=key, definition=definition, only=set(partitions))
    return Asked(address or "this process", len(partitions) - len(failed), {f"{name} {part}": why for part, why in failed.items()})


def _run_here(launcher: Launcher, key: dg.AssetKey, definition: dg.DynamicPartitionsDefinition, partitions: Sequence[str]) -> None:
    if definition is RECORDINGS:
        launcher.partitions(key, definition, keys=partitions)
        return
    for partition in partitions:
        try:
            launcher.asset(key, partition=partition)
        except (GateError, RunFailedError):
            continue  # told from the instance, with the others


def _require_known(instance: dg.DagsterInstance, definition: dg.DynamicPartitionsDefinition, partitions: Sequence[str]) -> None:
    name = definition.name or ""
    if name in _PARTS:  # a dataset or recipe is asked for by naming it
        for partition in partitions:
            split_key(partition, _PARTS[name])
        add_keys(instance, definition, keys=partitions)
        return
    known = set(instance.get_dynamic_partitions(name))
    for partition in partitions:
        if partition not in known:
            raise NotFoundError(f"partition {partition}: no registered delivery holds it; {nearest(partition, known)}")


def all_partitions(instance: dg.DagsterInstance, key: dg.AssetKey) -> list[str]:
    """Return every partition that an asset has."""
    definition = PARTITIONS[key.to_user_string()]
    return [] if definition is None else list(instance.get_dynamic_partitions(definition.name or ""))
