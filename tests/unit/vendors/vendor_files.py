"""Small deliveries of Scale, EgoDex and Eva whose every part a test can replace."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import scale_json_binary

from egodata.geometry.pose import compose
from egodata.geometry.rotation import matrix_from_zyx, quat_from_matrix
from egodata.testing.drafts import moving_frames, write_source
from egodata.vendors import VendorOptions, get_vendor

FRAMES = 40
SIZE = (96, 60)
T0_US = 1_750_000_000_000_000
STEP_US = 33_333
HAND = np.array([(0.02 * (i % 4 - 2), 0.05 + 0.02 * (i // 4), 0.4 + 0.005 * (i % 3)) for i in range(21)])
MIRROR = np.array([-1.0, 1.0, 1.0])
FINGERS = ("thumb", "index", "middle", "ring", "pinky")
NAMES = ["hand_wrist"] + [f"hand_{finger}{joint}" for finger in FINGERS for joint in (1, 2, 3, 4)]


def codes(draft_or_error):
    return [finding.code for finding in draft_or_error.findings]


def stamps_us(frames=FRAMES, first=T0_US):
    return first + STEP_US * np.arange(frames)


def head_poses(frames=FRAMES):
    """(frames, 4, 4): a head that moves and turns."""
    t = np.arange(frames)
    rotation = matrix_from_zyx(0.1 + 0.01 * t, 0.2 + 0 * t, 0.05 * np.sin(t / 9))
    return compose(rotation, np.stack([0.01 * t, 0.2 + 0 * t, 1.5 + 0 * t], -1))


def hand_points(frames=FRAMES):
    """By side, (frames, 21, 3): hands that drift."""
    drift = np.stack([0.004 * np.arange(frames), 0 * np.arange(frames), 0.01 * np.sin(np.arange(frames) / 5)], -1)[:, None]
    return {"left": HAND * MIRROR + drift, "right": HAND + drift + (0.1, 0, 0)}


@dataclass
class Files:
    """What the three have in common."""

    root: Path
    config: dict[str, Any] = field(default_factory=dict)
    vendor: str = ""

    @property
    def options(self):
        if not self.config:
            return VendorOptions("kitchen", "first")
        path = self.root.parent / "own.yaml"
        path.write_text(json.dumps(self.config))  # JSON is YAML
        return VendorOptions("kitchen", "first", str(path))

    def discover(self):
        return get_vendor(self.vendor).discover(self.root, self.options)

    def write(self):
        raise NotImplementedError

    def read(self):
        self.write()
        (ref,) = self.discover().recordings
        return get_vendor(self.vendor).read(ref, self.options)

    def draft(self):
        (draft,) = self.read().episodes
        return draft


def text_clip(start_frame, end_frame, text="", **attributes):
    listed = [{"name": name.replace("_", " "), "values": values} for name, values in attributes.items()]
    start = int(T0_US + STEP_US * start_frame)
    return {"timestamp": start, "duration": round(STEP_US * (end_frame - start_frame)), "text": text, "attributes": listed}


@dataclass
class ScaleFiles(Files):
    """One recording; None leaves a file out."""

    vendor: str = "scale"
    id: str = "5f0c00000000000000000001"
    stamps: Any = field(default_factory=stamps_us)
    head: np.ndarray = field(default_factory=head_poses)
    poses: np.ndarray | None = None  # instead of head
    sensor: dict[str, Any] = field(default_factory=dict)
    intrinsics: dict[str, Any] | None = field(
        default_factory=lambda: {"fx": 60.0, "fy": 61.0, "cx": 47.0, "cy": 30.5, "width": 96, "height": 60}
    )
    points: dict[str, np.ndarray] = field(default_factory=hand_points)
    paths: dict[str, Any] = field(default_factory=dict)  # by label, instead of a made one; None leaves it out
    texts: dict[str, list] = field(default_factory=dict)
    attributes: list = field(default_factory=lambda: [{"name": "Demonstration", "values": ["fold the cloth"]}])
    tail: bytes = b"\0\0"
    scene: bytes | None = None
    annotation: bytes | None = None
    video: bytes | None = None
    video_name: str = "left_rectified.mp4"

    @property
    def folder(self):
        return self.root / self.id

    def make_scene(self):
        values = self.poses
        if values is None:
            quat = np.roll(quat_from_matrix(self.head[:, :3, :3]), -1, axis=1)
            values = np.concatenate([self.head[:, :3, 3], quat], axis=1)
        sensor = {"id": "left_rectified", "poses": {"timestamps": self.stamps, "values": values}, **self.sensor}
        if self.intrinsics is not None:
            sensor["intrinsics"] = self.intrinsics
        return {"sensors": [{"id": "imu", "poses": {"timestamps": np.arange(3), "values": np.zeros((3, 7))}}, sensor]}

    def make_annotation(self):
        stamps = np.asarray(stamps_us()).tolist()
        made = {
            f"{side}_{name}": {"timestamps": stamps, "values": points[:, index].tolist()}
            for side, points in self.points.items()
            for index, name in enumerate(NAMES)
        }
        made = {label: path for label, path in {**made, **self.paths}.items() if path is not None}
        items = [{"type": "points", "labels": list(made), "paths": list(made.values())}]
        items += [{"type": "text_annotation", "label": label, "clips": clips} for label, clips in self.texts.items()]
        return {"annotations": items, "attributes": self.attributes}

    def write(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        scene = scale_json_binary.dumps(self.make_scene()) if self.scene is None else self.scene
        (self.folder / f"{self.id}.sfs").write_bytes(scene)
        text = json.dumps(self.make_annotation()).encode() + self.tail if self.annotation is None else self.annotation
        (self.folder / "annotations.json").write_bytes(text)
        if self.video is not None:
            (self.folder / self.video_name).write_bytes(self.video)
        return self


def egodex_joints(points, side):
    thumb = ("Knuckle", "IntermediateBase", "IntermediateTip", "Tip")
    names = [f"{side}Hand", *(f"{side}Thumb{part}" for part in thumb)]
    names += [f"{side}{f}Finger{part}" for f in ("Index", "Middle", "Ring", "Little") for part in thumb]
    return {name: points[:, index] for index, name in enumerate(names)}


@dataclass
class EgoDexFiles(Files):
    """One recording, ``fold/7.hdf5`` and its video; None leaves a data set out."""

    vendor: str = "egodex"
    head: np.ndarray = field(default_factory=head_poses)
    points: dict[str, np.ndarray] = field(default_factory=hand_points)
    k: np.ndarray | None = field(default_factory=lambda: np.array([[60.0, 0, 47], [0, 61, 30.5], [0, 0, 1]]))
    datasets: dict[str, Any] = field(default_factory=dict)  # by path, instead of the made one
    confidence: float | None = 1.0
    attributes: dict[str, Any] = field(default_factory=lambda: {"llm_description": "fold the cloth", "task": "fold"})
    video: bytes | None = None

    @property
    def path(self):
        return self.root / "fold" / "7.hdf5"

    def write(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        made = {"transforms/camera": self.head, "camera/intrinsic": self.k, "transforms/leftForearm": self.head}
        for side, points in self.points.items():
            for name, places in egodex_joints(points, side).items():
                made[f"transforms/{name}"] = compose(np.broadcast_to(np.eye(3), (len(places), 3, 3)), places)
                made[f"confidences/{name}"] = None if self.confidence is None else np.full(len(places), self.confidence)
        with h5py.File(self.path, "w") as file:
            for name, values in {**made, **self.datasets}.items():
                if values is not None:
                    file[name] = values
            for name, value in self.attributes.items():
                file.attrs[name] = value
        if self.video is not None:
            self.path.with_suffix(".mp4").write_bytes(self.video)
        return self


def eva_rows(frames=FRAMES):
    t = np.arange(frames)[:, None]
    arm = np.concatenate([0.3 + 0.004 * t, 0.1 + 0 * t, 0.2 - 0.001 * t, 0.5 + 0.01 * t, 0.2 + 0 * t, -0.3 + 0 * t, 0.4 + 0.01 * t], 1)
    return np.concatenate([arm, arm * (1, -1, 1, -1, 1, -1, 0.5)], 1)


def eva_images(frames=FRAMES, size=(32, 24)):
    return moving_frames(frames, size, seed=4)[..., ::-1]


@dataclass
class EvaFiles(Files):
    """One recording, ``episode_3.hdf5``; None leaves a data set out."""

    vendor: str = "eva"
    datasets: dict[str, Any] = field(default_factory=dict)  # by path, instead of the made one

    @property
    def path(self):
        return self.root / "episode_3.hdf5"

    def made(self):
        rows = eva_rows()
        moved = np.concatenate([rows[1:], rows[-1:]])
        made = {
            "observations/eepose": rows,
            "observations/joints": rows + 0.7,
            "actions/eepose": moved,
            "actions/joints": moved + 0.7,
            "observations/images/front_img_1": eva_images(),
            "observations/images/left_wrist_img": eva_images(size=(16, 12)),
            "observations/images/right_wrist_img": eva_images(size=(16, 12)),
        }
        return {**made, **self.datasets}

    def write(self):
        self.root.mkdir(parents=True, exist_ok=True)
        with h5py.File(self.path, "w") as file:
            for name, values in self.made().items():
                if values is not None:
                    file[name] = values
        return self


def forty_frames(folder: Path, frames: int = FRAMES) -> bytes:
    """Return an mp4 of 40 small frames."""
    return write_source(folder / "video.mp4", moving_frames(frames, SIZE, 3)).read_bytes()
