"""Make the golden set: one tiny v4 episode in a store, its dataset, and every digest written out.

This program follows docs/format.md and does not import egodata, so that both stand for the format on their own.
Run it from anywhere: ``python tests/golden/format/make_golden.py [FOLDER]``. The mp4 elements beside it are kept as they
are; ``--encode`` makes them anew, which changes the media digest on another build of the encoder.
"""

import argparse
import hashlib
import io
import json
import math
import os
import shutil
import struct
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import rfc8785
import zarr
from zarr.codecs import Crc32cCodec

HERE = Path(__file__).resolve().parent
EPISODE, FRAMES, WIDTH, HEIGHT, FRAMES_PER_CHUNK = "golden-0001", 7, 64, 48, 4
FPS = Fraction(30000, 1001)
FIRST_STAMP_NS = 1_700_000_000_123_456_789
CAMERAS = {"front_1": (WIDTH, HEIGHT), "left_wrist": (32, 32)}
ENCODER = {
    "profile": "golden", "codec": "h264", "crf": 18, "preset": "veryfast", "tune": "fastdecode", "gop": 3, "bframes": 1,
    "pix_fmt": "yuv420p", "frames_per_chunk": FRAMES_PER_CHUNK, "threads": 1,
}  # fmt: skip
POSE_NAMES = ["x", "y", "z", "qw", "qx", "qy", "qz"]
POSE = {"dtype": "float32", "shape": [7], "names": POSE_NAMES, "unit": "m+quat_wxyz", "coordinate_frame": "world"}
POINTS = {
    "dtype": "float32",
    "shape": [63],
    "names": [f"kp{i}_{a}" for i in range(21) for a in "xyz"],
    "unit": "m",
    "coordinate_frame": "world",
}
PALM = [0, 5, 9, 13, 17]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def canonical(value) -> bytes:
    """RFC 8785, with integers beyond 2^53-1 as decimal strings."""

    def plain(item):
        if isinstance(item, dict):
            return {key: plain(inner) for key, inner in item.items()}
        if isinstance(item, (list, tuple)):
            return [plain(inner) for inner in item]
        if isinstance(item, int) and not isinstance(item, bool) and abs(item) > 2**53 - 1:
            return str(item)
        return item

    return rfc8785.dumps(plain(value))


def numeric(dtype: str, *shape: int, unit: str = "") -> dict:
    return {"dtype": dtype, "shape": list(shape), "names": [], "unit": unit, "coordinate_frame": ""}


# ---- numbers ----------------------------------------------------------------------------------------------------------


def hand_points(*, thumb_y: int) -> np.ndarray:
    """A stiff hand whose anat-v1 rotation is the identity, multiples of 1/1024 m so that nothing rounds.

    Fingers along +z, index finger at -x and little finger at +x; the thumb is below or above the plane of the palm.
    """
    points = np.zeros((21, 3))
    for finger, x in enumerate((-48, -32, 0, 24, 40)):
        for joint, z in enumerate((72, 104, 128, 144)):
            points[1 + 4 * finger + joint] = (x, thumb_y if finger == 0 else 0, z - 48 if finger == 0 else z)
    return points / 1024


def rows() -> tuple[dict[str, np.ndarray], dict[str, dict]]:
    """The numeric arrays and what `features` says about them."""
    t = np.arange(FRAMES)
    arrays: dict[str, np.ndarray] = {}
    specs: dict[str, dict] = {}

    def add(key: str, values, spec: dict, valid) -> None:
        values = np.array(values, spec["dtype"])
        if not key.endswith("obs_keypoints"):  # of a hand that is seen in part, the points that are seen stay
            values[~np.asarray(valid)] = np.nan
        arrays[key], specs[key] = values, spec
        arrays[f"{key}_valid"], specs[f"{key}_valid"] = np.array(valid, bool), numeric("bool")

    head = np.zeros((FRAMES, 7))
    head[:, 0], head[:, 1], head[:, 2] = t / 64, -0.0, 1.5
    head[:, 3:] = (0.5, -0.5, 0.5, -0.5)
    add("obs_head_pose", head, POSE, t != 3)
    arrays["obs_head_pose_source"] = np.array([0, 0, 0, 0, 2, 2, 0], np.uint8)
    specs["obs_head_pose_source"] = numeric("uint8")

    turn = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]], float)
    for side, thumb_y, rotation, quat in (("left", -16, turn, (0.5, 0.5, 0.5, 0.5)), ("right", 16, turn.T, (0.5, -0.5, -0.5, -0.5))):
        points = hand_points(thumb_y=thumb_y) @ rotation.T + np.stack([t / 128, 0.25 + t / 256, 1.0 - t / 512], -1)[:, None]
        seen = np.ones((FRAMES, 21), bool)
        if side == "left":
            seen[1:3] = False
        else:
            seen[5, 4] = False
            seen[6, 17] = False
        points[~seen] = np.nan
        pose_valid = seen[:, PALM].all(1)
        add(f"{side}.obs_keypoints", points.reshape(FRAMES, 63), POINTS, seen.all(1))
        arrays[f"{side}.obs_keypoints_point_valid"], specs[f"{side}.obs_keypoints_point_valid"] = seen, numeric("bool", 21)
        for name, origin in (("obs_wrist_pose", points[:, 0]), ("obs_ee_pose", points[:, PALM].sum(1) / 5)):
            add(f"{side}.{name}", np.concatenate([origin, np.tile(quat, (FRAMES, 1))], 1), POSE, pose_valid)

    arrays["obs_rgb_timestamps_ns"] = np.array([FIRST_STAMP_NS + int(i * 1_000_000_000 / FPS) for i in range(FRAMES)], np.int64)
    specs["obs_rgb_timestamps_ns"] = numeric("int64", unit="ns")
    arrays["images.left_wrist_source_row"] = np.array([0, 0, 1, 1, 2, 2, 3], np.int32)
    specs["images.left_wrist_source_row"] = numeric("int32", unit="frame")
    arrays["images.left_wrist_valid"], specs["images.left_wrist_valid"] = t < 6, numeric("bool")
    return arrays, specs


# ---- video ------------------------------------------------------------------------------------------------------------


def picture(camera: str, frame: int) -> np.ndarray:
    """A grey ramp with a bright square that moves 4 px per frame."""
    width, height = CAMERAS[camera]
    image = np.repeat(np.linspace(16, 200, width).astype(np.uint8)[None, :, None], height, 0).repeat(3, 2)
    image[height // 4 : height // 4 + 8, 4 * frame : 4 * frame + 8] = (250, 40, 40)
    return image


def encode(pictures: list[np.ndarray]) -> bytes:
    import av

    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4", options={"fflags": "+bitexact"}) as container:
        stream = container.add_stream("libx264", rate=FPS)
        stream.height, stream.width = pictures[0].shape[:2]
        stream.pix_fmt = ENCODER["pix_fmt"]
        stream.codec_context.thread_count = 1
        stream.codec_context.color_primaries = stream.codec_context.color_trc = stream.codec_context.colorspace = 1
        stream.codec_context.color_range = 1
        x264 = (
            "keyint=3:min-keyint=3:scenecut=0:open-gop=0:bframes=1:b-adapt=0:b-pyramid=none:threads=1:lookahead-threads=1:sliced-threads=0"
        )
        stream.options = {"preset": ENCODER["preset"], "crf": "18", "tune": ENCODER["tune"], "x264-params": x264}
        for number, image in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(format="yuv420p", dst_colorspace=1)
            frame.pts, frame.time_base = number, 1 / FPS
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return buffer.getvalue()


def elements(camera: str, *, anew: bool) -> list[bytes]:
    """The stored elements of a camera: from the files beside this script, or encoded anew."""
    out = []
    for index, start in enumerate(range(0, FRAMES, FRAMES_PER_CHUNK)):
        path = HERE / "video" / f"{camera}_{index}.mp4"
        if anew:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(encode([picture(camera, f) for f in range(start, min(start + FRAMES_PER_CHUNK, FRAMES))]))
        out.append(path.read_bytes())
    return out


# ---- text and attributes ----------------------------------------------------------------------------------------------


def spans() -> dict[str, list[bytes]]:
    """Annotation elements; the key without spans is present and empty."""
    given = {
        "annotations_task": [("Move the cube to the blue zone.", 0, 7)],
        "annotations_subtask": [("reach", 0, 3), ("grasp “it” – مكعب 🧊", 2, 6), ('\ttab, \\ and "quotes"', 6, 7)],
        "annotations": [],
        "fold_segments": [("", 0, 4), ("second fold", 4, 7)],  # structural: stored and hashed like the others, never a text
    }
    return {
        key: [
            json.dumps({"text": text, "start_idx": start, "end_idx": end}, ensure_ascii=False, separators=(",", ":")).encode()
            for text, start, end in items
        ]
        for key, items in given.items()
    }


def calibration() -> dict:
    """Two cameras: one with distortion and a pose, one without."""
    front = {
        "K": [[25.25, 0.0, 31.5, 0.0], [0.0, 25.5, 23.75, 0.0], [0.0, 0.0, 1.0, 0.0]],
        "model": "OPENCV",
        "distortion": [0.05324, -0.03083, 0.00722, 0.00023],
        "resolution": [64, 48],
        "rectified": False,
        "ref_T_cam": [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]],
    }
    wrist = {
        "K": [[20.0, 0.0, 15.5, 0.0], [0.0, 20.0, 15.5, 0.0], [0.0, 0.0, 1.0, 0.0]],
        "model": "PINHOLE",
        "distortion": [],
        "resolution": [32, 32],
        "rectified": True,
        "ref_T_cam": None,
    }
    return {"reference_frame": "head", "cameras": {"front_1": front, "left_wrist": wrist}, "arm_bases": {}}


def camera_feature(camera: str) -> dict:
    width, height = CAMERAS[camera]
    video = {
        **ENCODER,
        "fps": float(FPS), "fps_num": FPS.numerator, "fps_den": FPS.denominator,
        "total_frames": FRAMES, "n_chunks": math.ceil(FRAMES / FRAMES_PER_CHUNK),
    }  # fmt: skip
    names = ["height", "width", "channel"]
    return {"dtype": "h264", "shape": [height, width, 3], "names": names, "unit": "", "coordinate_frame": "", "video": video}


def attributes(features: dict[str, dict]) -> dict:
    """Every attribute but `digests`."""
    calibrated = calibration()
    return {
        "schema_version": "v4.0",
        "episode_id": EPISODE,
        "recording_id": "golden-recording",
        "clip": {"index": 1, "start": 30, "end": 37, "aliased": True},
        "vendor": "golden",
        "dataset": "tiny",
        "delivery": "2023-11",
        "operator": "op-a",
        "session": None,
        "embodiment": "human_bimanual",
        "task_name": "move_cube",
        "task_description": "",
        "total_frames": FRAMES,
        "fps": float(FPS),
        "fps_num": FPS.numerator,
        "fps_den": FPS.denominator,
        "clock": "unix",
        "reference_camera": "front_1",
        "hand_frame_convention": "anat-v1",
        "data_status": "train_ready",
        "features": features,
        "provenance": {"raw_uri": "golden", "first_stamp_ns": str(FIRST_STAMP_NS)},
        "processing": {"converter": "make_golden", "version": "1", "encode": ENCODER},
        "scene_desc": "a table",
        "calibration": calibrated,
        "intrinsics": {name: camera["K"] for name, camera in calibrated["cameras"].items()},
    }


# ---- digests ----------------------------------------------------------------------------------------------------------


def array_digest(key: str, array: np.ndarray) -> str:
    head = rfc8785.dumps({"key": key, "dtype": array.dtype.name, "shape": list(array.shape)}) + b"\n"
    if array.dtype == np.float32:
        words = b"".join(
            struct.pack("<I", 0x7FC00000) if math.isnan(x) else struct.pack("<f", 0.0 if x == 0 else x) for x in array.ravel().tolist()
        )
    else:
        words = array.astype(array.dtype.newbyteorder("<")).tobytes()
    return sha256(head + words)


def elements_digest(key: str, items: list[bytes]) -> str:
    head = rfc8785.dumps({"key": key, "dtype": "bytes", "shape": [len(items)]}) + b"\n"
    return sha256(head + b"".join(struct.pack("<Q", len(item)) + item for item in items))


def combined(parts: dict[str, str]) -> str:
    return sha256(rfc8785.dumps([[key, parts[key]] for key in sorted(parts, key=lambda key: key.encode())]))


def episode_digests(media: dict[str, str], notes: dict[str, str], attrs: dict) -> dict[str, str]:
    outside = {"episode_id", "recording_id", "delivery", "processing", "provenance", "digests", "calibration", "intrinsics", "extrinsics"}
    found = {
        "media": combined(media),
        "annotations": combined(notes),
        "calibration": sha256(canonical({key: attrs.get(key) for key in ("calibration", "intrinsics", "extrinsics")})),
        "meta": sha256(canonical({key: value for key, value in attrs.items() if key not in outside})),
    }
    return {**found, "content": sha256(rfc8785.dumps(found))}


# ---- files ------------------------------------------------------------------------------------------------------------


def write_episode(folder: Path, arrays: dict[str, np.ndarray], variable: dict[str, list[bytes]], attrs: dict) -> None:
    group = zarr.create_group(folder, zarr_format=3, attributes=attrs)
    for key, values in arrays.items():
        fill = float("nan") if values.dtype.kind == "f" else values.dtype.type(0).item()
        array = group.create_array(
            key,
            shape=values.shape,
            dtype=values.dtype,
            chunks=(100, *values.shape[1:]),
            shards=(100 * math.ceil(len(values) / 100), *values.shape[1:]),
            fill_value=fill,
            compressors=Crc32cCodec(),
            config={"write_empty_chunks": True},
        )
        array[...] = values
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*does not have a Zarr V3 specification.*")
        warnings.filterwarnings("ignore", message=".*variable.length.*")
        for key, items in variable.items():
            array = group.create_array(key, shape=(len(items),), dtype="variable_length_bytes", chunks=(1,), compressors=None)
            if items:
                values = np.empty(len(items), object)
                values[:] = items
                array[:] = values


def integrity(folder: Path) -> dict:
    files = sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.relative_to(folder).as_posix().encode())
    return {path.relative_to(folder).as_posix(): {"size": path.stat().st_size, "sha256": sha256(path.read_bytes())} for path in files}


def write_store(store: Path, *, anew: bool) -> tuple[dict, dict, dict]:
    """Write the store; return the arrays, the attributes and all digests."""
    arrays, specs = rows()
    video = {f"images.{camera}": elements(camera, anew=anew) for camera in CAMERAS}
    notes = spans()
    attrs = attributes({**specs, **{f"images.{camera}": camera_feature(camera) for camera in CAMERAS}})
    media = {**{k: array_digest(k, v) for k, v in arrays.items()}, **{k: elements_digest(k, v) for k, v in video.items()}}
    texts = {key: elements_digest(key, items) for key, items in notes.items()}
    digests = episode_digests(media, texts, attrs)
    version = store / "zarr" / ".v" / EPISODE / f"{digests['content'][:16]}-1"
    write_episode(version / "episode.zarr", arrays, {**video, **notes}, {**attrs, "digests": digests})
    (version / "integrity.json").write_bytes(rfc8785.dumps({"content": digests["content"], "files": integrity(version / "episode.zarr")}))
    os.symlink(f".v/{EPISODE}/{version.name}/episode.zarr", store / "zarr" / f"{EPISODE}.zarr")
    (store / "store.json").write_text(json.dumps({"episode_schema": "v4.0", "store_schema": 1}, indent=1, sort_keys=True) + "\n")
    return arrays, attrs, {"episode": EPISODE, "media": media, "annotations": texts, "digests": digests}


def cell(value):
    """A number as JSON has it: NaN is null."""
    return None if isinstance(value, float) and math.isnan(value) else value


def lance_rows(attrs: dict, arrays: dict[str, np.ndarray], found: dict) -> dict:
    """The rows of the four tables, column by column, as docs/format.md says; feature columns by Lance name."""
    digests, notes, stamps = found["digests"], spans(), arrays["obs_rgb_timestamps_ns"]
    same = {
        key: attrs[key]
        for key in (
            "episode_id", "recording_id", "vendor", "dataset", "delivery", "operator", "session", "embodiment", "task_name",
            "task_description", "fps", "fps_num", "fps_den", "clock", "reference_camera", "hand_frame_convention", "schema_version",
        )
    }  # fmt: skip
    episode = {
        **same,
        "episode_index": 0,
        **{f"clip_{key}": value for key, value in attrs["clip"].items()},
        "n_frames": FRAMES,
        "cameras": sorted(CAMERAS),
        "annotation_keys": sorted(notes),
        "calibration": canonical(attrs["calibration"]).decode(),
        **{f"{name}_digest": digests[name] for name in ("media", "annotations", "calibration", "meta")},
        "content": digests["content"],
        "attributes": canonical({**attrs, "digests": digests}).decode(),
    }
    frames = {
        "episode_id": [EPISODE] * FRAMES,
        "episode_index": [0] * FRAMES,
        "frame_index": list(range(FRAMES)),
        "index": list(range(FRAMES)),
        "timestamp": [int(stamp - stamps[0]) / 1e9 for stamp in stamps],
        "timestamp_ns": [str(stamp) for stamp in stamps],
    }
    for key, values in sorted(arrays.items()):
        column = [[cell(item) for item in row] if isinstance(row, list) else cell(row) for row in values.tolist()]
        frames[key.replace(".", "__")] = [str(item) for item in column] if values.dtype == np.int64 else column
    videos = []
    for camera in sorted(CAMERAS):
        for index, item in enumerate(elements(camera, anew=False)):
            first = index * FRAMES_PER_CHUNK
            count = min(FRAMES_PER_CHUNK, FRAMES - first)
            row = {"camera": camera, "chunk_index": index, "first_frame": first, "n_frames": count, "size_bytes": len(item)}
            videos.append({"episode_id": EPISODE, **row, "sha256": sha256(item)})
    texts = []
    for key in sorted(notes):
        for index, item in enumerate(json.loads(element) for element in notes[key]):
            row = {"span_index": index, "text": item["text"], "start": item["start_idx"], "end": item["end_idx"]}
            texts.append({"episode_id": EPISODE, "key": key, **row})
    return {"episodes": [episode], "frames": frames, "videos": videos, "annotations": texts}


def manifest(attrs: dict, found: dict) -> dict:
    """A dataset of one head that holds and pins the episode."""
    rule = {
        "heads": ["train"], "where": {"vendor": ["golden"]}, "held_out_operators": [], "held_out": None, "valid_ratio": 0.0,
        "algorithm": "shuffle-v1", "group_by": "recording", "allow_null_operator": False, "pins": {"train": [EPISODE]}, "min_frames": 1,
        "exclusions": [],
    }  # fmt: skip
    train = {
        "ids": [EPISODE], "frames": [FRAMES], "contents": [found["digests"]["content"]], "media": [found["digests"]["media"]],
        "recordings": [attrs["recording_id"]], "operators": [0], "sessions": [None],
    }  # fmt: skip
    identity = {
        "schema": 1, "rule": rule, "seed": 42, "heads": {"train": train}, "operators": ["golden/op-a"], "sessions": [],
        "held_out_operators": [], "pins": {"train": [EPISODE]},
    }  # fmt: skip
    provenance = {"created": "2023-11-14T22:13:20+00:00", "egodata": "0.1.0", "format": "zarr"}
    return {"name": "golden", "version": "v1", "digest": sha256(canonical(identity)), "identity": identity, "provenance": provenance}


def statistics(found: dict) -> dict:
    """A statistics file over a small table of numbers (not over the episode: windows and resampling are not part of the format)."""
    recipe = {
        "action": {
            "layout": "human_18", "coordinate_frame": "wrist", "feature": "obs_ee_pose", "reference": "obs_ee_pose", "window_s": 1.0,
            "steps": 100,
        },
        "proprio": {"layout": "human_20", "coordinate_frame": "head", "feature": "obs_ee_pose", "history": 3, "stride_frames": 5},
        "span_cutoff": None,
    }  # fmt: skip
    train = sha256(canonical([[EPISODE, found["digests"]["content"]]]))
    recipe_digest = sha256(canonical(recipe))
    body = {
        "schema": 1,
        "key": sha256(canonical({"train": train, "recipe": recipe_digest, "algorithm": "exact-1"})),
        "train_digest": train,
        "recipe_digest": recipe_digest,
        "episodes": 1,
        "windows": len(TABLE["action"]),
        "features": {
            name: {"names": names, "kept": kept, **fields(np.array(TABLE[name], np.float64))}
            for name, names, kept in (("action", ["x", "y", "c1x"], [2]), ("proprio", ["x", "y"], []))
        },
    }
    return {**body, "digest": sha256(canonical(body))}


# Windows x steps x channels, and rows x channels; None is a cell that does not count. Channel y has a range below the floor of 1e-4.
TABLE = {
    "action": [
        [[0.0, 0.25, 1.0], [1.0, 0.25, 0.5]],
        [[0.5, 0.25, 1.0], [-2.0, 0.25, -0.5]],
        [[1.5, 0.25, 1.0], [None, None, None]],
        [[4.0, 0.25, 1.0], [3.0, 0.250030517578125, 0.0]],
    ],
    "proprio": [[1.0, None], [2.0, None], [-1.0, None], [8.0, None]],
}


def fields(values: np.ndarray) -> dict:
    """Every kept number of each cell over the first axis."""
    levels = {"median": 0.5, "q01": 0.01, "q99": 0.99, "q0001": 0.0001, "q9999": 0.9999}
    cells = values.reshape(len(values), -1).T
    kept = [cell_values[~np.isnan(cell_values)] for cell_values in cells]
    shape = values.shape[1:]

    def column(function) -> list:
        return np.array([function(cell_values) if len(cell_values) else np.nan for cell_values in kept]).reshape(shape).tolist()

    def plain(column) -> list:
        return [plain(item) if isinstance(item, list) else cell(item) for item in column]

    out = {name: plain(column(function)) for name, function in (("mean", np.mean), ("std", np.std), ("min", np.min), ("max", np.max))}
    out.update({name: plain(column(lambda v, level=level: np.quantile(v, level))) for name, level in levels.items()})
    return {"count": np.array([len(cell_values) for cell_values in kept]).reshape(shape).tolist(), **out}


def write_json(path: Path, value) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def write_tables(path: Path, tables: dict) -> None:
    """One row, or one column of frames, per line."""
    blocks = []
    for table, value in tables.items():
        lines = [json.dumps(item, ensure_ascii=False) for item in value] if isinstance(value, list) else None
        lines = lines or [f"{json.dumps(name)}: {json.dumps(column)}" for name, column in value.items()]
        left, right = "[]" if isinstance(value, list) else "{}"
        blocks.append(f"{json.dumps(table)}: {left}\n" + ",\n".join(lines) + f"\n{right}")
    path.write_text("{\n" + ",\n".join(blocks) + "\n}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=HERE)
    parser.add_argument("--encode", action="store_true", help="encode the mp4 elements anew")
    options = parser.parse_args()
    store = options.folder / "store"
    shutil.rmtree(store, ignore_errors=True)
    (store / "zarr").mkdir(parents=True)
    arrays, attrs, found = write_store(store, anew=options.encode)
    frozen = manifest(attrs, found)
    path = store / "datasets" / "golden" / "v1" / "manifest.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(canonical(frozen))
    write_json(options.folder / "digests.json", {**found, "dataset": frozen["digest"]})
    write_json(options.folder / "attributes.json", attrs)
    (options.folder / "statistics.json").write_bytes(canonical(statistics(found)))
    write_tables(options.folder / "lance_rows.json", lance_rows(attrs, arrays, found))


if __name__ == "__main__":
    main()
