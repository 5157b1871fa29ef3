"""How long does a filter over a catalog of 100,000 episodes take, with and without a registry over it?

    python benchmarks/catalog_filter.py [--episodes 100000]

A made-up `episodes` table with 3 KB of attributes per row, in a temporary store. Seconds per query, all that a caller waits for: opening
the table at the versions that the newest commit names, reading columns, the engine, and all columns of what it finds. The first query and
the median of ten.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from egodata.catalog.known import REGISTRY_SCHEMA, save_registry
from egodata.catalog.query import find_episodes
from egodata.formats.lance import build_lance
from egodata.formats.lance.commit import replace_episodes, stage
from egodata.formats.lance.tables import DATA_TABLES, EPISODES, SCHEMAS, open_table, table_versions, version_property
from egodata.schema.layout import StorePaths, open_root

QUERIES = {
    "1 in 60": "task_name = 'task_3' AND n_frames > 200",
    "all": "n_frames > 0",
    "one": "episode_id = '000000000000000000000007'",
}


def fill(paths: StorePaths, count: int) -> list[str]:
    build_lance(paths)
    rng = np.random.default_rng(0)
    ids = [f"{number:024x}" for number in rng.permutation(count)]
    known = {
        "episode_id": ids,
        "recording_id": ids,
        "vendor": ["mecka"] * count,
        "attributes": ["x" * 3000] * count,
        "task_name": [f"task_{at % 40}" for at in range(count)],
        "operator": [f"op{at % 300}" for at in range(count)],
        "n_frames": rng.integers(50, 500, count).tolist(),
        "delivery": [f"d{at % 20}" for at in range(count)],
        "cameras": [["front_1"]] * count,
        "annotation_keys": [["annotations_subtask"]] * count,
    }
    plain = {pa.string(): "v", pa.bool_(): True, pa.float64(): 30.0, pa.int64(): 1}
    columns = [pa.array(known.get(field.name, [plain.get(field.type)] * count), field.type) for field in SCHEMAS[EPISODES]]
    table = pa.Table.from_arrays(columns, schema=SCHEMAS[EPISODES])
    versions, episodes = table_versions(paths), open_table(paths, EPISODES)
    staged = stage(episodes, table.to_batches(), schema=table.schema)
    properties = {version_property(name): str(versions[name]) for name in DATA_TABLES}
    replace_episodes(episodes, [], fragments=staged, properties=properties)
    return ids


def report(paths: StorePaths, title: str) -> None:
    for name, expression in QUERIES.items():
        times = []
        for _ in range(11):
            start = time.perf_counter()
            found = find_episodes(paths, expression).num_rows
            times.append(time.perf_counter() - start)
        print(f"{title:18}{name:10}{found:8} rows  first {times[0]:.3f} s  median {statistics.median(times[1:]):.3f} s")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=100_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = open_root(Path(folder) / "store", create=True)
        ids = fill(paths, args.episodes)
        report(paths, "no registry")
        said = {"episode_id": ids, "operator": [f"r{at % 50}" for at in range(len(ids))], "scene": ["kitchen"] * len(ids)}
        save_registry(
            paths, pa.table({field.name: pa.array(said.get(field.name, [None] * len(ids)), field.type) for field in REGISTRY_SCHEMA})
        )
        report(paths, "with a registry")


if __name__ == "__main__":
    main()
