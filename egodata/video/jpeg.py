"""JPEG images of old stores: one element per frame."""

import os
from collections.abc import Callable, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from egodata.episode import VideoInfo
from egodata.errors import CorruptEpisodeError, HandleError, VideoError, WindowError

JPEG_MAGIC = b"\xff\xd8\xff"


def is_jpeg(data: bytes) -> bool:
    """Whether bytes begin like a JPEG image."""
    return data.startswith(JPEG_MAGIC)


def is_mp4(data: bytes) -> bool:
    """Whether bytes begin like an mp4."""
    return data[4:8] == b"ftyp"


def decode_jpeg(data: bytes) -> NDArray[np.uint8]:
    """Decode one JPEG image.

    Returns:
        (H, W, 3) uint8 RGB.

    Raises:
        VideoError: It is empty, cut off or no JPEG.
    """
    if not is_jpeg(data) or b"\xff\xd9" not in data[-64:]:
        raise VideoError(f"JPEG of {len(data)} bytes: empty, cut off or no JPEG. Get the episode again.")
    found = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    if found is None:
        raise VideoError(f"JPEG of {len(data)} bytes: cannot be decoded. Get the episode again.")
    return np.asarray(cv2.cvtColor(found, cv2.COLOR_BGR2RGB), np.uint8)


class JpegReader:
    """Reads frames of a camera that is stored as one JPEG per frame, like `FrameReader`."""

    def __init__(self, info: VideoInfo, chunk: Callable[[int], bytes], *, where: str) -> None:
        """Make a reader; nothing is read yet.

        Args:
            info: Sizes and counts of the stream.
            chunk: Gives the JPEG of a frame.
            where: Episode and camera, for error messages.
        """
        self._info = info
        self._chunk = chunk
        self._where = where
        self._pid = os.getpid()
        self._closed = False

    def frames(self, indices: Sequence[int]) -> NDArray[np.uint8]:
        """Return frames (N, H, W, 3) uint8 RGB in the order asked for; repeats are decoded once.

        Raises:
            WindowError: An index is outside the stream.
            CorruptEpisodeError: An image cannot be decoded or has another size.
            HandleError: The reader is closed, or another process made it.
        """
        if self._closed or os.getpid() != self._pid:
            why = "reader is closed" if self._closed else f"opened in process {self._pid}, used in {os.getpid()}"
            raise HandleError(f"{self._where}: {why}. Open the episode again.")
        info = self._info
        wanted = [int(index) for index in indices]
        for index in wanted:
            if not 0 <= index < info.frames:
                raise WindowError(f"{self._where}: frame {index} is outside [0, {info.frames}).")
        decoded = {index: self._decode(index) for index in dict.fromkeys(wanted)}
        out = np.empty((len(wanted), info.height, info.width, 3), np.uint8)
        for slot, index in enumerate(wanted):
            out[slot] = decoded[index]
        return out

    def _decode(self, index: int) -> NDArray[np.uint8]:
        try:
            found = decode_jpeg(self._chunk(index))
        except VideoError as error:
            raise CorruptEpisodeError(f"{self._where} frame {index}: {error}") from error
        if found.shape[:2] != (self._info.height, self._info.width):
            raise CorruptEpisodeError(
                f"{self._where} frame {index}: expected {self._info.width}x{self._info.height}, got {found.shape[1]}x{found.shape[0]}"
            )
        return found

    def close(self) -> None:
        """Refuse further use."""
        self._closed = True
