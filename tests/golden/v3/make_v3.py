"""Makes the old stores in this folder and what is known about them, without egodata: zarr, the ffmpeg program, numpy.

    python tests/golden/v3/make_v3.py

Run it only to change them on purpose. Frames are encoded and decoded by the ffmpeg program, the numbers are written down beside them.
"""

import json
import shutil
import warnings
from pathlib import Path

import ffmpeg
import imageio_ffmpeg
import numpy as np
import zarr
from zarr.codecs import ZstdCodec
from zarr.dtype import VariableLengthBytes

HERE = Path(__file__).resolve().parent
PROGRAM = imageio_ffmpeg.get_ffmpeg_exe()
WIDTH, HEIGHT, FPS = 64, 48, 30
K = [[25.6, 0.0, 31.5, 0.0], [0.0, 25.6, 23.5, 0.0], [0.0, 0.0, 1.0, 0.0]]


def draw(frames: int, seed: int) -> np.ndarray:
    """A drifting gradient with a square that moves, (frames, H, W, 3) uint8."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    out = np.empty((frames, HEIGHT, WIDTH, 3), np.uint8)
    for t in range(frames):
        for c in range(3):
            out[t, :, :, c] = 128 + 60 * np.sin((x + (seed + c + 1) * t) * 0.08 + y * 0.05 * (c + 1))
        left, top = (5 * t) % (WIDTH - 12), (3 * t) % (HEIGHT - 12)
        out[t, top : top + 12, left : left + 12] = ((37 * t) % 256, 255 - (11 * t) % 256, (91 * t) % 256)
    return out


def program(stream, data: bytes = b"") -> bytes:
    """Run the ffmpeg program."""
    return stream.global_args("-loglevel", "error", "-threads", "1").run(
        cmd=PROGRAM, capture_stdout=True, input=data, overwrite_output=True
    )[0]


def raw(frames: np.ndarray):
    return ffmpeg.input("pipe:", format="rawvideo", pix_fmt="rgb24", s=f"{WIDTH}x{HEIGHT}", r=FPS)


def mp4(frames: np.ndarray, folder: Path) -> bytes:
    """One element as v3.1 wrote it: libx264 with its own B-frames and pyramid, crf 15, gop 30."""
    path = folder / "element.mp4"
    options = {"vcodec": "libx264", "pix_fmt": "yuv420p", "crf": 15, "g": 30, "bf": 3, "fflags": "+bitexact", "x264-params": "threads=1"}
    program(raw(frames).output(str(path), **options), frames.tobytes())
    data = path.read_bytes()
    path.unlink()
    return data


def jpegs(frames: np.ndarray) -> list[bytes]:
    data = program(raw(frames).output("pipe:", format="image2pipe", vcodec="mjpeg", **{"q:v": 2, "pix_fmt": "yuvj444p"}), frames.tobytes())
    ends = [i + 2 for i in range(len(data) - 1) if data[i : i + 2] == b"\xff\xd9"]
    return [data[a:b] for a, b in zip([0, *ends], ends, strict=False)]


def decoded(elements: list[bytes], folder: Path, suffix: str) -> np.ndarray:
    """Decode elements one after the other with the program."""
    out = []
    for element in elements:
        path = folder / f"element.{suffix}"
        path.write_bytes(element)
        flags = "accurate_rnd+full_chroma_int"
        picture = ffmpeg.input(str(path)).output("pipe:", format="rawvideo", pix_fmt="rgb24", sws_flags=flags, fps_mode="passthrough")
        out.append(np.frombuffer(program(picture), np.uint8).reshape(-1, HEIGHT, WIDTH, 3))
        path.unlink()
    return np.concatenate(out)


def poses(frames: int, seed: int) -> np.ndarray:
    """(frames, 7): x y z qw qx qy qz, a turn about an axis that is not one of the coordinate axes."""
    t = np.arange(frames)
    angle, axis = 0.3 + 0.02 * t, np.array([2.0, -1.0, 2.0]) / 3
    out = np.empty((frames, 7))
    out[:, :3] = np.stack([0.1 * np.sin(t / 9 + seed), 0.2 + 0.01 * t, 1.0 + 0.1 * np.cos(t / 7)], -1)
    out[:, 3], out[:, 4:] = np.cos(angle / 2), np.sin(angle / 2)[:, None] * axis
    return out


def keypoints(frames: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.normal(0, 0.05, (1, 63)) + 0.5 + 0.001 * np.arange(frames)[:, None]).astype(np.float64)


def group(name: str, attributes: dict) -> zarr.Group:
    folder = HERE / "store" / f"{name}.zarr"
    shutil.rmtree(folder, ignore_errors=True)
    made = zarr.create_group(store=str(folder), zarr_format=3)
    made.attrs.put(attributes)
    return made


def numbers(made: zarr.Group, key: str, array: np.ndarray, *, slots: int) -> None:
    """Chunks of 100 rows in one shard, compressed, with a zero tail up to `slots` rows: as the old writer did."""
    rows = -(-slots // 100) * 100
    stored = made.create_array(
        key,
        shape=(slots, *array.shape[1:]),
        chunks=(100, *array.shape[1:]),
        shards=(rows, *array.shape[1:]),
        dtype=array.dtype,
        compressors=ZstdCodec(),
    )
    stored[: len(array)] = array


def elements(made: zarr.Group, key: str, items: list[bytes], *, slots: int | None = None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stored = made.create_array(key, shape=(slots or len(items),), chunks=(1,), dtype=VariableLengthBytes(), compressors=None)
        for number, item in enumerate(items):
            cell = np.empty(1, object)
            cell[0] = item
            stored[number : number + 1] = cell


def features(arrays: dict, camera: str, extra: dict | None = None) -> dict:
    out = {key: {"dtype": str(a.dtype), "shape": list(a.shape[1:]), "names": None} for key, a in arrays.items()}
    return {
        **out,
        "images.front_1": {"dtype": camera, "shape": [HEIGHT, WIDTH, 3], "names": ["height", "width", "channel"], **(extra or {})},
    }


def human(frames: int, dtype: type) -> dict[str, np.ndarray]:
    arrays = {"obs_head_pose": poses(frames, 1)}
    for seed, side in enumerate(("left", "right")):
        arrays[f"{side}.obs_ee_pose"] = poses(frames, 2 + seed)
        arrays[f"{side}.obs_wrist_pose"] = poses(frames, 4 + seed)
        arrays[f"{side}.obs_keypoints"] = keypoints(frames, seed)
    return {key: array.astype(dtype) for key, array in arrays.items()}


def common(frames: int, embodiment: str, version: str) -> dict:
    return {
        "embodiment": embodiment,
        "total_frames": frames,
        "fps": FPS,
        "task_name": "fold_clothes",
        "task_description": "Fold the shirt.",
        "schema_version": version,
    }


def v30_jpeg(folder: Path) -> dict:
    """v3.0: JPEG images, padded arrays, zeros for a missing hand, legacy intrinsics, no time stamps, doubles."""
    frames, slots = 12, 15
    arrays = human(frames, np.float64)
    for key in ("left.obs_ee_pose", "left.obs_wrist_pose", "left.obs_keypoints"):
        arrays[key][3:5] = 0.0
    made = group(
        "v30-jpeg", {**common(frames, "mecka_bimanual", "v3.0"), "features": features(arrays, "jpeg"), "intrinsics": {"front_1": K}}
    )
    for key, array in arrays.items():
        numbers(made, key, array, slots=slots)
    images = jpegs(draw(frames, 0))
    elements(made, "images.front_1", images, slots=slots)
    return {"frames": decoded(images, folder, "jpg"), "codec": "jpeg", "invalid": {"left": [3, 4]}, "per_element": 1}


def v31_h264(folder: Path) -> dict:
    """v3.1: h264 in elements of 20 frames with a video block, 1e9 and NaN, annotations, calibration, unix stamps."""
    frames, per_element = 50, 20
    arrays = human(frames, np.float32)
    arrays["right.obs_ee_pose"][7] = 1e9
    arrays["right.obs_wrist_pose"][7] = 1e9
    arrays["right.obs_keypoints"][7] = 1e9
    arrays["obs_head_pose"][20] = np.nan
    arrays["obs_rgb_timestamps_ns"] = 1_700_000_000_000_000_000 + np.arange(frames, dtype=np.int64) * 33_333_333
    block = {"codec": "h264", "crf": 15, "gop": 30, "pix_fmt": "yuv420p", "fps": FPS, "frames_per_chunk": per_element}
    block |= {"total_frames": frames, "n_chunks": 3}
    camera = {
        "K": K,
        "model": "PINHOLE",
        "distortion": [],
        "resolution": [WIDTH, HEIGHT],
        "rectified": True,
        "ref_T_cam": np.eye(4).tolist(),
    }
    attributes = {
        **common(frames, "human_bimanual", "v3.1"),
        "features": features(arrays, "h264", {"video": block}),
        "calibration": {"reference_frame": "head", "cameras": {"front_1": camera}, "arm_bases": {}},
        "intrinsics": {"front_1": K},
        "data_status": "train_ready",
    }
    made = group("v31-h264", attributes)
    for key, array in arrays.items():
        numbers(made, key, array, slots=frames)
    pictures = draw(frames, 3)
    items = [mp4(pictures[start : start + per_element], folder) for start in range(0, frames, per_element)]
    elements(made, "images.front_1", items)
    spans = [{"text": "grasp the sleeve", "start_idx": 0, "end_idx": 30}, {"text": "fold | it", "start_idx": 30, "end_idx": 60}]
    elements(made, "annotations_subtask", [json.dumps(span).encode() for span in spans])
    elements(made, "annotations", [])
    elements(made, "fold_segments", [json.dumps({"start_idx": 0, "end_idx": 25}).encode()])
    return {"frames": decoded(items, folder, "mp4"), "codec": "h264", "invalid": {"right": [7], "head": [20]}, "per_element": per_element}


def v31_stale(folder: Path) -> dict:
    """v3.1 whose features say jpeg while the bytes are mp4, without a video block, the last element padded to its full length."""
    frames, per_element = 45, 20
    arrays = human(frames, np.float32)
    made = group(
        "v31-stale",
        {**common(frames, "human_bimanual", "v3.1"), "features": features(arrays, "jpeg"), "hand_frame_convention": "mirror-left-v1"},
    )
    for key, array in arrays.items():
        numbers(made, key, array, slots=60)
    pictures = draw(60, 5)
    items = [mp4(pictures[start : start + per_element], folder) for start in range(0, 60, per_element)]
    elements(made, "images.front_1", items)
    return {"frames": decoded(items, folder, "mp4")[:frames], "codec": "h264", "invalid": {}, "per_element": per_element}


def v31_robot(folder: Path) -> dict:
    """A robot of v3.1 whose features say h264 while the bytes are JPEG; a zero gripper is a value."""
    frames = 6
    arrays = {"left.obs_ee_pose": poses(frames, 1).astype(np.float32), "left.obs_gripper": np.zeros((frames, 1), np.float32)}
    arrays["left.cmd_ee_pose"] = poses(frames, 2).astype(np.float32)
    made = group("v31-robot", {**common(frames, "eva_left_arm", "v3.1"), "features": features(arrays, "h264")})
    for key, array in arrays.items():
        numbers(made, key, array, slots=frames)
    images = jpegs(draw(frames, 7))
    elements(made, "images.front_1", images)
    return {"frames": decoded(images, folder, "jpg"), "codec": "jpeg", "invalid": {}, "per_element": 1}


def main() -> None:
    shutil.rmtree(HERE / "store", ignore_errors=True)
    (HERE / "store").mkdir()
    known, pictures = {}, {}
    for make in (v30_jpeg, v31_h264, v31_stale, v31_robot):
        found = make(HERE)
        name = make.__name__.replace("_", "-")
        frames = found.pop("frames")
        chosen = sorted({0, 1, len(frames) // 2, min(19, len(frames) - 1), min(20, len(frames) - 1), len(frames) - 1})
        pictures |= {f"{name}/{index}": frames[index] for index in chosen}
        known[name] = {**found, "total_frames": len(frames), "seen": chosen}
    np.savez_compressed(HERE / "frames.npz", **pictures)
    (HERE / "known.json").write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
