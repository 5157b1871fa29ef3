"""Eva's image data sets: checked before an episode is promised, read in blocks, colours put in order."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.episode import FrameSource
from egodata.errors import VideoError
from egodata.vendors.base import Notes
from egodata.vendors.eva.config import EvaConfig
from egodata.vendors.extras import require
from egodata.vendors.frames import stored_size
from egodata.vendors.hdf5 import DAMAGED, find_dataset
from egodata.video import scaled_frames

IMAGES = "observations/images"
BLOCK_FRAMES = 16


@dataclass(frozen=True, slots=True)
class ImageSet:
    """A camera's images in the file.

    Attributes:
        name: Path of the data set.
        frames: How many.
        width: Pixels.
        height: Pixels.
    """

    name: str
    frames: int
    width: int
    height: int


def find_images(file: Any, *, config: EvaConfig, notes: Notes) -> dict[str, ImageSet]:
    """Find the image data sets by camera name.

    Raises:
        SetAside: The reference camera is not there, or a data set is not (N, H, W, 3) uint8.
    """
    found: dict[str, ImageSet] = {}
    for name, camera in config.cameras.items():
        path = f"{IMAGES}/{name}"
        dataset = find_dataset(file, path, notes=notes)
        if dataset is None:
            notes.counts.setdefault("absent_cameras", []).append(name)
            continue
        shape = dataset.shape
        if dataset.dtype != np.uint8 or len(shape) != 4 or shape[3] != 3 or min(shape) < 2:
            text = f"{path}: {dataset.dtype} {shape}, expected uint8 (N, H, W, 3), at least two frames. Ask for plain images."
            notes.refuse("images-unusable", text, stream=path)
        found[camera] = ImageSet(path, *(int(size) for size in (shape[0], shape[2], shape[1])))
    if config.reference_camera not in found:
        known = ", ".join(sorted(found)) or "none"
        text = f"{IMAGES}: no images of {config.reference_camera}, it has {known}. Name them in `cameras` of the vendor config."
        notes.refuse("camera-missing", text, stream=IMAGES)
    group = file.get(IMAGES)
    notes.counts["dropped_cameras"] = sorted(set(group) - set(config.cameras)) if hasattr(group, "keys") else []
    if absent := notes.counts.get("absent_cameras"):
        notes.add("camera-absent", f"{IMAGES}: no {', '.join(absent)}; the episode lacks that camera", stream=IMAGES)
    return found


def frame_source(path: Path, images: ImageSet, *, total: int, config: EvaConfig) -> FrameSource:
    """Return a camera's frames as RGB at the stored size; the file is opened where they are made.

    Args:
        path: The HDF5 file.
        images: The camera's data set.
        total: Frames of the episode; later ones are not read.
        config: Order of colours, stored size.
    """
    size = stored_size(images.width, images.height, limit=config.stored_size_px)

    def make() -> Iterator[NDArray[np.uint8]]:
        yield from scaled_frames(_rgb(path, images.name, total, order=config.image_order), size=size)

    return FrameSource(make, total, size)


def _rgb(path: Path, name: str, total: int, *, order: str) -> Iterator[NDArray[np.uint8]]:
    h5py = require("h5py", extra="hdf5", vendor="eva")
    try:
        with h5py.File(path, "r", locking=False) as file:
            dataset = file[name]
            for start in range(0, total, BLOCK_FRAMES):
                block = np.asarray(dataset[start : min(start + BLOCK_FRAMES, total)], np.uint8)
                yield from np.ascontiguousarray(block[..., ::-1] if order == "bgr" else block)
    except DAMAGED as error:
        raise VideoError(f"video {path.name} {name}: images cannot be read to their end ({' '.join(str(error).split())[:120]}).") from error
