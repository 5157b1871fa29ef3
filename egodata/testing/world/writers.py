"""In whose files the world can be delivered, and what of it each of those files carries."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from egodata.errors import InputError
from egodata.names import nearest
from egodata.testing.world import aria_delivery, egodex_delivery, eva_delivery, lerobot_delivery, mecka, scale_delivery
from egodata.testing.world.simulate import SimulatedEpisode

CARRIED, DERIVED, ABSENT = "carried", "derived", "absent"
PARTS = ("head", "hands", "arms", "validity", "stamps", "subtasks", "task span", "task text", "operator", "k", "distortion", "frames")
"""What an episode of the world consists of."""


class Write(Protocol):
    """Writes the files of one recording below a folder that holds none of them, where they lie in a delivery."""

    def __call__(self, delivery: Path, episode: SimulatedEpisode, *, fps: int) -> None:
        """Write them."""
        ...


class Finish(Protocol):
    """Writes what all recordings of a delivery share, once they are there."""

    def __call__(self, delivery: Path, episodes: Sequence[SimulatedEpisode], *, fps: int) -> None:
        """Write it."""
        ...


@dataclass(frozen=True, slots=True)
class Writer:
    """A vendor's way of delivering the world.

    Attributes:
        variant: What the vendor shows of an episode; truth and pictures are of this.
        place: A recording's folder, or the one of its files that comes last.
        write: Writes it.
        carries: For each of `PARTS`, whether the files carry it, let a reader derive it, or lack it.
        config: Gives the vendor config that a delivery needs, by size and fps; None where it needs none.
        clock: Of the episode's time stamps.
        missing_points: Keypoints that the vendor does not track.
        finish: Writes what all recordings share, such as a list of them, once they are there.
    """

    variant: Callable[[SimulatedEpisode], SimulatedEpisode]
    place: Callable[[Path, SimulatedEpisode], Path]
    write: Write
    carries: dict[str, str]
    config: Callable[[tuple[int, int], int], str] | None = None
    finish: Finish | None = None
    clock: str = "unix"
    missing_points: tuple[int, ...] = ()


def _same(episode: SimulatedEpisode) -> SimulatedEpisode:
    return episode


def _parts(carried: str, *, derived: str = "") -> dict[str, str]:
    """Name parts by commas; the others are absent."""
    given = dict.fromkeys(filter(None, carried.split(", ")), CARRIED) | dict.fromkeys(filter(None, derived.split(", ")), DERIVED)
    return {part: given.get(part, ABSENT) for part in PARTS}


WRITERS: dict[str, Writer] = {
    "mecka": Writer(
        _same,
        mecka.place,
        mecka.write_recording,
        _parts("head, hands, validity, stamps, subtasks, task span, operator, k, distortion, frames"),
    ),
    "scale": Writer(
        scale_delivery.variant,
        scale_delivery.place,
        scale_delivery.write_recording,
        _parts("head, hands, validity, stamps, subtasks, task text, k, frames"),
    ),
    "egodex": Writer(
        egodex_delivery.variant,
        egodex_delivery.place,
        egodex_delivery.write_recording,
        _parts("head, hands, validity, task text, k, frames", derived="stamps"),
    ),
    "eva": Writer(
        eva_delivery.variant,
        eva_delivery.place,
        eva_delivery.write_recording,
        _parts("arms, validity, frames", derived="stamps, k"),
        eva_delivery.vendor_config,
    ),
    "aria": Writer(
        aria_delivery.variant,
        aria_delivery.place,
        aria_delivery.write_recording,
        _parts("head, hands, validity, stamps"),
        clock="device",
        missing_points=(1,),
    ),
    "lerobot": Writer(
        lerobot_delivery.variant,
        lerobot_delivery.place,
        lerobot_delivery.write_recording,
        _parts("head, hands, validity, task text, frames", derived="stamps"),
        lerobot_delivery.vendor_config,
        lerobot_delivery.finish,
    ),
}
"""By vendor. `hands` are keypoints with the poses computed from them; `arms` are end-effector poses, joints and grippers."""


def get_writer(vendor: str) -> Writer:
    """Return a vendor's writer.

    Raises:
        InputError: None for that vendor; the message lists the nearest.
    """
    if vendor not in WRITERS:
        raise InputError(f"synthetic delivery for vendor {vendor!r}: cannot be written, {nearest(vendor, WRITERS)}")
    return WRITERS[vendor]
