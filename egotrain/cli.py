"""Entry point of `egotrain`."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import click

from egodata import __version__
from egodata.cli.console import ConsoleProgress, FiniteRange, PathWord, echo, print_table
from egodata.cli.main import run

PLAIN = {"ignore_unknown_options": True}
SHOWN_GAPS = 40
MOST_PIXELS = 8192
"""Of a side of an exported policy's images."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="egotrain")
@click.option("--traceback", "show_traceback", is_flag=True, help="Show where an error came from.")
def cli(show_traceback: bool) -> None:
    """Train policies on frozen datasets, and score them."""


def _say(line: str) -> None:
    click.echo(line, err=True)


@cli.command(context_settings=PLAIN)
@click.option("--multirun", "-m", is_flag=True, help="Take values with commas as sweeps: one run per combination, one after the other.")
@click.option("--list", "listed", is_flag=True, help="With --multirun: print the command of every run instead of training, for a queue.")
@click.argument("overrides", nargs=-1, metavar="KEY=VALUE...")
def fit(multirun: bool, listed: bool, overrides: tuple[str, ...]) -> None:
    """Train: egotrain fit experiment=synthetic store=S dataset=NAME@V run=NAME [format=lance] [resume=true]."""
    from egotrain.compose import compose_fit
    from egotrain.sweep import sweep

    runs = sweep(overrides) if multirun else [list(overrides)]
    configs = [compose_fit(words) for words in runs]  # a wrong word stops the whole sweep before its first run
    if listed:
        for words in runs:
            echo(shlex.join(["egotrain", "fit", *words]))
        return
    for config in configs:
        _fit(config)


def _fit(config: Any) -> None:
    from egotrain.build import fit as fit_run
    from egotrain.pipes import reporting
    from egotrain.report import result_rows, run_report

    with reporting() as report, ConsoleProgress() as progress:
        done = fit_run(config, say=_say, progress=progress)
        report(run_report(done))
    loss = f"train loss {done.train_loss!r} ({done.train_loss.hex()})"
    echo(f"run {done.run}: {'already done' if done.already_done else 'done'}, {done.result['steps']} steps, {loss}")
    for head, value in done.validation_loss.items():
        echo(f"{head} loss {value!r} ({value.hex()})")
    print_table("scores", *result_rows({head: found["scores"] for head, found in done.result["heads"].items()}))
    echo(f"{done.path}")
    echo(f"next: egotrain eval {shlex.quote(str(done.path))}")


@cli.command("eval", context_settings=PLAIN)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: scores by head, actor and metric, per operator too.")
@click.argument("run_folder", metavar="RUN", type=PathWord(path_type=Path))
@click.argument("overrides", nargs=-1, metavar="KEY=VALUE...")
def evaluate(as_json: bool, run_folder: Path, overrides: tuple[str, ...]) -> None:
    """Score a checkpoint: egotrain eval STORE/runs/NAME [format=lance] [heads=[train,seen]] [videos=1] [shuffle_images=true]."""
    from egotrain.compose import compose_evaluate
    from egotrain.evaluate import evaluate as evaluate_run
    from egotrain.report import operator_rows, result_rows

    config = compose_evaluate(overrides)
    with ConsoleProgress() as progress:
        found = evaluate_run(run_folder, config, say=_say, progress=progress)
    if as_json:
        echo(json.dumps({head: scores.to_json() for head, scores in found.items()}, sort_keys=True, allow_nan=False))
        return
    for head, scores in found.items():
        echo(f"{head} loss {scores.loss!r} ({scores.loss.hex()}), {scores.episodes} episodes, {scores.frames} frames")
    print_table("scores", *result_rows({head: scores.scores for head, scores in found.items()}))
    print_table("by operator", *operator_rows({head: scores.to_json() for head, scores in found.items()}))


@cli.command()
@click.argument("run", type=PathWord(path_type=Path))
@click.option("--episode", required=True, help="Id of an episode of the store; it need not be in a dataset.")
@click.option("--store", type=PathWord(file_okay=False, path_type=Path), help="By default the store that the run lies in.")
@click.option("--format", type=click.Choice(["zarr", "lance"]), default="zarr", show_default=True)
@click.option("--checkpoint", default="last.ckpt", show_default=True, help="File name in the run's checkpoints folder.")
@click.option("--frame", "frames", type=int, multiple=True, help="Only this frame; may be given often.")
@click.option("--out", type=PathWord(dir_okay=False, path_type=Path), help="Write the predicted actions as .npz.")
@click.option("--video", type=PathWord(dir_okay=False, path_type=Path), help="Write an overlay video of the whole episode.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: errors against what was recorded.")
def predict(run: Path, episode: str, **options: Any) -> None:
    """Predict for an episode from a checkpoint: RUN is a run's folder or a .ckpt file; neither dataset nor statistics are needed."""
    from egodata.errors import InputError
    from egotrain.predict import locate, predict as predict_episode, write_predictions

    path = locate(run, options["checkpoint"])
    store = options["store"] or path.absolute().parents[3]
    if not (store / "store.json").is_file():
        raise InputError(f"predict: {store} is no store. Name one with --store.")
    frames = options["frames"] or None
    with ConsoleProgress() as progress:
        found = predict_episode(
            path, episode, store=store, format=options["format"], frames=frames, video=options["video"], progress=progress
        )
    if options["out"] is not None:
        write_predictions(options["out"], found)
    scores = {name: None if value != value else value for name, value in found.scores.items()}
    if options["as_json"]:
        plain = {"episode": episode, "step": found.step, "frames": len(found.found.samples), "left_out": found.left_out, "scores": scores}
        echo(json.dumps(plain, sort_keys=True, allow_nan=False))
        return
    echo(f"{episode}: {len(found.found.samples)} frames predicted by step {found.step}, {found.left_out} without a valid hand left out")
    print_table("errors against what was recorded", ("metric", "value"), [(name, f"{value:.4g}") for name, value in found.scores.items()])
    for name in ("out", "video"):
        if options[name] is not None:
            echo(str(options[name]))


@cli.command()
@click.argument("runs", nargs=-1, metavar="RUN RUN...", type=PathWord(path_type=Path))
@click.option("--out", type=PathWord(file_okay=False, path_type=Path), help="Also write a page with plots into this folder.")
def compare(runs: tuple[Path, ...], out: Path | None) -> None:
    """Put finished runs side by side, over heads and metrics."""
    from egotrain.compare import compare as compare_runs, write_comparison

    found = compare_runs(runs)
    print_table("runs (* best)", *found.table())
    for note in found.notes:
        echo(f"note: {note}")
    if out is not None:
        echo(str(write_comparison(out, found)))


@cli.command(context_settings=PLAIN)
@click.option("--tolerance", type=FiniteRange(min=0), default=0.0, show_default=True, help="Largest relative difference; 0: equal bits.")
@click.option(
    "--samples", type=click.IntRange(min=1), default=64, show_default=True, help="First training samples to compare byte by byte."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.argument("overrides", nargs=-1, metavar="KEY=VALUE...")
@click.pass_context
def parity(ctx: click.Context, /, tolerance: float, samples: int, as_json: bool, overrides: tuple[str, ...]) -> None:
    """Train on zarr and on Lance and compare: egotrain parity experiment=synthetic store=S dataset=NAME@V trainer.max_steps=20."""
    from egotrain.compose import compose_fit
    from egotrain.parity import training_parity

    words = overrides if any(word.startswith("run=") for word in overrides) else (*overrides, "run=parity")
    with ConsoleProgress() as progress:
        found = training_parity(compose_fit(words), tolerance=tolerance, samples=samples, say=_say, progress=progress)
    if as_json:
        gaps = {gap.name: [repr(gap.zarr), repr(gap.lance), repr(gap.relative)] for gap in found.gaps}
        plain = {**found.report.to_json(), "gaps": gaps, "samples_differing": found.samples[1], "weights_equal": found.weights_equal}
        echo(json.dumps(plain, sort_keys=True))
    else:
        _print_parity(found)
    if not found.passed:
        ctx.exit(1)


def _print_parity(found: Any) -> None:
    worst = sorted(found.metrics(), key=lambda gap: -gap.relative)
    steps = [gap for gap in found.gaps if gap.name.startswith("loss at step")]
    rows = [(gap.name, f"{gap.zarr:.6g}", f"{gap.lance:.6g}", f"{gap.relative:.2g}") for gap in worst[:SHOWN_GAPS]]
    print_table("metrics by relative difference", ("metric", "zarr", "lance", "relative"), rows)
    apart = max((gap.relative for gap in steps), default=0.0)
    echo(f"{len(steps)} losses, {apart:.2g} apart at most; {found.samples[1]} of {found.samples[0]} samples differ")
    echo(f"weights {'equal' if found.weights_equal else 'differ'}; {found.report.verdict}")
    for finding in found.report.levels[0].outcome.findings[:5]:
        echo(finding.message)


@cli.command()
@click.argument("run", type=PathWord(path_type=Path))
@click.argument("out", type=PathWord(path_type=Path))
@click.option("--checkpoint", default="last.ckpt", show_default=True, help="File name in the run's checkpoints folder.")
@click.option(
    "--prompt", "prompts", multiple=True, help="A text that the exported policy can be given; repeat it for more. The empty one if none is."
)
@click.option("--embodiment", default="", help="The body that it is for, where the policy was trained on several.")
@click.option("--image-size", metavar="HxW", help="Size of the images that come in, in pixels; by default what the policy sees.")
def export(run: Path, out: Path, checkpoint: str, prompts: tuple[str, ...], embodiment: str, image_size: str | None) -> None:
    """Write a checkpoint as a folder that needs torch and nothing else: RUN is a run's folder or a .ckpt file."""
    from egodata.errors import InputError
    from egotrain.export import export as export_policy
    from egotrain.predict import locate

    height, _, width = (image_size or "").partition("x")
    if image_size and not (height.isdecimal() and width.isdecimal() and all(16 <= int(side) <= MOST_PIXELS for side in (height, width))):
        raise InputError(f"export: --image-size {image_size!r}: expected HxW, each 16 to {MOST_PIXELS} pixels, such as 360x640")
    size = (int(height), int(width)) if image_size else None
    written = export_policy(locate(run, checkpoint), out, prompts=prompts or ("",), embodiment=embodiment, image_size=size)
    for path in sorted(written.iterdir()):
        echo(f"{path} ({path.stat().st_size:,} bytes)")


def main() -> None:
    """Run `egotrain` from the command line."""
    sys.exit(run(cli, program="egotrain"))
