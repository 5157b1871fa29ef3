"""Write a whole delivery, or what is missing of it: a call that was stopped, grown or repaired writes only the difference."""

import json
from pathlib import Path
from typing import Any

from egodata.errors import InputError
from egodata.progress import Progress, silent, tracked
from egodata.testing.world.faults import break_recording, parse_faults
from egodata.testing.world.mecka import write_recording
from egodata.testing.world.options import DeliverySummary, WorldOptions
from egodata.testing.world.simulate import SimulatedEpisode, simulate_episode
from egodata.testing.world.truth import FOLDER, write_truth

WORLD_VERSION = 2
"""Raised when equal options no longer give equal bytes."""


def write_delivery(out: Path, options: WorldOptions, *, progress: Progress = silent) -> DeliverySummary:
    """Write a Mecka delivery of a simulated world, with its ground truth in ``ground_truth/``.

    Called again with the same options it writes nothing; with more episodes it adds them; with another fault, or none, it
    rewrites the recordings concerned, which is how a broken one is repaired.

    Args:
        out: Folder of the delivery; created, or holding an earlier call's delivery.
        options: The world.
        progress: Told of every episode.

    Returns:
        What the delivery holds and what this call wrote.

    Raises:
        InputError: The folder holds something else, or a fault is unknown.
    """
    faults = parse_faults(options.fault, episodes=options.episodes)
    ledger = _open_ledger(out, options)
    episodes: list[SimulatedEpisode] = []
    written: list[SimulatedEpisode] = []
    for index in tracked(range(options.episodes), label="synth", progress=progress):
        episode, fault = simulate_episode(options, index), faults.get(index)
        episodes.append(episode)
        if ledger["recordings"].get(episode.id, "-") == fault and (out / episode.id).is_dir():
            continue
        ledger["recordings"].pop(episode.id, None)
        _save_ledger(out, ledger)
        write_truth(out, episode)
        folder = write_recording(out, episode, fps=options.fps)
        if fault is not None:
            break_recording(folder, episode, name=fault)
        ledger["recordings"][episode.id] = fault
        _save_ledger(out, ledger)
        written.append(episode)
    return _summary(out, episodes, written, {episodes[index].id: name for index, name in faults.items()})


def _world(options: WorldOptions) -> dict[str, Any]:
    return {
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
    differing = [name for name, value in _world(options).items() if ledger["world"].get(name) != value]
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
