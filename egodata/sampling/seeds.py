"""Seeds as pure functions of what they are for, never of a worker, a process or the clock.

For data the parts are (epoch, sample index, purpose); for dropout, noise and flow time (step, rank, purpose).
"""

import hashlib
import json

SEED_BITS = 63


def derive_seed(base: int, *parts: int | str) -> int:
    """Derive a seed in [0, 2^63) from a base seed and what it is for.

    Args:
        base: The run's seed.
        parts: Such as ``(epoch, sample_index, "prompt")`` or ``(step, rank, "noise")``.

    >>> derive_seed(0, 1, 2, "prompt") == derive_seed(0, 1, 2, "prompt") != derive_seed(0, 1, 2, "noise")
    True
    """
    text = json.dumps([base, *parts], separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> (64 - SEED_BITS)


def choose(count: int, seed: int) -> int:
    """Choose one of `count` items uniformly by a derived seed."""
    return (seed * count) >> SEED_BITS
