"""Does x264 give equal bytes for equal frames? Encodes the same frames again and again over memory that held other things.

python benchmarks/encoder_determinism.py [--size 320x180] [--runs 24]
"""

import argparse
import ctypes
import hashlib
import platform
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from egodata.testing.drafts import moving_frames
from egodata.video import EncodeSettings, encode_frames

M_PERTURB = -6  # glibc: fill fresh memory with a byte of our choice


@dataclass(frozen=True, slots=True)
class Variant(EncodeSettings):
    """Our settings with x264 parameters appended; the last one given wins."""

    extra: str = ""

    def x264_options(self) -> dict[str, str]:
        options = EncodeSettings.x264_options(self)
        return {**options, "x264-params": f"{options['x264-params']}{self.extra}"}


VARIANTS = {
    "as stored (mbtree off)": Variant(),
    "as stored, swift": Variant(gop=13, bframes=3),
    "as stored, preset medium": Variant(preset="medium"),
    "mbtree on": Variant(extra=":mbtree=1"),
    "mbtree on, preset medium": Variant(preset="medium", extra=":mbtree=1"),
    "mbtree on, no weighted prediction": Variant(extra=":mbtree=1:weightp=0:weightb=0"),
    "mbtree on, no B-frames": Variant(bframes=0, extra=":mbtree=1"),
    "mbtree on, up to AVX2": Variant(extra=":mbtree=1:asm=avx2"),
    "mbtree on, no assembly": Variant(extra=":mbtree=1:asm=0"),
    "as stored, up to AVX2": Variant(extra=":asm=avx2"),
    "as stored, no assembly": Variant(extra=":asm=0"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="64x48")
    parser.add_argument("--runs", type=int, default=24)
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    frames = moving_frames(60, (width, height), seed=0)
    libc = ctypes.CDLL(None)
    print(f"{platform.machine()}, 60 frames of {options.size}, {options.runs} encodings each\n")
    print("variant | different streams | most frequent one, SHA-256")
    for name, settings in VARIANTS.items():
        seen: Counter[str] = Counter()
        for run in range(options.runs):
            libc.mallopt(M_PERTURB, (37 * run + 1) % 256 if run % 2 else 0)
            junk = np.random.default_rng(run).integers(0, 255, 100_000 + 150_000 * (run % 25), np.uint8)
            del junk
            seen[hashlib.sha256(b"".join(encode_frames(iter(frames), fps=Fraction(30), settings=settings))).hexdigest()[:12]] += 1
        print(f"{name} | {len(seen)} | {seen.most_common(1)[0][0]}", flush=True)


if __name__ == "__main__":
    main()
