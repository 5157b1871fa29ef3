"""How long do freezing and loading take on a large catalog, and what does a grown dataset read?

python benchmarks/dataset_scale.py [--episodes 100000] [--grown 1000]

The catalog is a Lance table `episodes` of that many rows, made of one real episode's row with other ids, digests, operators and
sessions; nothing else of the store is needed to freeze. Then a real zarr store of small episodes: statistics of 1,000 of them, then of
10 more, then of all from nothing.
"""

import argparse
import hashlib
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from egodata.catalog import Manifest, freeze, load_dataset
from egodata.catalog.manifest import HeadEpisode
from egodata.catalog.rules import DatasetRule, checked_rule
from egodata.formats.lance import build_lance
from egodata.formats.lance.commit import replace_episodes, stage
from egodata.formats.lance.tables import EPISODES, named_versions, open_table, version_property
from egodata.formats.zarr import ZarrStore, publish_draft
from egodata.sampling import load_recipe
from egodata.schema.layout import StorePaths, open_root
from egodata.stats import norm_stats
from egodata.testing.drafts import small_draft
from egodata.video import EncodeSettings

SETTINGS = EncodeSettings(profile="benchmark", preset="ultrafast", frames_per_chunk=50)


def timed(label: str, call: Callable[[], Any]) -> Any:
    began_cpu, began = time.process_time(), time.perf_counter()
    out = call()
    print(f"| {label} | {time.perf_counter() - began:.2f} | {time.process_time() - began_cpu:.2f} |", flush=True)
    return out


def hexed(*parts: object) -> str:
    return hashlib.sha256(" ".join(map(str, parts)).encode()).hexdigest()


def large_catalog(paths: StorePaths, folder: Path, episodes: int) -> None:
    """Publish one episode, copy it to Lance, and add as many rows to the table `episodes` with one commit."""
    publish_draft(
        paths, small_draft(folder, frames=40, size=(32, 24), seed=0, episode_id="e0", operator="a", annotations={}), settings=SETTINGS
    )
    build_lance(paths)
    table = open_table(paths, EPISODES)
    row = table.to_table().to_pylist()[0]
    rows = []
    for i in range(episodes):
        name = hexed("id", i)[:24]
        changes = {"episode_id": name, "recording_id": name, "episode_index": i, "content": hexed("c", i), "media_digest": hexed("m", i)}
        rows.append(
            {**row, **changes, "operator": hexed("o", i % 400)[:24], "session": f"{hexed('s', i // 9)[:16]}/2026-01-01", "attributes": "{}"}
        )
    batch = pa.Table.from_pylist(rows, schema=table.schema).to_batches()
    versions = named_versions(table)
    properties = {version_property(name): str(version) for name, version in versions.items() if name != EPISODES}
    replace_episodes(table, ["e0"], fragments=stage(table, batch, schema=table.schema), properties=properties)


def at_scale(episodes: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = open_root(Path(folder) / "store", create=True)
        large_catalog(paths, Path(folder), episodes)
        rule = DatasetRule(name="large", heads=("train", "seen", "unseen_operator"), held_out_operators=(f"mecka/{hexed('o', 7)[:24]}",))
        print(f"{episodes} episodes of 400 operators\n\n| work | wall s | CPU s |\n|---|---|---|")
        for algorithm in ("shuffle-v1", "hash-v1"):
            made = checked_rule(DatasetRule(**{**{k: getattr(rule, k) for k in rule.__dataclass_fields__}, "algorithm": algorithm}))
            frozen = timed(f"freeze from Lance, {algorithm}", lambda made=made: freeze(paths, made, version=made.algorithm, format="lance"))
        timed("freeze the same again", lambda: freeze(paths, made, version="hash-v1", format="lance"))
        timed("load, gates included", lambda: load_dataset(paths, "large@hash-v1"))
        timed("load, and look for 64 episodes in Lance", lambda: load_dataset(paths, "large@hash-v1", format="lance"))
        timed("load, and look for every episode in Lance", lambda: load_dataset(paths, "large@hash-v1", format="lance", sample=None))
        counts = {head: len(members) for head, members in frozen.manifest.heads.items()}
        print(f"\nheads {counts}; manifest {frozen.path.stat().st_size / 1e6:.2f} MB\n")


class Counting(ZarrStore):
    """Counts the episodes that are opened."""

    opened = 0

    def open(self, episode_id: str, *, content: str | None = None):
        type(self).opened += 1
        return super().open(episode_id, content=content)


def grown(episodes: int) -> None:
    import egodata.stats.compute as compute

    compute.open_store = lambda paths, format, versions=None: Counting(paths)
    recipe, more = load_recipe("human_wrist6d"), 10
    with tempfile.TemporaryDirectory() as folder:
        paths = open_root(Path(folder) / "store", create=True)
        head = []
        for i in range(episodes + more):
            draft = small_draft(Path(folder), frames=40, size=(32, 24), seed=i, episode_id=f"e{i:05d}", operator="a", annotations={})
            digests = publish_draft(paths, draft, settings=SETTINGS)
            head.append(HeadEpisode(draft.meta.episode_id, 40, digests.content))
        print(f"{episodes} and {more} more episodes of 40 frames in zarr\n\n| work | wall s | CPU s |\n|---|---|---|")

        def run(label: str, version: str, members: list[HeadEpisode]) -> bytes:
            Counting.opened = 0
            manifest = Manifest("grown", version, "", {"train": tuple(members)}, {})
            found = timed(label, lambda: norm_stats(paths, manifest, recipe=recipe))
            print(f"| ... opened in the store: {Counting.opened} episodes | | |")
            return found.path.read_bytes()

        run("statistics from nothing", "v1", head[:episodes])
        after = run(f"{more} more", "v2", head)
        shutil.rmtree(paths.cache)
        shutil.rmtree(paths.root / "norm_stats")
        fresh = run("all of them from nothing", "v2", head)
        print(f"\ngrown and fresh files are {'equal' if after == fresh else 'DIFFERENT'}, {len(fresh)} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--grown", type=int, default=1000)
    options = parser.parse_args()
    if options.episodes:
        at_scale(options.episodes)
    if options.grown:
        grown(options.grown)


if __name__ == "__main__":
    main()
