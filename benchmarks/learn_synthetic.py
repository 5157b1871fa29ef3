"""Does a small policy learn from the synthetic world within minutes on a CPU, and does it use what it sees?

    python benchmarks/learn_synthetic.py FOLDER [--episodes 90] [--operators 6] [--seed 0] [KEY=VALUE ...]

Generates a delivery in FOLDER, ingests it, freezes the shipped `synthetic` rule, trains `experiment=synthetic` and prints a table:
paired xyz error and rotation error of the policy, of the policy with the images of other samples, of holding still and of the mean
action, per head. What is already in FOLDER is not done again; further words go to `egotrain fit`: policy=rdt_cpu trains the other
policy, trainer.evaluate_every_steps=250 shows the way there.
"""

import argparse
import csv
import sys
import time
from pathlib import Path

from egodata.catalog import freeze
from egodata.catalog.rules import load_rule
from egodata.ingest import IngestOptions, ingest
from egodata.schema.layout import open_root
from egodata.testing.world import WorldOptions, write_delivery
from egotrain.build import fit
from egotrain.compose import compose_evaluate, compose_fit
from egotrain.evaluate import evaluate
from egotrain.runs import RunResult

SHOWN = {
    "head.xyz_mse_m2": ("xyz MSE, cm2", 1e4),
    "head.xyz_l2_early_m": ("L2 early, cm", 1e2),
    "head.xyz_l2_mid_m": ("L2 mid, cm", 1e2),
    "head.xyz_l2_late_m": ("L2 late, cm", 1e2),
    "head.rotation_deg": ("rotation, deg", 1.0),
}
HEADS = "heads=[seen,unseen_operator]"


def make_store(folder: Path, options: WorldOptions) -> Path:
    """Generate, ingest and freeze; return the store."""
    store = folder / "store"
    summary = write_delivery(folder / "delivery", options)
    report = ingest(folder / "delivery", options=IngestOptions(vendor="mecka", store=store))
    frozen = freeze(open_root(store), load_rule("synthetic"), format="zarr")
    heads = ", ".join(f"{head} {len(members)}" for head, members in frozen.manifest.heads.items())
    print(f"{len(summary.episodes)} episodes, {summary.frames} frames, {len(report.built)} built now; {heads}", file=sys.stderr)
    return store


def curve(run: RunResult) -> list[tuple[int, float]]:
    """Return about ten (step, training loss averaged since the one before)."""
    with (run.path / "metrics.csv").open() as file:
        losses = [(int(r["step"]), float(r["value"])) for r in csv.DictReader(file) if (r["head"], r["metric"]) == ("train", "loss")]
    size = max(1, len(losses) // 10)
    parts = [losses[at : at + size] for at in range(0, len(losses), size)]
    return [(part[-1][0], sum(loss for _, loss in part) / len(part)) for part in parts]


def progress_of(run: RunResult) -> list[str]:
    """Return lines of a table: paired xyz error in cm2 by step, where the run was evaluated on its way."""
    with (run.path / "metrics.csv").open() as file:
        found = [r for r in csv.DictReader(file) if r["metric"] == "head.xyz_mse_m2" and r["head"] != "train"]
    columns = list(dict.fromkeys((r["head"], r["who"]) for r in found))
    cells = {(int(r["step"]), r["head"], r["who"]): float(r["value"]) * 1e4 for r in found}
    lines = [f"| step | {' | '.join(f'{head}, {who}' for head, who in columns)} |", f"|{'---|' * (len(columns) + 1)}"]
    for step in sorted({step for step, _, _ in cells}):
        values = [cells.get((step, *column), float("nan")) for column in columns]
        lines.append(f"| {step} | {' | '.join(f'{value:.1f}' for value in values)} |")
    return lines


def row(name: str, head: str, scores: dict[str, float]) -> str:
    """Return a line of the table."""
    cells = [f"{scores[metric] * scale:.3g}" for metric, (_, scale) in SHOWN.items()]
    return f"| {head} | {name} | {' | '.join(cells)} |"


def main() -> None:
    """Make, train, score, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--episodes", type=int, default=90)
    parser.add_argument("--operators", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--run", default="learn")
    arguments, words = parser.parse_known_args()
    options = WorldOptions(operators=arguments.operators, episodes=arguments.episodes, seed=arguments.seed)
    store = make_store(arguments.folder, options)
    config = compose_fit(["experiment=synthetic", f"store={store}", "dataset=synthetic@v1", f"run={arguments.run}", *words])
    began, cpu_began = time.perf_counter(), time.process_time()
    run = fit(config, say=lambda line: print(line, file=sys.stderr))
    wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    spent = f"{wall_s:.0f} s and {cpu_s:.0f} CPU s in all, {run.result['train_s']:.0f} s training"
    speed = f"{run.result['samples_per_s']:.0f} samples/s, {run.result['data_wait_share']:.0%} waiting for data"
    print(f"{spent}; {run.result['steps']} steps of {config.data.batch_size}, {speed}")
    print("loss:", ", ".join(f"{loss:.4f} at {step}" for step, loss in curve(run)))
    print("\n".join(["", *progress_of(run)]))
    print(f"\n| head | who | {' | '.join(title for title, _ in SHOWN.values())} |\n|{'---|' * (len(SHOWN) + 2)}")
    plain, shuffled = (evaluate(run.path, compose_evaluate([HEADS, *extra])) for extra in ([], ["shuffle_images=true"]))
    for head, found in plain.items():
        print(row("policy", head, found.scores["policy"]))
        print(row("policy, images of other samples", head, shuffled[head].scores["policy"]))
        print(row("hold still", head, found.scores["hold_still"]))
        print(row("mean action", head, found.scores["mean_action"]))


if __name__ == "__main__":
    main()
