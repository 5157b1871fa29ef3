"""Read one Eva recording into a draft."""

from fractions import Fraction

import numpy as np

from egodata.calibration import Calibration, CameraCalibration, Matrix, pinhole_matrix
from egodata.episode import Clip, EpisodeDraft, EpisodeMeta, FrameSource
from egodata.findings import Severity
from egodata.schema.features import TIMESTAMPS, FeatureSpec, camera_key, mask_spec, timestamps_spec, valid_key
from egodata.vendors.base import Drafts, Notes, RecordingRef
from egodata.vendors.eva.config import EvaConfig
from egodata.vendors.eva.images import ImageSet, find_images, frame_source
from egodata.vendors.eva.streams import arm_numbers, read_streams, zero_tail
from egodata.vendors.frames import frame_times_ns
from egodata.vendors.hdf5 import open_hdf5
from egodata.vendors.human import Arrays, Specs


def read_recording(ref: RecordingRef, config: EvaConfig) -> Drafts:
    """Read one recording; one clip is the whole of it.

    Raises:
        SetAside: The file is unusable by the rules of docs/vendors/eva.md.
    """
    notes = Notes(ref.id)
    path = ref.files["media"][0]
    with open_hdf5(path, vendor="eva", notes=notes) as file:
        streams = read_streams(file, config=config, notes=notes)
        images = find_images(file, config=config, notes=notes)
    lengths = {**{name: len(rows) for name, rows in streams.items()}, **{found.name: found.frames for found in images.values()}}
    total = _settle(lengths, config, notes)
    tail = zero_tail(streams, total)
    total = _cut_tail(total, tail, config, notes)
    fps = Fraction(config.fps)
    arrays, specs = arm_numbers({name: rows[:total] for name, rows in streams.items()}, config.arms, notes=notes)
    arrays[TIMESTAMPS], specs[TIMESTAMPS] = frame_times_ns(np.arange(total), fps), timestamps_spec()
    _other_cameras(images, total, config, (arrays, specs))
    notes.add(
        "clock-declared", f"the file has no times: frame t is at t / {config.fps} s, as the vendor config says", severity=Severity.INFO
    )
    videos: dict[str, FrameSource] = {camera: frame_source(path, found, total=total, config=config) for camera, found in images.items()}
    calibration = _calibration(videos, config, notes)
    meta = EpisodeMeta(
        episode_id=ref.id,
        recording_id=ref.id,
        clip=Clip(0, 0, total, aliased=False),
        vendor="eva",
        dataset=ref.dataset,
        delivery=ref.delivery,
        operator=None,
        session=None,
        embodiment=config.embodiment,
        task_name=ref.dataset,
        task_description="",
        total_frames=total,
        fps=fps,
        clock="frame0",
        reference_camera=config.reference_camera,
        hand_frame_convention=None,
        features=specs,
        provenance=dict(notes.counts),
    )
    return Drafts((EpisodeDraft(meta, arrays, videos, {}, calibration, tuple(notes.found)),))


def _settle(lengths: dict[str, int], config: EvaConfig, notes: Notes) -> int:
    least, most = min(lengths.values()), max(lengths.values())
    said = ", ".join(f"{name} {count}" for name, count in sorted(lengths.items()))
    if most - least > config.trim_tail_frames or least < 1:
        notes.refuse("frame-count", f"rows: {said}; more than {config.trim_tail_frames} apart. Ask for the file again.", got=said)
    if most != least:
        notes.add("tail-trimmed", f"rows: {said}; every stream ends at row {least}", expected=str(most), got=str(least))
    return least


def _cut_tail(total: int, tail: int, config: EvaConfig, notes: Notes) -> int:
    if not tail:
        return total
    text = f"the last {tail} of {total} rows hold nothing but zeros"
    if tail == total or config.zero_tail == "set_aside":
        notes.refuse("zero-tail", f"{text}. Ask for the recording again.", frames=(total - tail, total))
    notes.counts["zero_tail_rows"] = tail
    notes.add(
        "zero-tail",
        f"{text}; every stream ends at row {total - tail}",
        frames=(total - tail, total),
        expected=str(total),
        got=str(total - tail),
    )
    return total - tail


def _other_cameras(images: dict[str, ImageSet], total: int, config: EvaConfig, into: tuple[Arrays, Specs]) -> None:
    """The file keeps all cameras on the same rows: row t of each belongs to frame t."""
    arrays, specs = into
    for camera in images:
        if camera == config.reference_camera:
            continue
        key = camera_key(camera)
        arrays[f"{key}_source_row"], specs[f"{key}_source_row"] = np.arange(total, dtype=np.int32), FeatureSpec("int32", (), unit="frame")
        arrays[valid_key(key)], specs[valid_key(key)] = np.ones(total, np.bool_), mask_spec()


def _calibration(videos: dict[str, FrameSource], config: EvaConfig, notes: Notes) -> Calibration | None:
    cameras = {}
    for name, declared in config.declared_cameras.items():
        if name in videos:
            k = pinhole_matrix(declared.fx, declared.fy, declared.cx, declared.cy)
            model = "OPENCV" if declared.distortion else "PINHOLE"
            cameras[name] = CameraCalibration(k, model, declared.distortion, (declared.w, declared.h)).scaled(*videos[name].size)
    bases: dict[str, Matrix] = {
        str(side): (*rows, (0.0, 0.0, 0.0, 1.0)) for side, rows in config.declared_arm_bases.items() if side in config.arms
    }
    if not cameras and not bases:
        text = "the files have no calibration and the vendor config declares none: cameras and arm bases are unknown"
        notes.add("calibration-unknown", text, severity=Severity.INFO, stream="calibration")
        return None
    text = f"declared in the vendor config: cameras {', '.join(sorted(cameras)) or 'none'}, arm bases {', '.join(sorted(bases)) or 'none'}"
    notes.add("calibration-declared", text, severity=Severity.INFO, stream="calibration")
    return Calibration("head", cameras, bases)
