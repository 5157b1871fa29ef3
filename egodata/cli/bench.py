"""`egodata bench`: what sampling costs on this machine, and how many workers a step time needs."""

import json
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from egodata.catalog import Manifest, load_dataset
from egodata.cli.console import ConsoleProgress, FiniteRange, PathWord, echo, print_table
from egodata.errors import InputError
from egodata.formats import FORMATS, open_store
from egodata.progress import Progress
from egodata.sampling import HeadSource, Recipe, load_recipe
from egodata.sampling.cache import EpisodeCache
from egodata.schema.layout import StorePaths, open_root
from egodata.stats import norm_stats

SCHEMA = 1
MOST_WORKERS = 256


def _counts(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) <= MOST_WORKERS for part in parts):
        raise InputError(f"--workers {text!r}: expected numbers of processes up to {MOST_WORKERS} with commas, such as 0,1,2")
    return tuple(dict.fromkeys(int(part) for part in parts))


@click.command()
@click.argument("store", type=PathWord(file_okay=False, path_type=Path))
@click.argument("ref")
@click.option("--recipe", required=True, help="A shipped recipe by name, or a .yaml file.")
@click.option("--format", "format_name", type=click.Choice(FORMATS), default="zarr", show_default=True, help="Which copy is read.")
@click.option("--head", default="train", show_default=True, help="Which head of the dataset.")
@click.option("--batch", type=click.IntRange(1), default=64, show_default=True, help="Samples per batch.")
@click.option("--samples", type=click.IntRange(1), default=640, show_default=True, help="Measured samples of each kind, at least.")
@click.option("--workers", default="0,1,2", show_default=True, help="Numbers of worker processes to try.")
@click.option("--step-ms", type=FiniteRange(0, min_open=True), help="A training step's milliseconds: say how many workers feed it.")
@click.option("--normalise/--no-normalise", default=True, help="With the dataset's statistics, computed if need be. Default: yes.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def bench(store: Path, ref: str, as_json: bool, **options: Any) -> None:
    """Measure sampling of REF (NAME@VERSION) under a recipe on this machine.

    CPU milliseconds hardly depend on what else the machine does; samples per second do.
    """
    from egodata.torch.bench import usable_cores  # torch takes a second to import: not for --help

    counts = _counts(options["workers"])
    paths, recipe = open_root(store), load_recipe(options["recipe"])
    manifest = load_dataset(paths, ref, format=options["format_name"])
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "dataset": manifest.ref,
        "recipe": recipe.name,
        "format": options["format_name"],
        "head": options["head"],
        "batch": options["batch"],
        "normalised": options["normalise"],
        "cores": usable_cores(),
    }
    with ConsoleProgress() as progress:
        measured = _measure(paths, manifest, recipe, counts=counts, options=options, progress=progress)
    found.update(measured)
    if as_json:
        echo(json.dumps(found, sort_keys=True))
        return
    _print(found)


def _measure(
    paths: StorePaths, manifest: Manifest, recipe: Recipe, *, counts: tuple[int, ...], options: dict[str, Any], progress: Progress
) -> dict[str, Any]:
    """Return stages, worker runs and the need, as plain types."""
    from egodata.torch.bench import measure_stages, usable_cores, workers_needed
    from egodata.torch.bench_workers import measure_workers

    name, batch, samples = options["format_name"], options["batch"], options["samples"]
    normalisers = norm_stats(paths, manifest, recipe=recipe, format=name, progress=progress).normalisers() if options["normalise"] else {}
    source = HeadSource.open(paths, manifest, head=options["head"], recipe=recipe, format=name, normalisers=normalisers)
    readers = EpisodeCache(partial(open_store, paths, name, versions=manifest.lance_versions), recipe)
    runs = []
    with closing(source):
        with closing(readers):
            stages = measure_stages(source, readers, batch_size=batch, samples=samples)
        for done, workers in enumerate(counts):
            progress("bench workers", done, len(counts))
            runs.append(measure_workers(source, batch_size=batch, workers=workers, samples=samples))
        progress("bench workers", len(counts), len(counts))
    cost_ms = max([stages.total_cpu_ms, *(run.worker_cpu_ms for run in runs)])
    found: dict[str, Any] = {"stages": asdict(stages), "workers": [asdict(run) for run in runs], "need": None}
    if options["step_ms"] is not None:
        need = workers_needed(cost_ms, batch_size=batch, step_ms=options["step_ms"], cores=usable_cores())
        found["need"] = {**asdict(need), "step_ms": options["step_ms"], "cpu_ms": cost_ms, "fits": need.fits}
    return found


def _print(found: dict[str, Any]) -> None:
    stages = found["stages"]
    total = stages["total_cpu_ms"]
    rows = [(stage, f"{spent:.3f}", f"{spent / total:.0%}") for stage, spent in stages["cpu_ms"].items()]
    title = f"{found['dataset']} on {found['format']}, head {found['head']}, recipe {found['recipe']}, batches of {found['batch']}"
    print_table(title, ("stage", "CPU ms/sample", "share"), [*rows, ("whole", f"{total:.3f}", "")])
    read = stages["read_bytes"]
    echo(f"read from files: {'not known here' if read is None else f'{read / 1e3:.1f} kB/sample, mapped numbers not counted'}")
    print_table(
        f"Loader, {found['cores']} cores",
        ("workers", "samples/s", "CPU ms/sample in workers", "here", "first batch s", "PSS MB per worker", "PSS MB here"),
        [_worker_row(run) for run in found["workers"]],
    )
    if found["need"] is not None:
        _print_need(found["need"], batch=found["batch"])


def _worker_row(run: dict[str, Any]) -> tuple[object, ...]:
    worker = ", ".join(f"{size / 1e6:.0f}" for size in run["worker_pss_bytes"])
    own = run["own_pss_bytes"]
    here = "" if own is None else f"{own / 1e6:.0f}"
    return (
        run["workers"],
        f"{run['samples_per_s']:.0f}",
        f"{run['worker_cpu_ms']:.2f}",
        f"{run['own_cpu_ms']:.2f}",
        f"{run['start_s']:.1f}",
        worker,
        here,
    )


def _print_need(need: dict[str, Any], *, batch: int) -> None:
    rate = f"{batch} samples every {need['step_ms']:g} ms ({need['samples_per_s']:.0f}/s) at {need['cpu_ms']:.2f} CPU ms each"
    echo(f"{rate}: {need['workers']} worker{'s' * (need['workers'] != 1)}.")
    if not need["fits"]:
        shortest = f"with one for training, the shortest step that it can feed is {need['best_step_ms']:.0f} ms"
        echo(f"This machine has {need['cores']} cores: {shortest}. Use more cores, a smaller batch, or the profile `swift` at ingest.")
