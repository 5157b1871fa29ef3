"""The store's video against the usual ways, side by side in one run: compact against plain x264, swift against LeRobot's AV1.

    python benchmarks/store_video.py --data ../shared/data [--codec-python .venv-codec/bin/python]

Baseline: x264 veryfast, crf 18, gop 30, no B-frames, whole elements decoded. AV1: gop 2, crf 30, preset 8, through torchcodec in its own
environment, or through PyAV's dav1d where there is none. CPU time, one thread, RGB out; PSNR in RGB, SSIM of luma. Each time is the median
of three rounds that take turns, so that a busy machine slows all alike.
"""

import argparse
import json
import platform
import subprocess
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from io import BytesIO
from pathlib import Path

import av
import numpy as np
from av.video.reformatter import VideoReformatter
from footage import CLIPS, SIZE, clip
from skimage.metrics import structural_similarity

from egodata.episode import VideoInfo
from egodata.video import COMPACT, SWIFT, FrameReader, encode_frames
from egodata.video.colour import to_stored

FPS = Fraction(30)
FPC = 300
X264 = {"preset": "veryfast", "crf": "18", "g": "30", "bf": "0", "x264-params": "threads=1:lookahead-threads=1:sliced-threads=0"}
AV1 = {"preset": "8", "crf": "30", "g": "2", "svtav1-params": "lp=1"}


def written(frames: list, codec: str, options: dict[str, str]) -> bytes:
    buffer = BytesIO()
    with av.open(buffer, "w", format="mp4", options={"fflags": "+bitexact"}) as container:
        stream = container.add_stream(codec, rate=FPS, options=options)
        stream.width, stream.height, stream.pix_fmt = *SIZE, "yuv420p"
        context = stream.codec_context
        context.time_base, context.thread_count = 1 / FPS, 1
        if codec == "libsvtav1":
            context.gop_size = 2
        context.color_primaries = context.color_trc = context.colorspace = context.color_range = 1
        for number, frame in enumerate(frames):
            frame.pts, frame.time_base, frame.pict_type = number, 1 / FPS, 0
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return buffer.getvalue()


def whole(element: bytes) -> list[np.ndarray]:
    """Decode a whole element to RGB, as readers of such stores do for any frame of it."""
    with av.open(BytesIO(element)) as container:
        container.streams.video[0].codec_context.thread_count = 1
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def cpu_ms(call: Callable[[list[int]], object], requests: list[list[int]]) -> float:
    start = time.process_time()
    for request in requests:
        call(request)
    return (time.process_time() - start) / len(requests) * 1e3


def timed(call: Callable[[], bytes]) -> tuple[bytes, float]:
    start = time.process_time()
    data = call()
    return data, time.process_time() - start


def quality(found: list[np.ndarray], source: list[np.ndarray]) -> tuple[float, float]:
    error = np.mean([np.mean((a.astype(np.float32) - b) ** 2) for a, b in zip(found, source, strict=True)])
    luma = np.array([0.2126, 0.7152, 0.0722])
    pairs = zip(found[::20], source[::20], strict=True)
    return float(10 * np.log10(255**2 / error)), float(np.mean([structural_similarity(a @ luma, b @ luma, data_range=255) for a, b in pairs]))


def av1_times(path: Path, requests: dict[str, list], python: Path | None) -> dict:
    if python is not None:
        asked = json.dumps({"path": str(path), **requests})
        script = Path(__file__).with_name("av1_reader.py")
        return json.loads(subprocess.run([python, str(script)], input=asked, capture_output=True, text=True, check=True).stdout)
    container = av.open(str(path))
    stream = container.streams.video[0]
    stream.codec_context.thread_count = 1
    tick = 1 / (stream.time_base * FPS)

    def read(indices: list[int]) -> None:
        container.seek(int(indices[0] * tick), stream=stream, backward=True)
        for frame in container.decode(stream):
            frame.to_ndarray(format="rgb24")
            if round(frame.pts / tick) >= indices[-1]:
                return

    out = {name: cpu_ms(read, requests[name]) for name in ("one", "window")}
    return {**out, "sequential": cpu_ms(read, requests["sequential"]) / len(requests["sequential"][0]), "version": "dav1d through PyAV"}


def measure(name: str, frames: int, data: Path, python: Path | None) -> dict[str, dict[str, float]]:
    source = clip(name, frames, data)
    reformatter = VideoReformatter()
    stored = [to_stored(av.VideoFrame.from_ndarray(f, format="rgb24"), reformatter, size=SIZE, where=name) for f in source]
    rng = np.random.default_rng(0)
    requests = {
        "one": [[int(i)] for i in rng.integers(0, frames, 60)],
        "window": [list(range(i, i + 16)) for i in rng.integers(0, frames - 16, 20).tolist()],
        "sequential": [list(range(i, i + 50)) for i in range(0, frames - 49, 50)],
    }
    encoders = {
        "baseline": lambda: written(stored, "libx264", X264),
        "compact": lambda: written(stored, "libx264", COMPACT.x264_options()),
        "swift": lambda: written(stored, "libx264", SWIFT.x264_options()),
        "av1": lambda: written(stored, "libsvtav1", AV1),
    }
    rows: dict[str, dict] = {key: {"encode": []} for key in encoders}
    encoded: dict[str, bytes] = {}
    for turn in range(3):
        for key, encoder in encoders.items():
            if key == "av1" and turn:
                continue  # four times the others; one turn tells
            encoded[key], spent = timed(encoder)
            rows[key]["encode"].append(spent / frames * 1e3)
    for key in ("compact", "swift"):
        settings = {"compact": COMPACT, "swift": SWIFT}[key]
        assert next(encode_frames(iter(source), fps=FPS, settings=settings)) == encoded[key], "the store writes other bytes"
    for key, element in encoded.items():
        found = whole(element)
        psnr, ssim = quality(found, source)
        rows[key] |= {"kb": len(element) / frames / 1024, "psnr": psnr, "ssim": ssim}
        if key in ("compact", "swift"):
            reader = FrameReader(VideoInfo(*SIZE, frames, FPC, FPS, {}), lambda _, e=element: e, where=key)
            order = rng.permutation(frames)
            assert all((reader.frames([int(i)])[0] == found[i]).all() for i in order[:40]), "not bit-equal"
            rows[key]["reader"] = reader.frames
    rows["baseline"]["reader"] = lambda _: whole(encoded["baseline"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "av1.mp4"
        path.write_bytes(encoded["av1"])
        turns: dict[str, dict[str, list[float]]] = {key: {kind: [] for kind in requests} for key in rows}
        for _ in range(3):
            for key in ("baseline", "compact", "swift"):
                read = rows[key]["reader"]
                kinds = {"one": requests["one"][:3], "window": requests["window"][:3]} if key == "baseline" else requests
                for kind, asked in kinds.items():
                    read(asked[0])
                    each = cpu_ms(read, asked)
                    turns[key][kind].append(each / 50 if kind == "sequential" else each)
            turns["baseline"]["sequential"].append(turns["baseline"]["one"][-1] / frames)
            told = av1_times(path, requests, python)
            for kind in requests:
                turns["av1"][kind].append(told[kind])
    for key, row in rows.items():
        row.pop("reader", None)
        row["encode"] = float(np.median(row["encode"]))
        row |= {kind: float(np.median(values)) for kind, values in turns[key].items()}
    rows["av1"]["version"] = told["version"]
    return rows


COLUMNS = ("kb", "psnr", "ssim", "one", "window", "sequential", "encode")


def show(title: str, rows: dict[str, dict[str, float]]) -> None:
    print(f"\n**{title}**\n\n| | KB/frame | PSNR dB | SSIM | one frame | 16-frame window | in order/frame | encode/frame |\n" + "|---" * 8 + "|")
    for key, row in rows.items():
        print(f"| {key} | " + " | ".join(f"{row[name]:.4f}" if name == "ssim" else f"{row[name]:.2f}" for name in COLUMNS) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--frames", type=int, default=300)
    parser.add_argument("--codec-python", type=Path, help="Python of an environment with torchcodec; without it AV1 is read by dav1d")
    options = parser.parse_args()
    found = {name: measure(name, options.frames, options.data, options.codec_python) for name in CLIPS}
    print(f"{platform.machine()}, PyAV {av.__version__}, AV1 by {found['g1']['av1']['version']}; {options.frames} frames per clip, CPU ms")
    for name, rows in found.items():
        show(name, rows)
    mean = {key: {c: float(np.mean([rows[key][c] for rows in found.values()])) for c in COLUMNS} for key in found["g1"]}
    show("all footage, mean", mean)
    base, compact, swift, av1 = (mean[key] for key in ("baseline", "compact", "swift", "av1"))
    lines = [
        ("compact: bytes, at most 1", compact["kb"] / base["kb"], compact["kb"] <= base["kb"]),
        ("compact: dB under the baseline, at most 0.1", base["psnr"] - compact["psnr"], base["psnr"] - compact["psnr"] <= 0.1),
        ("compact: one random frame, 120x", base["one"] / compact["one"], base["one"] / compact["one"] >= 120),
        ("compact: 16-frame window, 28x", base["window"] / compact["window"], base["window"] / compact["window"] >= 28),
        ("compact: in order, 1.8x", base["sequential"] / compact["sequential"], base["sequential"] / compact["sequential"] >= 1.8),
        ("compact: encoding time, at most 1", compact["encode"] / base["encode"], compact["encode"] <= base["encode"]),
        ("swift: bytes, at most 1", swift["kb"] / av1["kb"], swift["kb"] <= av1["kb"]),
        ("swift: dB under AV1, at most 0.1", av1["psnr"] - swift["psnr"], av1["psnr"] - swift["psnr"] <= 0.1),
        ("swift: one random frame, at most 1.2 of AV1", swift["one"] / av1["one"], swift["one"] <= 1.2 * av1["one"]),
        ("swift: 16-frame window, 1.4x", av1["window"] / swift["window"], av1["window"] / swift["window"] >= 1.4),
        ("swift: in order, 1.8x", av1["sequential"] / swift["sequential"], av1["sequential"] / swift["sequential"] >= 1.8),
        ("swift: encoding, 3x", av1["encode"] / swift["encode"], av1["encode"] / swift["encode"] >= 3),
    ]
    print("\n| measure and bound | found | reached |\n|---|---|---|")
    for name, value, good in lines:
        print(f"| {name} | {value:.2f} | {'yes' if good else 'NO'} |")


if __name__ == "__main__":
    main()
