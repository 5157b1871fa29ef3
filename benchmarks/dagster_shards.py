"""100,000 recordings in shards: really delivered, discovered and partitioned; a few shards really built, the others stood in for.

A stand-in is what a built recording leaves for others to read: its ledger entry, its link into the store, and its shard's event. So
commands plan over everything, and the later shards are built beside the ledger of all the others. Run by dagster_scale.py.
"""

import json
import os
import resource
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.definitions.data_version import DATA_VERSION_TAG, get_input_data_version_tag

from egodata.ingest.ledger import read_entry
from egodata.schema.layout import StorePaths, open_root
from egodata.testing.world import WorldOptions, write_delivery
from pipelines.assets.raw import RAW_EPISODE, raw_events
from pipelines.deliveries import Delivery, register
from pipelines.due import due_partitions
from pipelines.instance import open_instance
from pipelines.partitions import RECORDINGS, add_keys
from pipelines.state import failed_partitions
from pipelines.units import Unit, is_shard, units
from tests.e2e.served import egopipe

KEY = dg.AssetKey("episode_zarr")
LINKS = 30_000
Spent = dict[str, Any]


def shards(folder: Path, *, recordings: int = 100_000) -> Spent:
    """Measure what grows with the delivery, and what a shard costs with an empty and with a full ledger."""
    root = folder / "shards" / "store"
    shutil.rmtree(root, ignore_errors=True)
    paths = open_root(root, create=True)
    raw = paths.raw / "mecka" / "huge"
    spent: Spent = {"recordings": recordings, "delivery_written": _spent(lambda: huge(folder / "shards" / "seed", raw, recordings))}
    register(paths, Delivery(vendor="mecka", raw=str(raw)))
    found: dict[str, Unit] = {}
    spent["one_look"] = _spent(lambda: found.update(units(paths)))
    assert all(map(is_shard, found))
    assert sum(len(unit.recordings) for unit in found.values()) == recordings
    with open_instance(paths) as instance:
        spent["keys_added"] = _spent(lambda: add_keys(instance, RECORDINGS, keys=found))
        spent["versions_reported"] = _spent(lambda: [instance.report_runless_asset_event(event) for event in raw_events(found.values())])
    spent["shards"] = len(found)
    sizes = sorted(len(unit.recordings) for unit in found.values())
    spent["recordings_per_shard"] = [sizes[0], sizes[-1]]
    spent["status_nothing_built"] = _told("status", "--store", str(root))
    first, second, last, *others = sorted(found)
    broken = found[second].recordings[7]
    _break(raw / broken)
    words = ("backfill", "episode_zarr", "--store", str(root))
    built = _told(*words, "--partition", first, "--partition", second, status=1, says=broken)
    spent["two_shards_built_one_recording_broken"] = _each(built, len(found[first].recordings) + len(found[second].recordings))
    spent["others_stood_in_for"] = _spent(lambda: stand_in(paths, found[first], [found[key] for key in others]))
    spent["status_all_but_one"] = _told("status", "--store", str(root), status=1, says=broken)
    spent |= _planned(paths, failed=second, missing=last)
    _break(raw / broken, repair=True)
    spent["failed_only_after_repair"] = _told(*words, "--failed", says="1 done, 0 failed")
    done = _told(*words, says="1 done, 0 failed")  # what is missing or stale: the last shard alone
    spent["last_shard_with_a_full_ledger"] = _each(done, len(found[last].recordings))
    spent["status_everything"] = _told("status", "--store", str(root))
    return spent


def _planned(paths: StorePaths, *, failed: str, missing: str) -> Spent:
    """Time what commands and sensors ask, over all shards."""
    with open_instance(paths) as instance:
        due, bad = [], {}
        spent = {
            "due_planned": _spent(lambda: due.extend(due_partitions(instance, KEY))),
            "failed_planned": _spent(lambda: bad.update(failed_partitions(instance, paths, key=KEY, definition=RECORDINGS))),
        }
    assert (due, set(bad)) == ([missing], {failed})
    return spent


def _spent(work: Callable[[], object]) -> Spent:
    begun, cpu = time.perf_counter(), time.process_time()
    work()
    return {"wall_s": round(time.perf_counter() - begun, 2), "cpu_s": round(time.process_time() - cpu, 2)}


def _told(*words: str, status: int = 0, says: str = "") -> Spent:
    """Run one egopipe command, with its workers, and say what it took; it has to end as it should."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = egopipe(*words, timeout=3000)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (done.returncode, says in done.stdout) == (status, True), done.stdout + done.stderr
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_s": round(time.perf_counter() - begun, 1), "cpu_s": round(cpu, 1)}


def _each(spent: Spent, recordings: int) -> Spent:
    return {**spent, "recordings": recordings, "cpu_s_per_recording": round(spent["cpu_s"] / recordings, 3)}


def huge(seed: Path, raw: Path, count: int) -> None:
    """Write a delivery of tiny recordings that share their bytes by hard links; their JSON files are their own."""
    shutil.rmtree(seed, ignore_errors=True)
    (only,) = write_delivery(seed, WorldOptions(operators=1, episodes=1, seed=3, size=(64, 64), fps=10)).episodes
    source = seed / only
    meta = json.loads((source / f"{only}.json").read_text())
    for number in range(count):
        if number and number % LINKS == 0:  # a file system ends the number of links to one file
            source = Path(shutil.copytree(source, seed / f"{only}-{number}"))
        name = f"{number:024x}"
        folder = raw / name
        folder.mkdir(parents=True)
        for file in source.iterdir():
            if file.name != f"{only}.json":
                os.link(file, folder / file.name)
        (folder / f"{name}.json").write_text(json.dumps({**meta, "id": name}))


def _break(folder: Path, *, repair: bool = False) -> None:
    """Cut a recording's video off, or put it back; never through the link that it shares."""
    (video,) = folder.glob("*.mp4")
    kept = folder.parent.parent / "kept.mp4"
    if repair:
        os.replace(kept, video)
        return
    video.rename(kept)
    video.write_bytes(kept.read_bytes()[:1000])


def stand_in(paths: StorePaths, model: Unit, others: list[Unit]) -> None:
    """Leave what other shards would leave, each recording like one that was built."""
    template = model.recordings[0]
    entry = read_entry(paths, template)
    assert entry is not None
    (content,) = entry.episodes.values()
    target = paths.episode_link(template).readlink()
    for unit in others:
        for recording in unit.recordings:
            values = asdict(replace(entry, recording=recording, episodes={recording: content}))
            (paths.ledger / "ingest" / f"{recording}.json").write_text(json.dumps(values, indent=1, sort_keys=True))
            paths.episode_link(recording).symlink_to(target)
    with open_instance(paths) as instance:
        for unit in others:
            tags = {DATA_VERSION_TAG: "stand-in", get_input_data_version_tag(RAW_EPISODE): unit.version}
            instance.report_runless_asset_event(dg.AssetMaterialization(KEY, partition=unit.key, tags=tags))
