"""AV1 elements of a Lance copy that was made for size: encoded from decoded frames, indexed with the demuxer.

Encoding is SVT-AV1 on one thread, which gives equal bytes for equal frames; decoding is dav1d on one thread.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from fractions import Fraction
from io import BytesIO
from typing import Any, cast

import av
import numpy as np
from av.error import FFmpegError
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream
from numpy.typing import NDArray

from egodata.errors import VideoError
from egodata.video.colour import BT709, LIMITED, to_stored
from egodata.video.mp4 import ChunkIndex

AV1 = "av1"
ENCODER, DECODER = "libsvtav1", "libdav1d"


@dataclass(frozen=True, slots=True)
class Av1Settings:
    """How a copy is encoded again.

    Attributes:
        codec: Always ``av1``.
        crf: Constant rate factor, 1 to 63.
        preset: SVT-AV1's, 0 (slow) to 13.
        gop: Frames from keyframe to keyframe.
        pix_fmt: Always ``yuv420p`` (bt709, limited range).
    """

    codec: str = AV1
    crf: int = 28
    preset: int = 8
    gop: int = 16
    pix_fmt: str = "yuv420p"

    def to_json(self) -> dict[str, Any]:
        """Return every setting as plain JSON types."""
        return asdict(self)


AV1_SETTINGS = Av1Settings()


def encode_av1(frames: Iterable[NDArray[np.uint8]], *, fps: Fraction, settings: Av1Settings = AV1_SETTINGS) -> bytes:
    """Encode RGB frames as one self-contained mp4.

    Args:
        frames: Each (H, W, 3) uint8 RGB, all of one even size, at least one.
        fps: Frame rate of the stored stream.
        settings: Encoder settings.

    Raises:
        VideoError: There is no frame, or the encoder fails.
    """
    buffer, count, reformatter = BytesIO(), 0, VideoReformatter()
    options = {
        "preset": str(settings.preset),
        "crf": str(settings.crf),
        "g": str(settings.gop),
        "svtav1-params": "lp=1:scd=0",
    }
    try:
        with av.open(buffer, "w", format="mp4", options={"fflags": "+bitexact"}) as container:
            stream = cast(VideoStream, container.add_stream(ENCODER, rate=fps, options=options))
            for count, array in enumerate(frames, 1):
                size = (int(array.shape[1]), int(array.shape[0]))
                if count == 1:
                    stream.width, stream.height = size
                    stream.pix_fmt = settings.pix_fmt
                    context = stream.codec_context
                    context.time_base = 1 / fps
                    context.color_primaries = context.color_trc = context.colorspace = BT709
                    context.color_range = LIMITED
                rgb = av.VideoFrame.from_ndarray(np.ascontiguousarray(array), format="rgb24")
                frame = to_stored(rgb, reformatter, size=size, where="frames in memory")
                frame.pts, frame.time_base = count - 1, 1 / fps
                container.mux(stream.encode(frame))
            if count:
                container.mux(stream.encode(None))
    except FFmpegError as error:
        raise VideoError(f"video frames in memory: AV1 encoding failed ({error.strerror or error}).") from error
    if count == 0:
        raise VideoError("video frames in memory: none to encode.")
    return buffer.getvalue()


def index_av1(data: bytes) -> ChunkIndex:
    """Read the packet index of an AV1 element.

    Raises:
        VideoError: Not such an mp4.
    """
    try:
        with av.open(BytesIO(data), "r") as container:
            stream = container.streams.video[0]
            name, extradata = stream.codec_context.name, stream.codec_context.extradata
            packets = [packet for packet in container.demux(stream) if packet.size]
    except (FFmpegError, IndexError) as error:
        raise VideoError(f"mp4 element: cannot be read ({error}). It was cut off.") from error
    if name != DECODER or not packets or not packets[0].is_keyframe:
        raise VideoError(f"mp4 element: expected AV1 with a keyframe first, got {name} with {len(packets)} packets.")
    pts = np.array([packet.pts for packet in packets], np.int64)
    decode = np.argsort(pts, kind="stable").astype(np.int64)
    display = np.empty_like(decode)
    display[decode] = np.arange(len(decode))
    return ChunkIndex(
        offsets=np.array([packet.pos for packet in packets], np.int64),
        sizes=np.array([packet.size for packet in packets], np.int64),
        key=np.array([packet.is_keyframe for packet in packets], np.bool_),
        disposable=np.zeros(len(packets), np.bool_),
        display=display,
        decode=decode,
        extradata=bytes(extradata or b""),
        decoder=DECODER,
    )
