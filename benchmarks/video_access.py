"""Which encoding and which reader make one stored frame cheap? Settings and readers side by side on real footage, in one run.

    python benchmarks/video_access.py ../shared/data/lerobot_v21_g1/videos/chunk-000/observation.images.cam_high/episode_000001.mp4 ...

CPU milliseconds on one core, RGB out; the machine may be shared, so compare rows of one table, not tables.
"""

import argparse
import platform
import time
from collections.abc import Callable
from fractions import Fraction
from io import BytesIO
from pathlib import Path

import av
import numpy as np

from egodata.episode import VideoInfo
from egodata.video import COMPACT, SWIFT, ChunkCache, EncodeSettings, FrameReader, decode_video, encode_frames, index_chunk

FPS = Fraction(30)
PLAIN = EncodeSettings(profile="plain", tune="", bframes=0)
REPEATS = 24


def whole_chunk(elements: list[bytes], fpc: int, wanted: list[int]) -> list[np.ndarray]:
    """Decode each element from its start to the last frame wanted: the usual way."""
    out = {}
    for number in sorted({index // fpc for index in wanted}):
        inside = {index % fpc for index in wanted if index // fpc == number}
        with av.open(BytesIO(elements[number])) as container:
            container.streams.video[0].codec_context.thread_count = 1
            for position, frame in enumerate(container.decode(video=0)):
                if position in inside:
                    out[number * fpc + position] = frame.to_ndarray(format="rgb24")
    return [out[index] for index in wanted]


def seek(elements: list[bytes], fpc: int, wanted: list[int]) -> list[np.ndarray]:
    """Open the element, seek to the keyframe before the first frame wanted, decode on to the last one."""
    out = {}
    for number in sorted({index // fpc for index in wanted}):
        inside = sorted(index % fpc for index in wanted if index // fpc == number)
        with av.open(BytesIO(elements[number])) as container:
            stream = container.streams.video[0]
            stream.codec_context.thread_count = 1
            step = 1 / (stream.time_base * FPS)
            container.seek(int(inside[0] * step), stream=stream, backward=True)
            for frame in container.decode(stream):
                position = round(frame.pts / step)
                if position in inside:
                    out[number * fpc + position] = frame.to_ndarray(format="rgb24")
                if position >= inside[-1]:
                    break
    return [out[index] for index in wanted]


def cpu_ms(call: Callable[[list[int]], object], requests: list[list[int]]) -> float:
    """Mean CPU milliseconds per request."""
    call(requests[0])
    start = time.process_time()
    for request in requests:
        call(request)
    return (time.process_time() - start) / len(requests) * 1e3


def psnr(found: np.ndarray, reference: np.ndarray) -> float:
    error = np.mean([np.mean((a.astype(np.float32) - b) ** 2) for a, b in zip(found, reference, strict=True)])
    return float(10 * np.log10(255**2 / error))


def measure(path: Path, limit: int) -> list[tuple[object, ...]]:
    frames = list(decode_video(path, limit=limit))
    height, width = frames[0].shape[:2]
    total, rng = len(frames), np.random.default_rng(0)
    one = [[int(i)] for i in rng.integers(0, total, REPEATS)]
    window = [list(range(i, i + 16)) for i in rng.integers(0, total - 16, REPEATS)]
    pair = [[int(i), int(i) + 30] for i in rng.integers(0, total - 30, REPEATS)]
    rows = []
    for settings in (PLAIN, COMPACT, SWIFT, EncodeSettings(profile="compact, medium", preset="medium")):
        start = time.process_time()
        elements = list(encode_frames(iter(frames), fps=FPS, settings=settings))
        encode = (time.process_time() - start) / total * 1e3
        info = VideoInfo(width, height, total, settings.frames_per_chunk, FPS, settings.to_json())
        warm = FrameReader(info, elements.__getitem__, where="bench")
        decoded = warm.frames(range(total))
        plain_order = np.stack(whole_chunk(elements, settings.frames_per_chunk, list(range(total))))
        assert (decoded == plain_order).all(), "not bit-exact"

        def cold(wanted: list[int], info: VideoInfo = info, elements: list[bytes] = elements) -> object:
            return FrameReader(info, elements.__getitem__, where="bench", cache=ChunkCache()).frames(wanted)

        readers: dict[str, Callable[[list[int]], object]] = {"index, disposable skipped": warm.frames, "the same, index not cached": cold}
        if settings is PLAIN:
            fpc = settings.frames_per_chunk
            readers = {
                "whole element decoded": lambda w, e=elements, f=fpc: whole_chunk(e, f, w),
                "seek to the keyframe": lambda w, e=elements, f=fpc: seek(e, f, w),
                **readers,
            }
        size = sum(map(len, elements)) / total / 1024
        quality = psnr(decoded, np.stack(frames))
        runs = [list(range(i, min(i + 50, total))) for i in range(0, total, 50)]
        for name, reader in readers.items():
            whole = runs if reader in (warm.frames, cold) else [list(range(total))]
            sequential = cpu_ms(reader, whole) * len(whole) / total
            rows.append((settings.profile, name, size, quality, encode, *(cpu_ms(reader, r) for r in (one, window, pair)), sequential))
    start = time.process_time()
    for element in elements:
        index_chunk(element)
    index_ms = (time.process_time() - start) / len(elements) * 1e3
    print(f"\n{path.name}: {total} frames of {width}x{height}; packet index {index_ms:.2f} ms per element\n")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--limit", type=int, default=300, help="frames of each file")
    options = parser.parse_args()
    print(f"PyAV {av.__version__}, {platform.machine()}, crf {COMPACT.crf}; CPU ms, one core")
    for path in options.files:
        rows = measure(path, options.limit)
        names = "encoding, reader, KB/frame, PSNR dB, encode/frame, one frame, 16-frame window, two 30 apart, in order/frame".split(", ")
        print("| " + " | ".join(names) + " |\n" + "|---" * len(names) + "|")
        for row in rows:
            print("| " + " | ".join(f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row) + " |")


if __name__ == "__main__":
    main()
