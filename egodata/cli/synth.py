"""`egodata synth`: write a synthetic delivery."""

from pathlib import Path

import click

from egodata.cli.console import ConsoleProgress, PathWord, echo
from egodata.errors import InputError
from egodata.testing.world import FAULTS, WRITERS, WorldOptions, write_delivery

_DEFAULTS = WorldOptions()


def _size(text: str) -> tuple[int, int]:
    width, cross, height = text.lower().partition("x")
    if not (cross and width.isdecimal() and height.isdecimal()):
        raise InputError(f"--size {text!r}: expected WIDTHxHEIGHT in pixels, such as 640x360")
    return int(width), int(height)


@click.command(epilog="Faults: " + "; ".join(f"{name} ({fault.description})" for name, fault in FAULTS.items()) + ".")
@click.argument("out", type=PathWord(path_type=Path))
@click.option("--vendor", type=click.Choice(sorted(WRITERS)), default="mecka", show_default=True, help="In whose files.")
@click.option("--operators", type=int, default=_DEFAULTS.operators, show_default=True, help="Simulated people.")
@click.option("--episodes", type=int, default=_DEFAULTS.episodes, show_default=True, help="Recordings in all.")
@click.option("--seed", type=int, default=_DEFAULTS.seed, show_default=True, help="Equal options give equal bytes.")
@click.option("--size", default="640x360", show_default=True, help="Width x height of the video, even numbers.")
@click.option("--fps", type=int, default=_DEFAULTS.fps, show_default=True, help="Frames per second.")
@click.option("--fault", multiple=True, help="NAME[:k]: break recording k (from 0). Can be repeated.")
def synth(out: Path, **options: object) -> None:
    """Simulate people who sort cubes, and write it as a vendor's delivery in OUT.

    The same call again writes nothing; more --episodes adds; without --fault it repairs.
    """
    given = {name: value for name, value in options.items() if name in ("operators", "episodes", "seed", "fps", "vendor")}
    world = WorldOptions(**given, size=_size(str(options["size"])), fault=",".join(options["fault"]) or None)  # type: ignore[arg-type]
    with ConsoleProgress() as progress:
        summary = write_delivery(out, world, progress=progress)
    state = f"{len(summary.written)} written, {len(summary.episodes) - len(summary.written)} there already"
    echo(f"{out}: {len(summary.episodes)} recordings ({state}), {summary.frames} frames")
    people = f"{len(summary.operators)} operators, {summary.sessions} sessions"
    echo(f"{people}, {summary.annotated} annotated; ground truth in {out}/ground_truth")
    if WRITERS[world.vendor].config is not None:
        echo(f"ingest it with --config {out}/ground_truth/{world.vendor}.yaml")
    for episode, name in summary.faults.items():
        echo(f"fault in {episode}: {name}, {FAULTS[name].description}")
