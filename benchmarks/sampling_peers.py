"""How does sampling compare with the public LeRobot loaders on the same footage?

    make bench-env-lerobot
    python benchmarks/sampling_peers.py WORK [--episodes 60] [--samples 640] [--python .venv-lerobot/bin/python]

A generated delivery at 640x360 becomes a store, its Lance copy, and four LeRobot datasets: LeRobot v3.0 files and the Lance layout of
lerobot-lancedb, each with our H.264 packets copied and with the footage encoded the way that LeRobot records by default (AV1, two frames
between keyframes, crf 30, preset 12). All six loaders take turns in blocks of 64 uniform random samples of the same frames. A sample is one
frame as uint8, the state with two earlier ones, and the next second of actions; ours also has the head pose, both hands in the wrist frame
at 100 steps, masks and prompts. Single process, one thread; CPU time and bytes read (`rchar`, block maps not counted: they are said apart).
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np

from egodata.catalog import load_dataset
from egodata.cli.main import cli, run
from egodata.sampling import HeadSource, load_recipe
from egodata.schema.layout import open_root

BLOCK = 64
CAMERA = "observation.images.front_1"
AV1 = ["-c:v", "libsvtav1", "-g", "2", "-crf", "30", "-preset", "12", "-pix_fmt", "yuv420p"]
DELTA = {"action": [step / 30 for step in range(30)], "observation.state": [-10 / 30, -5 / 30, 0.0]}


def egodata(*words: object) -> None:
    if run(cli, [str(word) for word in words], program="egodata"):
        raise SystemExit(f"egodata {' '.join(map(str, words))} failed")


def build(work: Path, episodes: int, python: Path) -> Path:
    store = work / "store"
    if not (store / "datasets").is_dir():
        egodata("synth", work / "delivery", "--episodes", episodes, "--operators", 6, "--size", "640x360")
        egodata("ingest", work / "delivery", "--vendor", "mecka", "--store", store, "--dataset", "cubes")
        egodata("lance", "build", store)
        egodata("dataset", "freeze", store, "synthetic", "--no-card")
    if not (work / "lerobot-h264").is_dir():
        egodata("export", "lerobot", store, "synthetic@v1", work / "lerobot-h264")
        egodata("export", "lerobot", store, "synthetic@v1", work / "lancedb-h264", "--storage", "lance")
    if not (work / "lancedb-av1").is_dir():
        recode(work)
        subprocess.run(
            [python.with_name("lerobot-lance-convert"), "--root", work / "lerobot-av1", "--out", work / "lancedb-av1"], check=True
        )
    return store


def recode(work: Path) -> None:
    """The same footage as LeRobot records it: decoded from the delivery's store and encoded with that library's defaults."""
    target = work / "lerobot-av1"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(work / "lerobot-h264", target)
    for path in (target / "videos").rglob("*.mp4"):
        out = path.with_suffix(".av1.mp4")
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", path, *AV1, out], check=True)
        out.replace(path)
    info = json.loads((target / "meta/info.json").read_text())
    info["features"][CAMERA]["info"]["video.codec"] = "av1"
    (target / "meta/info.json").write_text(json.dumps(info))


def read_bytes() -> int:
    return int(next(line.split()[1] for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("rchar")))


class Own:
    def __init__(self, store: Path, format: str) -> None:
        paths = open_root(store)
        self.manifest = load_dataset(paths, "synthetic@v1")
        self.source = HeadSource.open(paths, self.manifest, head="train", recipe=load_recipe("human_wrist6d"), format=format)

    def __call__(self, indices: list[int]) -> dict[str, float]:
        cpu, read = time.process_time(), read_bytes()
        self.source.samples(indices, epoch=0)
        return {"cpu_s": time.process_time() - cpu, "read_bytes": read_bytes() - read}


class Peer:
    def __init__(self, python: Path) -> None:
        script = Path(__file__).with_name("lerobot_peer.py")
        self.process = subprocess.Popen(
            [python, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, **request: object) -> dict[str, float]:
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=Path)
    parser.add_argument("--episodes", type=int, default=60)
    parser.add_argument("--samples", type=int, default=640)
    parser.add_argument("--python", type=Path, default=Path(".venv-lerobot/bin/python"))
    args = parser.parse_args()
    if not args.python.is_file():
        sys.exit(f"{args.python}: no environment with lerobot. Make one with `make bench-env-lerobot`.")
    store = build(args.work, args.episodes, args.python)
    takers = {f"egodata {name}": Own(store, name) for name in ("zarr", "lance")}
    source = takers["egodata zarr"].source
    peer = Peer(args.python)
    for name in ("lerobot-h264", "lerobot-av1", "lancedb-h264", "lancedb-av1"):
        if (args.work / name).is_dir():
            peer.ask(do="open", name=name, loader=name.partition("-")[0], root=str(args.work / name), delta=DELTA)
            takers[name] = lambda indices, name=name: peer.ask(do="sample", name=name, indices=indices)
    members = takers["egodata zarr"].manifest.heads["train"]
    starts = np.concatenate([[0], np.cumsum([member.frames for member in members])])
    rng, found = np.random.default_rng(0), {name: [] for name in takers}
    for turn in range(-1, args.samples // BLOCK):  # the first turn warms up
        picks = rng.integers(0, len(source), BLOCK).tolist()
        ordinals = np.searchsorted(source.index.offsets, picks, side="right") - 1
        frames = (starts[ordinals] + source.index.frames[picks]).tolist()
        for name in sorted(takers) if turn % 2 else sorted(takers, reverse=True):
            answer = takers[name](picks if name.startswith("egodata") else frames)
            if turn >= 0:
                found[name].append(answer)
    print(f"{'loader':16}{'CPU ms/sample':>15}{'min to max':>18}{'KB read/sample':>16}{'footage MB':>12}")
    for name, answers in found.items():
        ms = [answer["cpu_s"] / BLOCK * 1e3 for answer in answers]
        kilobytes = statistics.mean(answer["read_bytes"] for answer in answers) / BLOCK / 1e3
        spread = f"{min(ms):.1f} to {max(ms):.1f}"
        print(f"{name:16}{statistics.median(ms):15.2f}{spread:>18}{kilobytes:16.1f}{footage_mb(args.work, store, name):12.1f}")
    with closing(source):
        peer.process.stdin.close()


def footage_mb(work: Path, store: Path, name: str) -> float:
    if name.startswith("egodata"):
        folder, pattern = (
            (store / "zarr/.v", "**/images.front_1/c/*") if name.endswith("zarr") else (store / "lance_v2/videos.lance", "data/**/*")
        )
    else:
        folder, pattern = (work / name, "videos/**/*.mp4") if name.startswith("lerobot") else (work / name / "videos.lance", "data/**/*")
    return sum(path.stat().st_size for path in folder.glob(pattern) if path.is_file()) / 1e6


if __name__ == "__main__":
    main()
