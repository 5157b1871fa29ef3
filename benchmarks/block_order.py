"""What does block order save, and what does it cost?

    python benchmarks/block_order.py STORE NAME@VERSION [--recipe human_wrist6d] [--batches 40]

Uniform order and block order take turns batch by batch in one process; CPU time per sample, images included. The price: samples of a batch
are more alike than independent ones, so the mean of a batch scatters more. Effective batch size = batch x (variance of a uniform batch's
mean / variance of a block batch's mean), over a whole epoch, for the wrist's motion over the next second (actions) and for the hour-hand of
the data, the episode itself (share of batches' distinct episodes).
"""

import argparse
import time
from pathlib import Path

import numpy as np

from egodata.catalog import load_dataset
from egodata.sampling import BlockOrder, HeadSource, load_recipe
from egodata.sampling.plans import Blocks, Uniform
from egodata.sampling.runs import DecodedRuns
from egodata.schema.layout import open_root

BATCH = 64
OPEN = (4, 8, 16, 32)


def cost(source: HeadSource, plans: dict[str, tuple], batches: int) -> dict[str, list[float]]:
    keys = {name: plan.keys(0, batch_size=BATCH, ranks=1)[:, 1] for name, (plan, _) in plans.items()}
    times: dict[str, list[float]] = {name: [] for name in plans}
    for number in range(-4, batches):  # the first four warm up
        for name in sorted(plans, reverse=number % 2 == 0):
            at = (number + 4) * BATCH
            start = time.process_time()
            source.samples(keys[name][at : at + BATCH].tolist(), epoch=0, runs=plans[name][1])
            if number >= 0:
                times[name].append((time.process_time() - start) / BATCH * 1e3)
    return times


def end_motion(source: HeadSource) -> np.ndarray:
    """Where each sample's action ends: (N, D), invalid cells as the mean."""
    ends = np.concatenate([windows.actions[:, -1] for _, windows in source.windows()])
    return np.where(np.isfinite(ends), ends, np.nanmean(ends, axis=0))


def spread(values: np.ndarray, order: np.ndarray) -> float:
    means = values[order[: len(order) // BATCH * BATCH]].reshape(-1, BATCH, values.shape[1]).mean(1)
    return float(means.var(axis=0).sum())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    parser.add_argument("dataset")
    parser.add_argument("--recipe", default="human_wrist6d")
    parser.add_argument("--batches", type=int, default=40)
    args = parser.parse_args()
    paths = open_root(args.store)
    source = HeadSource.open(paths, load_dataset(paths, args.dataset), head="train", recipe=load_recipe(args.recipe), format="zarr")
    uniform = Uniform(len(source), 0)
    orders = {n: BlockOrder(open_runs=n, lanes=1) for n in OPEN}
    blocks = {n: Blocks(source.index.offsets, source.index.frames, 0, order) for n, order in orders.items()}
    plans = {"uniform": (uniform, None), "blocks": (blocks[8], DecodedRuns(30, kept=16))}
    batches = min(args.batches, len(source) // BATCH - 4)
    times = cost(source, plans, batches)
    median = {name: float(np.median(found)) for name, found in times.items()}
    print(f"{len(source)} samples, {len(source.episodes)} episodes, {batches} batches of {BATCH} each")
    print("CPU ms / sample: " + ", ".join(f"{name} {value:.2f}" for name, value in median.items()))
    print(f"uniform / blocks (8 open runs of 30 frames): {median['uniform'] / median['blocks']:.2f}")
    values = end_motion(source)
    values = (values - values.mean(0)) / (values.std(0) + 1e-9)
    base = np.mean([spread(values, uniform.keys(e, batch_size=BATCH, ranks=1)[:, 1]) for e in range(20)])
    ordinals = np.repeat(np.arange(len(source.episodes)), np.diff(source.index.offsets))
    for n, plan in blocks.items():
        made = [plan.keys(e, batch_size=BATCH, ranks=1)[:, 1] for e in range(20)]
        ratio = base / np.mean([spread(values, order) for order in made])
        distinct = np.mean([len(set(batch)) for order in made for batch in ordinals[order].reshape(-1, BATCH).tolist()])
        print(f"{n:3} open runs: effective batch {BATCH * ratio:5.1f} of {BATCH}, {distinct:.1f} distinct episodes in a batch")
    order = uniform.keys(0, batch_size=BATCH, ranks=1)[:, 1]
    whole = ordinals[order[: len(order) // BATCH * BATCH]].reshape(-1, BATCH)
    print(f"uniform: {np.mean([len(set(batch)) for batch in whole.tolist()]):.1f} distinct episodes in a batch")


if __name__ == "__main__":
    main()
