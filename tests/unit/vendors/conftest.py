"""A twelve-frame Mecka recording whose every file a test can replace, and small LeRobot datasets."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from egodata.geometry.rotation import matrix_from_zyx, quat_from_matrix
from egodata.testing.drafts import moving_frames, write_source
from egodata.vendors import VendorOptions, get_vendor

from . import vendor_files

ID = "5f0c00000000000000000001"
FRAMES = 12
T0 = 1_750_000_000
SIZE = (96, 54)
HAND = np.array([(0.4 + 0.01 * (i % 4), 0.02 * (i // 4 - 2), 0.005 * (i % 3) - 0.1) for i in range(21)])


def frames_csv(frames=FRAMES, step_us=33_333):
    return "index,unix_timestamp\n" + "".join(f"{i},{T0 + (i * step_us) // 10**6}.{(i * step_us) % 10**6:06d}\n" for i in range(frames))


def ego_row(frame, yaw=0.1, pitch=0.2, roll=0.05, position=(0.1, 0.2, 1.5), quat=None):
    w, x, y, z = quat_from_matrix(matrix_from_zyx(yaw, pitch, roll)) if quat is None else quat
    position = (position[0] + 0.01 * frame, *position[1:])
    return " ".join([str(frame), *(f"{v:.9f}" for v in (*position, yaw, pitch, roll, x, y, z, w))])


def hand_rows(frames=FRAMES, hands=(0, 1), points=HAND):
    mirror = np.array([1.0, -1.0, 1.0])
    return [
        f"{frame},{hand},{i},{x:.7f},{y:.7f},{z:.7f}"
        for frame in range(frames)
        for hand in hands
        for i, (x, y, z) in enumerate(points if hand else points * mirror)
    ]


HANDS_HEADER = "frame,hand_index,landmark_index,world_x,world_y,world_z"
INTRINSICS = {"w": 1920, "h": 1080, "fl_x": 752.4707, "fl_y": 753.0016, "cx": 961.8249, "cy": 553.2459, "k1": 0.05324, "k2": -0.03083}


@dataclass
class MeckaFiles:
    """The files of one recording; None leaves a file out."""

    root: Path
    id: str = ID
    info: dict = field(default_factory=dict)
    frames: str | bytes | None = field(default_factory=frames_csv)
    hands: str | bytes | None = field(default_factory=lambda: "\n".join([HANDS_HEADER, *hand_rows()]) + "\n")
    egomotion: str | bytes | None = field(default_factory=lambda: "\n".join(ego_row(i) for i in range(FRAMES)) + "\n")
    annotations: str | bytes | None = None
    intrinsics: str | bytes | None = field(default_factory=lambda: json.dumps(INTRINSICS))
    video: bytes | None = None
    config: str | None = None
    listed: tuple[str, ...] = ()  # in the JSON although not delivered

    @property
    def folder(self):
        return self.root / self.id

    def write(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        names = {"frames": "frames.csv", "hands": "hands.csv", "egomotion": "egomotion.txt", "annotations": "annotations.csv",
                 "intrinsics": "intrinsics.json"}  # fmt: skip
        for key, name in names.items():
            value = getattr(self, key)
            if value is not None:
                (self.folder / name).write_bytes(value if isinstance(value, bytes) else value.encode())
        if self.video:
            (self.folder / f"{self.id}_video.mp4").write_bytes(self.video)
        urls = {
            "video": f"https://host.invalid/x/{self.id}_video.mp4?sig=a/b",
            **{
                key: f"https://host.invalid/x/{name}" for key, name in names.items() if key in self.listed or getattr(self, key) is not None
            },
        }
        info = {
            "id": self.id,
            "user_id": "aaaa00000000000000000001",
            "environment_id": "kitchen",
            "scene_desc": "a table",
            "urls": urls,
            **self.info,
        }
        (self.folder / f"{self.id}.json").write_text(json.dumps(info))
        return self

    @property
    def options(self):
        return VendorOptions("kitchen", "first", self.config)

    def discover(self):
        return get_vendor("mecka").discover(self.root, self.options)

    def draft(self):
        self.write()
        (ref,) = [ref for ref in self.discover().recordings if ref.id == self.id]
        (draft,) = get_vendor("mecka").read(ref, self.options).episodes
        return draft


@pytest.fixture(scope="session")
def twelve_frames(tmp_path_factory):
    path = write_source(tmp_path_factory.mktemp("video") / "video.mp4", moving_frames(FRAMES, SIZE, 3))
    return path.read_bytes()


@pytest.fixture
def mecka(tmp_path, twelve_frames):
    return MeckaFiles(tmp_path / "raw", video=twelve_frames)


def codes(draft_or_error):
    return [finding.code for finding in draft_or_error.findings]


@dataclass
class LeRobotFiles:
    """A LeRobot v2.1 dataset of one camera; `index` of the one episode delivered, `listed` of those listed."""

    root: Path
    video: bytes
    index: int = 3
    listed: int = 5
    info: dict = field(default_factory=dict)
    columns: dict = field(default_factory=dict)
    cameras: tuple = ("observation.images.cam_high",)

    def write(self):
        rows = self.columns.get("rows", FRAMES)
        (self.root / "meta").mkdir(parents=True, exist_ok=True)
        features = {
            "observation.state": {"dtype": "float32", "shape": [3], "names": [["a", "b", "c"]]},
            "action": {"dtype": "float32", "shape": [2], "names": {"motors": ["d", "e"]}},
            **{camera: {"dtype": "video", "shape": [54, 96, 3]} for camera in self.cameras},
        }
        info = {
            "codebase_version": "v2.1", "robot_type": "two_arms", "fps": 30, "chunks_size": 1000, "features": features,
            "data_path": "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
            "video_path": "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4", **self.info,
        }  # fmt: skip
        (self.root / "meta/info.json").write_text(json.dumps(info))
        lines = [json.dumps({"episode_index": i, "tasks": ["Pick it up."], "length": rows}) for i in range(self.listed)]
        (self.root / "meta/episodes.jsonl").write_text("\n".join(lines))
        (self.root / "meta/tasks.jsonl").write_text(json.dumps({"task_index": 0, "task": "Pick it up."}))
        rng = np.random.default_rng(0)
        table = {
            "observation.state": list(rng.normal(size=(rows, 3)).astype(np.float32)),
            "action": list(rng.normal(size=(rows, 2)).astype(np.float32)),
            "timestamp": (np.arange(rows) / 30).astype(np.float32),
            "frame_index": np.arange(rows),
            "task_index": np.zeros(rows, np.int64),
            **{key: value for key, value in self.columns.items() if key != "rows"},
        }
        path = self.root / f"data/chunk-000/episode_{self.index:06d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({key: value for key, value in table.items() if value is not None}), path)
        for camera in self.cameras:
            target = self.root / f"videos/chunk-000/{camera}/episode_{self.index:06d}.mp4"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(self.video)
        return self

    def discover(self):
        return get_vendor("lerobot").discover(self.root, VendorOptions("arms", "first"))

    def draft(self):
        self.write()
        (ref,) = self.discover().recordings
        return get_vendor("lerobot").read(ref, VendorOptions("arms", "first")).episodes[0]


@pytest.fixture
def lerobot(tmp_path, twelve_frames):
    return LeRobotFiles(tmp_path / "arms", twelve_frames)


@pytest.fixture(scope="session")
def forty(tmp_path_factory):
    """An mp4 of 40 frames, 96x60."""
    return vendor_files.forty_frames(tmp_path_factory.mktemp("forty"))


@pytest.fixture
def scale(tmp_path, forty):
    return vendor_files.ScaleFiles(tmp_path / "raw", video=forty)


@pytest.fixture
def egodex(tmp_path, forty):
    return vendor_files.EgoDexFiles(tmp_path / "raw", video=forty)


@pytest.fixture
def eva(tmp_path):
    return vendor_files.EvaFiles(tmp_path / "raw")
