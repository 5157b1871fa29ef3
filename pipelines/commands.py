"""The commands for people without a browser, and for cron."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import dagster as dg

from egodata.cli.console import echo, print_table
from egodata.errors import InputError
from egodata.names import shell_word
from egodata.parity import latest
from egodata.schema.layout import StorePaths, open_root, require_writable
from pipelines.deliveries import Delivery, deliveries, register
from pipelines.due import stale_partitions
from pipelines.instance import open_instance
from pipelines.partitions import RECORDINGS
from pipelines.resources import STORE_VARIABLE
from pipelines.server import served_at
from pipelines.state import AssetState, asset_states, failed_partitions
from pipelines.work import PARTITIONS, Asked, all_partitions, asset_keys, look_again, run_assets, run_partitions

SHOWN = 50
REASON_WIDTH = 400


def _open(store: Path, *, create: bool = False) -> StorePaths:
    paths = open_root(store, create=create)
    require_writable(paths)
    os.environ[STORE_VARIABLE] = str(paths.root)
    return paths


def watch(store: Path, raw: Path, *, vendor: str, dataset: str, delivery: str) -> int:
    """Register a delivery and say what it holds.

    Raises:
        InputError: It is no such delivery.
        NotFoundError: No such vendor.
    """
    item = Delivery(vendor=vendor, raw=str(raw.absolute()), dataset=dataset, delivery=delivery)
    found = item.discover()  # what is no delivery is refused before the store watches it
    paths = _open(store, create=True)
    register(paths, item)
    with open_instance(paths) as instance:
        news = look_again(instance, paths)
    echo(f"{raw}: {len(found.recordings)} recordings, {len(found.refused)} refused, {len(found.absent)} listed but not delivered")
    echo(f"{news} partitions are new or changed. Next: egopipe backfill episode_zarr --store {shell_word(store)}")
    return 0


def materialize(store: Path, assets: Sequence[str], *, partitions: Sequence[str]) -> int:
    """Materialise assets, or partitions of one; 1 if something failed.

    Raises:
        InputError: Partitions were given for several assets.
        NotFoundError: No such asset or partition.
    """
    keys = asset_keys(assets)
    if partitions and len(keys) != 1:
        raise InputError(f"--partition: names partitions of one asset, got {len(keys)} assets. Use `egopipe backfill` for several.")
    paths = _open(store)
    with open_instance(paths) as instance:
        if partitions:
            look_again(instance, paths)
            return _say(run_partitions(instance, paths, key=keys[0], partitions=partitions), keys, paths)
        return _say(run_assets(instance, paths, keys=keys), keys, paths)


def backfill(store: Path, assets: Sequence[str], *, partitions: Sequence[str], everything: bool, failed: bool) -> int:
    """Materialise partitions of one asset after the other; 1 if some failed.

    Raises:
        InputError: Several choices at once, or an asset without partitions.
        NotFoundError: No such asset or partition.
    """
    if bool(partitions) + everything + failed > 1:
        raise InputError("backfill: --partition, --all and --failed exclude each other. Give one, or none for what is missing or stale.")
    keys, paths, status = asset_keys(assets), _open(store), 0
    with open_instance(paths) as instance:
        look_again(instance, paths)
        for key in keys:
            chosen = list(partitions) or _chosen(instance, paths, key, everything=everything, failed=failed)
            if not chosen:
                echo(f"{key.to_user_string()}: nothing to do")
                continue
            status |= _say(run_partitions(instance, paths, key=key, partitions=chosen), [key], paths)
    return status


def _chosen(instance: dg.DagsterInstance, paths: StorePaths, key: dg.AssetKey, *, everything: bool, failed: bool) -> list[str]:
    definition = PARTITIONS[key.to_user_string()]
    if definition is None:
        raise InputError(f"asset {key.to_user_string()}: has no partitions. Use `egopipe materialize {shell_word(key.to_user_string())}`.")
    if failed:
        return list(failed_partitions(instance, paths, key=key, definition=definition))
    if everything:
        return all_partitions(instance, key)
    if definition is RECORDINGS:
        stale = set(stale_partitions(instance, key))
        return [part for part in all_partitions(instance, key) if part in stale]
    there = instance.get_materialized_partitions(key)
    return [part for part in all_partitions(instance, key) if part not in there]


def _say(asked: Asked, keys: Sequence[dg.AssetKey], paths: StorePaths) -> int:
    names = ", ".join(key.to_user_string() for key in keys)
    echo(f"{names}: {asked.done} done, {len(asked.failed)} failed ({asked.where})")
    if asked.failed:
        rows = [[what, reason[:REASON_WIDTH]] for what, reason in list(asked.failed.items())[:SHOWN]]
        print_table("Failed", ["what", "reason"], rows)
        if len(asked.failed) > SHOWN:
            echo(f"and {len(asked.failed) - SHOWN} more")
    verdicts = _failed_verdicts(paths, {key.to_user_string() for key in keys})
    for line in verdicts:
        echo(f"parity failed: {line}")
    return int(bool(asked.failed or verdicts))


def _failed_verdicts(paths: StorePaths, assets: set[str]) -> list[str]:
    """Return the newest failed verdicts that the parity assets among some assets wrote: making them worked, what they found did not."""
    rows = latest(paths) if assets & {"parity_report", "loader_parity"} else []
    wanted = [row for row in rows if ("loader_parity" if row["dataset"] else "parity_report") in assets and not row["passed"]]
    return [f"{row['level']} level{' of ' + row['dataset'] if row['dataset'] else ''}, {row['findings']} findings" for row in wanted]


def status(store: Path, *, as_json: bool) -> int:
    """Print how every asset stands; 1 if something failed."""
    paths = _open(store)
    with open_instance(paths) as instance:
        states = asset_states(instance, paths)
    address = served_at(paths)
    if as_json:
        assets = {
            state.asset: {
                "partitions": state.partitions,
                "materialized": state.materialized,
                "failed": state.failed,
                "stale": list(state.stale),
            }
            for state in states
        }
        found = {"address": address, "assets": assets, "deliveries": [item.raw for item in deliveries(paths)]}
        echo(json.dumps(found, sort_keys=True, ensure_ascii=False))
    else:
        _print_states(states, address, paths)
    return int(any(state.failed for state in states))


def _print_states(states: Sequence[AssetState], address: str | None, paths: StorePaths) -> None:
    echo(f"served at {address}" if address else f"not served now; `egopipe up --store {shell_word(paths.root)}` starts the UI")
    rows = [[s.asset, "-" if s.partitions is None else s.partitions, s.materialized, len(s.failed), len(s.stale)] for s in states]
    print_table("Assets", ["asset", "partitions", "there", "failed", "stale"], rows)
    failed = [[s.asset, part, why[:REASON_WIDTH]] for s in states for part, why in s.failed.items()]
    if failed:
        print_table("Failed", ["asset", "partition", "reason"], failed[:SHOWN])
        if len(failed) > SHOWN:
            echo(f"and {len(failed) - SHOWN} more")
    for state in states:
        if state.stale:
            more = f" and {len(state.stale) - SHOWN} more" if len(state.stale) > SHOWN else ""
            echo(f"stale: {state.asset}: {', '.join(state.stale[:SHOWN])}{more}")
