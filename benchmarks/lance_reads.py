"""Which way of reading consecutive rows of one Lance table is cheap, and what does finding an episode's rows cost?

    python benchmarks/lance_reads.py [--episodes 300]

A made-up frames table (200 rows per episode, 25 feature columns, one fragment, two episodes deleted). Milliseconds, median of 30, warm,
in one run; the machine may be shared, so compare the rows of one table, not two runs.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

ROWS = 200
WIDTHS = [7] * 6 + [63] * 2 + [1] * 17


def batch(episode: int, rng: np.random.Generator) -> pa.RecordBatch:
    columns = {"episode_id": pa.array([f"e{episode:05}"] * ROWS).dictionary_encode()}
    for place, width in enumerate(WIDTHS):
        flat = pa.array(rng.normal(size=ROWS * width).astype(np.float32))
        columns[f"f{place}"] = pa.FixedSizeListArray.from_arrays(flat, width) if width > 1 else flat
    return pa.record_batch(columns)


def median_ms(work: Callable[[], object]) -> float:
    work()
    times = []
    for _ in range(30):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=300)
    episodes = parser.parse_args().episodes
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        first = batch(0, rng)
        rows = (batch(episode, rng) if episode else first for episode in range(episodes))
        reader = pa.RecordBatchReader.from_batches(first.schema, rows)
        table = lance.write_dataset(reader, Path(folder) / "t.lance", data_storage_version="2.2")
        table.delete("episode_id IN ('e00001', 'e00002')")
        start = (episodes // 2 - 2) * ROWS
        names = [f"f{place}" for place in range(len(WIDTHS))]
        one, six = ["f6"], names[:6]
        print("| read | take(indices) ms | to_table(offset, limit) ms |\n|---|---|---|")
        for label, columns, count in (
            ("30 rows, 1 column", one, 30),
            ("30 rows, 6 columns", six, 30),
            ("200 rows, 25 columns", names, ROWS),
        ):
            taken = median_ms(lambda columns=columns, count=count: table.take(list(range(start, start + count)), columns=columns))
            scanned = median_ms(lambda columns=columns, count=count: table.to_table(columns=columns, offset=start, limit=count))
            print(f"| {label} | {taken:.2f} | {scanned:.2f} |")
        found = median_ms(lambda: table.to_table(columns=["episode_id"]))
        print(f"\nscan of episode_id, {table.count_rows()} rows: {found:.2f} ms")


if __name__ == "__main__":
    main()
