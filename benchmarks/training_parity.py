"""Does a run give the same answer on zarr and on Lance, and how far apart is it where the Lance video was encoded again?

    python benchmarks/training_parity.py FOLDER [--episodes 24] [--steps 500] [KEY=VALUE ...]

Generates a delivery in FOLDER, ingests it, freezes the shipped `synthetic` rule, copies the store, and builds Lance with the very bytes
in one and as AV1 in the other. Trains `experiment=synthetic` on zarr and Lance of each and prints a table of every metric. What is
already in FOLDER is not made again; further words go to the run.
"""

import argparse
import shutil
import sys
import time
from pathlib import Path

from egodata.catalog import freeze
from egodata.catalog.rules import load_rule
from egodata.formats.lance import build_lance
from egodata.ingest import IngestOptions, ingest
from egodata.schema.layout import open_root
from egodata.testing.world import WorldOptions, write_delivery
from egotrain.compose import compose_fit
from egotrain.numerics import environment
from egotrain.parity import TrainingParity, training_parity


def make_stores(folder: Path, options: WorldOptions) -> dict[str, Path]:
    """Return the two stores, by how the Lance video came about."""
    stores = {"copy": folder / "store", "av1": folder / "store_av1"}
    write_delivery(folder / "delivery", options)
    ingest(folder / "delivery", options=IngestOptions(vendor="mecka", store=stores["copy"]))
    freeze(open_root(stores["copy"]), load_rule("synthetic"), format="zarr")
    if not stores["av1"].exists():
        shutil.copytree(stores["copy"], stores["av1"], symlinks=True, ignore=shutil.ignore_patterns("lance_v2"))
    for video, store in stores.items():
        build_lance(open_root(store), video=video)
    return stores


def table(found: dict[str, TrainingParity]) -> list[str]:
    """Return a Markdown table: every metric on zarr, and its relative difference on each copy."""
    lines = [
        "| metric | zarr | " + " | ".join(f"Lance {name}, relative difference" for name in found) + " |",
        "|---|---|" + "---|" * len(found),
    ]
    first = next(iter(found.values()))
    by_name = {name: {gap.name: gap for gap in one.gaps} for name, one in found.items()}
    for gap in first.metrics():
        if " policy " in gap.name and "/" not in gap.name:
            cells = [f"{by_name[name][gap.name].relative:.2%}" for name in found]
            lines.append(f"| {gap.name.replace(' policy', '')} | {gap.zarr:.5g} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Make, train four times, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--episodes", type=int, default=24)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("words", nargs="*")
    options = parser.parse_intermixed_args()
    stores = make_stores(options.folder, WorldOptions(operators=6, episodes=options.episodes, seed=0, size=(320, 180)))
    found = {}
    for video, store in stores.items():
        began = time.process_time()
        words = [
            "experiment=synthetic",
            f"store={store}",
            "dataset=synthetic@v1",
            "run=parity",
            f"trainer.max_steps={options.steps}",
            *options.words,
        ]
        found[video] = training_parity(
            compose_fit(words), tolerance=0.0 if video == "copy" else 10.0, say=lambda line: print(line, file=sys.stderr)
        )
        one = found[video]
        losses = [gap for gap in one.gaps if gap.name.startswith("loss at step")]
        equal = [sum(gap.relative == 0 for gap in gaps) for gaps in (losses, one.metrics())]
        print(
            f"{video}: {equal[0]} of {len(losses)} losses and {equal[1]} of {len(one.metrics())} metrics equal to the last bit, "
            f"{one.samples[1]} of {one.samples[0]} samples differ, weights {'equal' if one.weights_equal else 'differ'}; "
            f"{time.process_time() - began:.0f} CPU seconds for two runs"
        )
    machine = environment()
    print(f"\n{machine['cpu_capability']}, {compose_fit(words).trainer.threads} thread, torch {machine['packages']['torch']}\n")
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
