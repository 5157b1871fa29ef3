"""Ways in which one recording of a delivery can be broken, each as it is seen in real ones."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from egodata.errors import InputError
from egodata.names import nearest
from egodata.testing.world.mecka import decimal_seconds, recording_files
from egodata.testing.world.simulate import SimulatedEpisode

JUMP_M = 0.6
_KEPT_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of damage.

    Attributes:
        description: What is broken, for people.
        apply: Breaks a finished recording's folder.
    """

    description: str
    apply: Callable[[Path, SimulatedEpisode], None]


def _truncate_video(folder: Path, episode: SimulatedEpisode) -> None:
    video = folder / recording_files(episode)["video"]
    data = video.read_bytes()
    video.write_bytes(data[: int(_KEPT_SHARE * len(data))])


def _drop_video(folder: Path, episode: SimulatedEpisode) -> None:
    (folder / recording_files(episode)["video"]).unlink()


def _drop_intrinsics(folder: Path, episode: SimulatedEpisode) -> None:
    names = recording_files(episode)
    (folder / names["intrinsics"]).unlink()
    path = folder / f"{episode.id}.json"
    value = json.loads(path.read_text())
    del value["urls"]["intrinsics"]
    path.write_text(json.dumps(value, indent=1) + "\n")


def _jump_head(folder: Path, episode: SimulatedEpisode) -> None:
    path = folder / recording_files(episode)["egomotion"]
    lines = []
    for line in path.read_text().splitlines():
        frame, x, *rest = line.split()
        moved = float(x) + (JUMP_M if int(frame) >= episode.frames // 2 else 0.0)
        lines.append(" ".join([frame, f"{moved:.9f}", *rest]))
    path.write_text("\n".join(lines) + "\n")


def _bad_annotations(folder: Path, episode: SimulatedEpisode) -> None:
    start, end = int(episode.stamps_ns[0]), int(episode.stamps_ns[-1])
    day = 86_400_000_000_000
    rows = [
        ("reach_backwards", end, start, "subtask"),
        ("no_length", start + 1_000_000, start + 1_000_000, "subtask"),
        ("another_day", start + day, end + day, "subtask"),
        ("runs_past_the_end", (start + end) // 2, end + 5_000_000_000, "task"),
    ]
    text = "".join(f"{label},{decimal_seconds(a)},{decimal_seconds(b)},{role}\n" for label, a, b, role in rows)
    (folder / "annotations.csv").write_text(f"label,start_time,end_time,role\n{text}")


FAULTS: dict[str, Fault] = {
    "truncated-video": Fault("the last 40 % of the video file are missing", _truncate_video),
    "missing-video": Fault("the video is listed but was not delivered", _drop_video),
    "no-intrinsics": Fault("there is no calibration for the recording", _drop_intrinsics),
    "jumping-head": Fault(f"the head pose jumps by {JUMP_M} m in one frame", _jump_head),
    "bad-annotations": Fault("annotation spans are reversed, empty, on another day, and past the end", _bad_annotations),
}


def parse_faults(text: str | None, *, episodes: int, vendor: str = "mecka") -> dict[int, str]:
    """Read ``NAME[:k]`` or several with commas.

    Args:
        text: None or empty for no fault.
        episodes: Number of episodes; k counts from 0.
        vendor: In whose files; faults are made in Mecka's.

    Returns:
        Fault name by episode index.

    Raises:
        InputError: Unknown name (the nearest are listed), or an index that is not there or is named twice, or another vendor.
    """
    found: dict[int, str] = {}
    for item in filter(None, (part.strip() for part in (text or "").split(","))):
        name, _, place = item.partition(":")
        if vendor != "mecka":
            raise InputError(f"fault {name!r}: faults are made in mecka deliveries, not in those of {vendor}")
        if name not in FAULTS:
            raise InputError(f"fault {name!r} is unknown: {nearest(name, FAULTS)}")
        if place and not place.isdecimal():
            raise InputError(f"fault {item!r}: expected NAME or NAME:k with k from 0, got {place!r}")
        index = int(place or 0)
        if index >= episodes or index in found:
            raise InputError(f"fault {item!r}: expected another episode from 0 to {episodes - 1}, got {index}")
        found[index] = name
    return found


def break_recording(folder: Path, episode: SimulatedEpisode, *, name: str) -> None:
    """Apply one fault to a finished recording."""
    FAULTS[name].apply(folder, episode)
