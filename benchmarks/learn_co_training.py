"""Does one policy learn two bodies in one run, and what does it cost either of them?

    python benchmarks/learn_co_training.py FOLDER [--humans 90] [--robots 45] [--steps 600] [KEY=VALUE ...]

Generates one world as people in Mecka's files and, with another seed, as an Eva robot's, ingests and freezes both, then trains three
runs: on people, on robots, and on both for the steps of the two together, half of the batches each. Prints paired xyz error per
head, with the baselines beside it. What is already in FOLDER is not done again; further words go to `egotrain fit`.
"""

import argparse
import sys
import time
from pathlib import Path

from egodata.catalog import freeze
from egodata.catalog.rules import load_rule
from egodata.ingest import IngestOptions, ingest
from egodata.schema.layout import open_root
from egodata.testing.world import WorldOptions, write_delivery
from egotrain.build import fit
from egotrain.compose import compose_fit
from egotrain.runs import RunResult

ROBOTS = "name: robots\nversion: v1\nwhere: {vendor: eva}\nheads: [train, seen]\nvalid_ratio: 0.2\nmin_frames: 30\n"
XYZ = ("head.xyz_mse_m2", "base.xyz_mse_m2")
WHO = ("policy", "hold_still", "mean_action", "nearest_neighbour")


def make_store(folder: Path, *, humans: int, robots: int) -> Path:
    """Generate, ingest and freeze both bodies; return the store."""
    store, rule = folder / "store", folder / "robots.yaml"
    for vendor, episodes, seed in (("mecka", humans, 0), ("eva", robots, 7)):
        delivery = folder / vendor
        write_delivery(delivery, WorldOptions(vendor=vendor, operators=6 if vendor == "mecka" else 3, episodes=episodes, seed=seed))
        report = ingest(delivery, options=IngestOptions(vendor=vendor, store=store, config=own_config(delivery, vendor)))
        print(f"{vendor}: {len(report.built)} built now, {len(report.set_aside)} set aside", file=sys.stderr)
    rule.write_text(ROBOTS)
    for name in ("synthetic", str(rule)):
        frozen = freeze(open_root(store), load_rule(name), format="zarr").manifest
        heads = ", ".join(f"{head} {len(members)}" for head, members in frozen.heads.items())
        print(f"{frozen.ref}: {heads}", file=sys.stderr)
    return store


def own_config(delivery: Path, vendor: str) -> str | None:
    """Return the vendor config that a delivery brings along, if it does."""
    path = delivery / "ground_truth" / f"{vendor}.yaml"
    return str(path) if path.is_file() else None


def rows(name: str, run: RunResult, cpu_s: float) -> list[str]:
    """Return lines of the table, cm2."""
    out = []
    for head, found in run.result["heads"].items():
        metric = next(metric for metric in XYZ if metric in found["scores"]["policy"])
        cells = [f"{found['scores'][who][metric] * 1e4:.1f}" for who in WHO]
        out.append(f"| {name} ({run.result['steps']} steps, {cpu_s:.0f} CPU s) | {head} | {' | '.join(cells)} |")
    return out


def main() -> None:
    """Make, train, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--humans", type=int, default=90)
    parser.add_argument("--robots", type=int, default=45)
    parser.add_argument("--steps", type=int, default=600)
    arguments, words = parser.parse_known_args()
    store = make_store(arguments.folder, humans=arguments.humans, robots=arguments.robots)
    both = "co_train=[{dataset: robots@v1, recipe: eva_ee20}]"
    table = []
    for name, steps, dataset in (
        ("people", arguments.steps, ["dataset=synthetic@v1"]),
        ("robots", arguments.steps, ["dataset=robots@v1", "recipe=eva_ee20"]),
        ("both", 2 * arguments.steps, ["dataset=synthetic@v1", both]),
    ):
        brief = [f"store={store}", f"run={name}", f"trainer.max_steps={steps}", "evaluation.videos=1"]
        config = compose_fit(["experiment=synthetic", *brief, *dataset, *words])
        began = time.process_time()
        run = fit(config, say=lambda line: print(line, file=sys.stderr))
        table += rows(name, run, time.process_time() - began)
        print(f"{name}: {run.result['samples_per_s']:.0f} samples/s, {run.result['data_wait_share']:.0%} waiting for data", file=sys.stderr)
    print(f"| run | head | {' | '.join(WHO)} |\n|{'---|' * (len(WHO) + 2)}")
    print("\n".join(table))


if __name__ == "__main__":
    main()
