"""What a synthetic delivery is made of, and what came out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from egodata.errors import InputError

MIN_FRAMES, MAX_FRAMES = 90, 240


@dataclass(frozen=True, slots=True)
class WorldOptions:
    """Which world to simulate. Equal options give equal bytes.

    Episode k belongs to operator k modulo `operators`, so a delivery can grow without changing what is there.

    Attributes:
        operators: Simulated people, 1 to 64.
        episodes: Recordings in all, 1 to 100,000.
        seed: Everything random follows from it.
        size: (width, height) of the video in pixels, both even.
        fps: Frames per second of camera, hands and egomotion.
        fault: ``NAME[:k]`` for one broken episode (k counts from 0 in the order of making; default 0), or several with commas.
        vendor: In whose files it is delivered.
    """

    operators: int = 6
    episodes: int = 24
    seed: int = 0
    size: tuple[int, int] = (640, 360)
    fps: int = 30
    fault: str | None = None
    vendor: str = "mecka"

    def __post_init__(self) -> None:
        width, height = self.size
        rules = {
            "operators": (1 <= self.operators <= 64, "1 to 64"),
            "episodes": (1 <= self.episodes <= 100_000, "1 to 100000"),
            "seed": (0 <= self.seed < 2**63, "0 or more"),
            "size": (min(width, height) >= 64 and not (width % 2 or height % 2), "even numbers of at least 64 pixels"),
            "fps": (5 <= self.fps <= 120, "5 to 120"),
        }
        wrong = [f"{name}: expected {rule}, got {getattr(self, name)!r}" for name, (good, rule) in rules.items() if not good]
        if wrong:
            raise InputError(f"synthetic world: {'; '.join(wrong)}")


@dataclass(frozen=True, slots=True)
class DeliverySummary:
    """What a delivery holds.

    Attributes:
        path: The delivery's folder.
        episodes: Ids in the order of making (not sorted).
        operators: Operator ids.
        sessions: Number of collection sessions.
        frames: Video frames in all.
        annotated: How many episodes have an annotations file.
        faults: Fault name by episode id.
        written: Ids that this call wrote; the others were there already.
        frames_written: Video frames that this call rendered.
    """

    path: Path
    episodes: tuple[str, ...]
    operators: tuple[str, ...]
    sessions: int
    frames: int
    annotated: int
    faults: Mapping[str, str] = field(default_factory=dict)
    written: tuple[str, ...] = ()
    frames_written: int = 0
