"""What a camera of an old store holds, by its bytes: old attributes may declare another codec, or have no video block at all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from egodata.episode import VideoInfo
from egodata.errors import CorruptEpisodeError, VideoError
from egodata.video import ChunkCache, FrameReader, JpegReader, decode_jpeg, index_chunk, is_jpeg, is_mp4

JPEG, H264 = "jpeg", "h264"
_KEPT = ("crf", "gop", "preset", "pix_fmt", "bframes", "tune", "profile")


@dataclass(frozen=True, slots=True)
class LegacyCamera:
    """A camera stream of an old episode.

    Attributes:
        codec: What the bytes are: ``jpeg`` or ``h264``.
        declared: What the attributes say, or empty.
        info: For JPEG, one element per frame.
    """

    codec: str
    declared: str
    info: VideoInfo

    def open(self, element: Callable[[int], bytes], *, where: str, cache: ChunkCache | None) -> FrameReader | JpegReader:
        """Return a reader of its frames."""
        if self.codec == JPEG:
            return JpegReader(self.info, element, where=where)
        return FrameReader(self.info, element, where=where, cache=cache, exact=False)


def find_camera(
    spec: Mapping[str, Any], element: Callable[[int], bytes], *, slots: int, total: int, fps: Fraction, where: str
) -> LegacyCamera:
    """Look at the first element of a camera.

    Args:
        spec: Its entry of `features`, possibly empty.
        element: Gives an element by its number.
        slots: Elements of the array; old stores pad it.
        total: Frames of the episode.
        fps: Of the episode.
        where: Episode and array, for error messages.

    Raises:
        CorruptEpisodeError: Neither JPEG nor mp4, or not enough elements for the episode's frames.
    """
    first, declared = element(0), str(spec.get("dtype", ""))
    try:
        if is_jpeg(first):
            height, width = decode_jpeg(first).shape[:2]
            codec, per_element, settings = JPEG, 1, {"codec": JPEG}
        elif is_mp4(first):
            held = index_chunk(first).frames
            width, height = _size(first, held, fps, where)
            block = dict(spec.get("video") or {})
            # with several elements the first one is full and says how many frames an element has; a single one may be padded
            per_element = held if slots > 1 or held < total else max(held, int(block.get("frames_per_chunk", held)))
            codec, settings = H264, {"codec": H264, **{key: block[key] for key in _KEPT if key in block}}
        else:
            raise VideoError(f"starts with {first[:8]!r}, neither JPEG nor mp4")
    except VideoError as error:
        raise CorruptEpisodeError(f"{where} element 0: {error}") from error
    info = VideoInfo(width, height, total, per_element, fps, settings)
    if info.chunks > slots:
        raise CorruptEpisodeError(f"{where}: {total} frames need {info.chunks} elements of {per_element} frames, got {slots}.")
    return LegacyCamera(codec, declared, info)


def _size(element: bytes, frames: int, fps: Fraction, where: str) -> tuple[int, int]:
    return FrameReader(VideoInfo(0, 0, frames, frames, fps, {}), lambda _: element, where=where).size()
