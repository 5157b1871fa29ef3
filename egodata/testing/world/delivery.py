"""Write a whole delivery, or what is missing of it: a call that was stopped, grown or repaired writes only the difference."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from egodata.errors import InputError
from egodata.progress import Progress, silent, tracked
from egodata.testing.world.faults import break_recording, parse_faults
from egodata.testing.world.options import DeliverySummary, WorldOptions
from egodata.testing.world.simulate import SimulatedEpisode, simulate_episode
from egodata.testing.world.truth import FOLDER, write_truth
from egodata.testing.world.writers import Writer, get_writer

_BEFORE = {"vendor": "mecka"}
"""What was not written down in ledgers while there was one choice."""

WORLD_VERSION = 2
"""Raised when equal options no longer give equal bytes."""


def write_delivery(out: Path, options: WorldOptions, *, progress: Progress = silent) -> DeliverySummary:
    """Write a simulated world as a vendor's delivery, with its ground truth in ``ground_truth/``.

    Called again with the same options it writes nothing; with more episodes it adds them; with another fault, or none, it
    rewrites the recordings concerned, which is how a broken one is repaired.

    Args:
        out: Folder of the delivery; created, or holding an earlier call's delivery.
        options: The world.
        progress: Told of every episode.

    Returns:
        What the delivery holds and what this call wrote.

    Raises:
        InputError: The folder holds something else, the vendor or a fault is unknown.
        MissingExtraError: A library that the vendor's files need is not installed.
    """
    writer = get_writer(options.vendor)
    faults = parse_faults(options.fault, episodes=options.episodes, vendor=options.vendor)
    ledger = _open_ledger(out, options)
    episodes: list[SimulatedEpisode] = []
    written: list[SimulatedEpisode] = []
    for index in tracked(range(options.episodes), label="synth", progress=progress):
        episode, fault = writer.variant(simulate_episode(options, index)), faults.get(index)
        episodes.append(episode)
        if ledger["recordings"].get(episode.id, "-") == fault and writer.place(out, episode).exists():
            continue
        ledger["recordings"].pop(episode.id, None)
        _save_ledger(out, ledger)
        write_truth(out, episode)
        _write_at_once(out, episode, writer, fps=options.fps)
        if fault is not None:
            break_recording(writer.place(out, episode), episode, name=fault)
        ledger["recordings"][episode.id] = fault
        _save_ledger(out, ledger)
        written.append(episode)
    if writer.config is not None:
        (out / FOLDER / f"{options.vendor}.yaml").write_text(writer.config(options.size, options.fps))
    if writer.finish is not None:
        writer.finish(out, episodes, fps=options.fps)
    return _summary(out, episodes, written, {episodes[index].id: name for index, name in faults.items()})


def _write_at_once(out: Path, episode: SimulatedEpisode, writer: Writer, *, fps: int) -> None:
    """Build a recording's files beside their places, then move them there, the one that says that it is complete last."""
    building = out / f".{episode.id}.building"
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    writer.write(building, episode, fps=fps)
    place = writer.place(building, episode)
    target = writer.place(out, episode)
    if place.is_dir():
        shutil.rmtree(target, ignore_errors=True)
    else:
        target.unlink(missing_ok=True)
    others = sorted(path for path in building.rglob("*") if path.is_file() and path != place and place not in path.parents)
    for path in [*others, place]:
        end = out / path.relative_to(building)
        end.parent.mkdir(parents=True, exist_ok=True)
        os.replace(path, end)
    shutil.rmtree(building)


def _world(options: WorldOptions) -> dict[str, Any]:
    return {
        "vendor": options.vendor,
        "version": WORLD_VERSION,
        "operators": options.operators,
        "seed": options.seed,
        "size": list(options.size),
        "fps": options.fps,
    }


def _open_ledger(out: Path, options: WorldOptions) -> dict[str, Any]:
    path = out / FOLDER / "world.json"
    if not path.is_file():
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise InputError(f"{out.name}: expected no folder or an empty one, got something else. Choose another OUT.")
        path.parent.mkdir(parents=True)
        return {"world": _world(options), "recordings": {}}
    ledger: dict[str, Any] = json.loads(path.read_text())
    differing = [name for name, value in _world(options).items() if ledger["world"].get(name, _BEFORE.get(name)) != value]
    if differing:
        was = ", ".join(f"{name} {ledger['world'].get(name)}" for name in differing)
        raise InputError(f"{out.name}: holds a delivery of another world ({was}). Use those options, or choose another OUT.")
    if len(ledger["recordings"]) > options.episodes:
        raise InputError(f"{out.name}: holds {len(ledger['recordings'])} episodes, got {options.episodes}. Deliveries grow only.")
    return ledger


def _save_ledger(out: Path, ledger: dict[str, Any]) -> None:
    path = out / FOLDER / "world.json"
    building = path.with_suffix(".building")
    building.write_text(json.dumps(ledger, indent=1, sort_keys=True) + "\n")
    building.replace(path)


def _summary(out: Path, episodes: list[SimulatedEpisode], written: list[SimulatedEpisode], faults: dict[str, str]) -> DeliverySummary:
    people = dict.fromkeys(episode.operator.id for episode in episodes)
    return DeliverySummary(
        path=out,
        episodes=tuple(episode.id for episode in episodes),
        operators=tuple(people),
        sessions=len({(episode.operator.id, episode.session.start_s) for episode in episodes}),
        frames=sum(episode.frames for episode in episodes),
        annotated=sum(episode.annotated for episode in episodes),
        faults=faults,
        written=tuple(episode.id for episode in written),
        frames_written=sum(episode.frames for episode in written),
    )
