"""Entry point of `egotrain`."""

import shlex
import sys
from pathlib import Path

import click

from egodata import __version__
from egodata.cli.console import ConsoleProgress, echo, print_table
from egodata.cli.main import run

PLAIN = {"ignore_unknown_options": True}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="egotrain")
@click.option("--traceback", "show_traceback", is_flag=True, help="Show where an error came from.")
def cli(show_traceback: bool) -> None:
    """Train policies on frozen datasets, and score them."""


@cli.command(context_settings=PLAIN)
@click.argument("overrides", nargs=-1, metavar="KEY=VALUE...")
def fit(overrides: tuple[str, ...]) -> None:
    """Train: egotrain fit experiment=synthetic store=S dataset=NAME@V run=NAME [format=lance] [resume=true]."""
    from egotrain.build import fit as fit_run
    from egotrain.compose import compose_fit
    from egotrain.pipes import reporting
    from egotrain.report import result_rows

    config = compose_fit(overrides)
    with reporting() as report, ConsoleProgress() as progress:
        done = fit_run(config, say=lambda line: click.echo(line, err=True), progress=progress)
        report({"dataset": done.result["dataset"], "format": done.result["format"], "seed": done.result["seed"]})
    loss = f"train loss {done.train_loss!r} ({done.train_loss.hex()})"
    echo(f"run {done.run}: {'already done' if done.already_done else 'done'}, {done.result['steps']} steps, {loss}")
    for head, value in done.validation_loss.items():
        echo(f"{head} loss {value!r} ({value.hex()})")
    print_table("scores", *result_rows({head: found["scores"] for head, found in done.result["heads"].items()}))
    echo(f"{done.path}")
    echo(f"next: egotrain eval {shlex.quote(str(done.path))}")


@cli.command("eval", context_settings=PLAIN)
@click.argument("run_folder", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("overrides", nargs=-1, metavar="KEY=VALUE...")
def evaluate(run_folder: Path, overrides: tuple[str, ...]) -> None:
    """Score a checkpoint: egotrain eval STORE/runs/NAME [format=lance] [heads=[train,seen]] [shuffle_images=true]."""
    from egotrain.compose import compose_evaluate
    from egotrain.evaluate import evaluate as evaluate_run
    from egotrain.report import result_rows

    config = compose_evaluate(overrides)
    with ConsoleProgress() as progress:
        found = evaluate_run(run_folder, config, say=lambda line: click.echo(line, err=True), progress=progress)
    for head, scores in found.items():
        echo(f"{head} loss {scores.loss!r} ({scores.loss.hex()}), {scores.episodes} episodes, {scores.frames} frames")
    print_table("scores", *result_rows({head: scores.scores for head, scores in found.items()}))


def main() -> None:
    """Run `egotrain` from the command line."""
    sys.exit(run(cli, program="egotrain"))
