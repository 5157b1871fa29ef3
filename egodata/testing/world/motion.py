"""Smooth motion: minimum-jerk moves that add up, and band-limited sway.

The minimum-jerk profile is that of Flash and Hogan 1985, "The coordination of arm movements".
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from egodata.geometry.rotation import Array


@dataclass(frozen=True, slots=True)
class Move:
    """One movement of some numbers from where they are to a target.

    Attributes:
        start_s: When it starts, seconds from the first frame.
        end_s: When it arrives.
        target: Values at the end.
        bulge: Added at half way, fading to both ends; the way leaves the straight line by this much.
    """

    start_s: float
    end_s: float
    target: tuple[float, ...]
    bulge: tuple[float, ...] = ()


def minimum_jerk(share: Array) -> Array:
    """Map 0..1 to 0..1 with zero speed and acceleration at both ends; values outside are held."""
    s = np.clip(share, 0.0, 1.0)
    eased: Array = s**3 * (10 - 15 * s + 6 * s**2)
    return eased


def follow(moves: Sequence[Move], start: Sequence[float], *, times_s: Array) -> Array:
    """Evaluate moves that come one after the other.

    Args:
        moves: In order of time, not overlapping.
        start: (D,) values before the first move.
        times_s: (T,) seconds.

    Returns:
        Values (T, D).
    """
    here = np.asarray(start, np.float64)
    out = np.tile(here, (len(times_s), 1))
    for move in moves:
        done = minimum_jerk((times_s - move.start_s) / (move.end_s - move.start_s))[:, None]
        target = np.asarray(move.target, np.float64)
        out += done * (target - here)
        if move.bulge:
            out += 4 * done * (1 - done) * np.asarray(move.bulge)
        here = target
    return out


def sway(rng: np.random.Generator, times_s: Array, *, amplitude: Sequence[float], period_s: float) -> Array:
    """Return (T, D) band-limited wobble: three sines per dimension with random phases and periods near `period_s`."""
    scale = np.asarray(amplitude, np.float64)
    periods = period_s * rng.uniform(0.5, 1.6, (3, len(scale)))
    phases = rng.uniform(0, 2 * np.pi, (3, len(scale)))
    waves = np.sin(2 * np.pi * times_s[:, None, None] / periods + phases)
    wobble: Array = waves.mean(axis=1) * scale
    return wobble
