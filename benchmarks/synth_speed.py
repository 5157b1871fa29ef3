"""How fast is a synthetic delivery written, on one core?

    python benchmarks/synth_speed.py [--size 640x360] [--episodes 6]

Prints CPU milliseconds per frame for drawing alone and for whole recordings (drawing, H.264, text files, ground truth),
best of three, with one thread in OpenCV and x264, beside a reference piece of work so that machines can be compared.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np

from egodata.testing.world import WorldOptions, write_delivery
from egodata.testing.world.render import render_frames
from egodata.testing.world.simulate import simulate_episode


def cpu_s(work: Callable[[], int]) -> tuple[float, int]:
    """Return CPU seconds of this process and what the work returned."""
    start = time.process_time()
    count = work()
    return time.process_time() - start, count


def best_ms(work: Callable[[], int]) -> tuple[float, int]:
    """Return the best of three, in CPU milliseconds per counted item, and the count."""
    found = [cpu_s(work) for _ in range(3)]
    return min(seconds / count for seconds, count in found) * 1e3, found[0][1]


def reference() -> int:
    """Blur a 640x360 picture 200 times: a fixed piece of work."""
    picture = np.random.default_rng(0).integers(0, 255, (360, 640, 3), np.uint8)
    for _ in range(200):
        picture = cv2.GaussianBlur(picture, (0, 0), 2.0)
    return 200


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", default="640x360")
    parser.add_argument("--episodes", type=int, default=6)
    arguments = parser.parse_args()
    cv2.setNumThreads(1)
    width, height = map(int, arguments.size.split("x"))
    options = WorldOptions(operators=3, episodes=arguments.episodes, size=(width, height))

    def draw() -> int:
        return sum(sum(1 for _ in render_frames(simulate_episode(options, index))) for index in range(options.episodes))

    def write() -> int:
        with tempfile.TemporaryDirectory() as folder:
            return write_delivery(Path(folder) / "out", options).frames_written

    fixed_ms, _ = best_ms(reference)
    for name, work in (("drawing", draw), ("whole recordings", write)):
        spent_ms, frames = best_ms(work)
        speed = f"{spent_ms:.2f} ms/frame, {1e3 / spent_ms:.0f} frames/s, {spent_ms / fixed_ms:.2f} x the reference blur"
        print(f"{name}: {speed} ({frames} frames)")


if __name__ == "__main__":
    main()
