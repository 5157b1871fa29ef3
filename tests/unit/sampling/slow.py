"""Samples worked out slowly from the rules, with scipy and plain loops; nothing of egodata.sampling but a recipe's values is used."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.spatial.transform import Rotation

SIDES = ("left", "right")
PARTS = {
    "12": ("xyz", "ypr"),
    "14": ("xyz", "ypr", "grip"),
    "18": ("xyz", "6d"),
    "20": ("xyz", "6d", "grip"),
    "126": ("kp",),
    "132": ("xyz", "kp"),
    "138": ("xyz", "ypr", "kp"),
    "140": ("xyz", "quat", "kp"),
    "144": ("xyz", "6d", "kp"),
}
POINTS = ("kp",)


@dataclass
class Pose:
    """A pose A_T_B: where B is and how it is turned, in A."""

    at: np.ndarray
    turned: Rotation

    def seen_from(self, other: "Pose") -> "Pose":
        back = other.turned.inv()
        return Pose(back.apply(self.at - other.at), back * self.turned)

    def points(self, points: np.ndarray) -> np.ndarray:
        """Express points (21, 3), given in A, in B."""
        return self.turned.inv().apply(points - self.at)


def pose_of(row: np.ndarray) -> Pose:
    row = np.asarray(row, float)
    return Pose(row[:3], Rotation.from_quat(row[[4, 5, 6, 3]]))


def between(a: Pose, b: Pose, share: float) -> Pose:
    if not share:
        return a
    turn = (a.turned.inv() * b.turned).as_rotvec()
    return Pose(a.at + share * (b.at - a.at), a.turned * Rotation.from_rotvec(share * turn))


def channels(parts, pose: Pose | None, points: np.ndarray | None, grip: float | None) -> list[float]:
    out: list[float] = []
    for part in parts:
        if part == "xyz":
            out += pose.at.tolist()
        elif part == "6d":
            matrix = pose.turned.as_matrix()
            out += [*matrix[:, 0], *matrix[:, 1]]
        elif part == "ypr":
            out += pose.turned.as_euler("ZYX").tolist()
        elif part == "quat":
            x, y, z, w = pose.turned.as_quat()
            sign = -1 if w < 0 else 1
            out += [sign * w, sign * x, sign * y, sign * z]
        elif part == "kp":
            out += points.ravel().tolist()
        else:
            out.append(0.0 if grip is None else grip)
    return out


class Slow:
    """Everything that a sample of a recipe should hold, one start at a time; all rows of the episode have to be valid."""

    def __init__(self, recipe, arrays, *, fps, spans=None):
        self.recipe, self.arrays, self.fps = recipe, {key: np.asarray(rows, float) for key, rows in arrays.items()}, Fraction(fps)
        self.spans = spans or {}
        self.total = len(next(iter(arrays.values())))
        self.touched: dict[str, set[int]] = {}
        self.poses: dict[tuple[str, int], Pose] = {}

    def row(self, key: str, frame: int) -> np.ndarray:
        """Read one row and remember that it was touched."""
        self.touched.setdefault(key, set()).add(frame)
        return self.arrays[key][frame]

    def pose(self, key: str, frame: int) -> Pose:
        """Read one pose, made once."""
        self.touched.setdefault(key, set()).add(frame)
        if (key, frame) not in self.poses:
            self.poses[key, frame] = pose_of(self.arrays[key][frame])
        return self.poses[key, frame]

    def source_frames(self, seconds: float) -> int:
        return max(1, round(self.fps * Fraction(str(seconds))))

    def end_of(self, start: int) -> int:
        """Frame after the last one that the action window may use."""
        ends = [end for begin, end in self.spans.get(self.recipe.span_cutoff) or () if begin <= start < end]
        return min([self.total, *ends])

    def action(self, start: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (S, D) numbers and (S,) which steps are recorded."""
        spec, end = self.recipe.action, self.end_of(start)
        frames = self.source_frames(spec.window_s)
        rows, real = [], []
        for step in range(spec.steps):
            exact = Fraction(step * (frames - 1), max(1, spec.steps - 1))
            low, share = start + int(exact), float(exact - int(exact))
            high = low + (1 if share else 0)
            real.append(high < end)
            rows.append(self._step(spec, min(low, end - 1), min(high, end - 1), share, start))
        return np.array(rows), np.array(real)

    def _step(self, spec, low: int, high: int, share: float, start: int) -> list[float]:
        body, _, width = spec.layout.partition("_")
        if spec.layout == "joints":
            return self._mixed(spec.feature, low, high, share).tolist()
        out: list[float] = []
        for side in SIDES:
            if width == "joints":
                out += [*self._mixed(f"{side}.{spec.feature}", low, high, share)]
                out += [*self._mixed(f"{side}.{spec.gripper}", low, high, share)]
                continue
            parts = PARTS[width]
            poses = [self.pose(f"{side}.{spec.feature}", frame) for frame in (low, high)]
            pose = between(*poses, share)
            points = None
            if "kp" in parts:
                both = [self.row(f"{side}.{spec.keypoints}", frame).reshape(21, 3) for frame in (low, high)]
                if spec.keypoints_frame == "own_wrist":
                    both = [own.points(given) for own, given in zip(poses, both, strict=True)]
                points = both[0] + share * (both[1] - both[0])
            grip = float(self._mixed(f"{side}.{spec.gripper}", low, high, share)[0]) if body == "robot" and "grip" in parts else None
            origin = self._origin(spec, side, start)
            if origin is not None:
                if points is not None and spec.keypoints_frame == "shared":
                    points = origin.points(points)
                pose = pose.seen_from(origin)
            out += channels(parts, pose, points, grip)
        return out

    def _mixed(self, key: str, low: int, high: int, share: float) -> np.ndarray:
        a, b = (np.atleast_1d(self.row(key, frame)) for frame in (low, high))
        return a + share * (b - a)

    def _origin(self, spec, side: str, start: int) -> Pose | None:
        if spec.coordinate_frame == "wrist":
            return self.pose(f"{side}.{getattr(spec, 'reference', spec.feature)}", start)
        return self.pose("obs_head_pose", start) if spec.coordinate_frame == "head" else None

    def history(self, start: int, count: int, stride: int, before: str = "grid") -> list[tuple[int, bool]]:
        """Frames of a history, oldest first, and which are inside the episode."""
        out = []
        for back in range(count - 1, -1, -1):
            frame = start - back * stride
            oldest = 0
            while before == "grid" and (start - oldest) % stride:
                oldest += 1
            out.append((frame, True) if frame >= 0 else (oldest, False))
        return out

    def proprio(self, start: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (K, P) numbers and (K,) which steps are inside the episode."""
        spec = self.recipe.proprio
        stride = spec.stride_frames if spec.stride_s is None else self.source_frames(spec.stride_s)
        steps = self.history(start, spec.history, stride)
        return np.array([self._step(spec, frame, frame, 0.0, start) for frame, _ in steps]), np.array([real for _, real in steps])

    def images(self, start: int) -> list[tuple[int, bool]]:
        """Frames of the image history of any camera, and which are inside the episode."""
        history = self.recipe.image_history
        return self.history(start, history.count, self.source_frames(history.gap_s), history.before_start)
