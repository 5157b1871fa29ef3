"""Several stored mp4 elements as one mp4, without decoding: packets are copied and get new times.

Elements of one encoder setting start on an IDR frame and share their parameter sets, so that they play one after the other.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from types import TracebackType

import av
import numpy as np
from av.error import FFmpegError
from av.stream import Stream

from egodata.errors import VideoError
from egodata.video.mp4 import ChunkIndex, index_chunk


@dataclass(frozen=True, slots=True)
class Signature:
    """What elements have to share to lie in one file.

    Attributes:
        extradata: The decoder's parameter sets.
        delay_frames: How far decode order runs ahead of display order at most.
    """

    extradata: bytes
    delay_frames: int


def elements_signature(elements: Iterable[bytes], *, where: str) -> Signature:
    """Read what an episode's elements share.

    Raises:
        VideoError: They do not share their parameter sets, there are none, or one cannot be read.
    """
    found = [(index.extradata, _delay(index)) for index in map(index_chunk, elements)]
    if not found or any(extradata != found[0][0] for extradata, _ in found):
        kinds = len({extradata for extradata, _ in found})
        raise VideoError(
            f"{where}: {len(found)} video elements with {kinds} encoder parameter sets; one is needed to copy them into one file."
        )
    return Signature(found[0][0], max(delay for _, delay in found))


def _delay(index: ChunkIndex) -> int:
    return int(max(0, (np.arange(index.frames) - index.display).max()))


class JoinedVideo:
    """An mp4 that elements are appended to; frame k is shown at k / fps from 0.

    Attributes:
        frames: Frames appended so far.
        size_bytes: Their packets' bytes.
        signature: What every element has to share.
    """

    def __init__(self, path: Path, *, fps: Fraction, signature: Signature) -> None:
        self.frames = 0
        self.size_bytes = 0
        self.signature = signature
        self._path, self._fps = path, fps
        self._container = av.open(str(path), "w", format="mp4", options={"fflags": "+bitexact"})
        self._stream: av.VideoStream | None = None

    def append(self, element: bytes) -> None:
        """Append one element's packets.

        Raises:
            VideoError: Other parameter sets, a larger delay, or the muxer refused.
        """
        index = index_chunk(element)
        if index.extradata != self.signature.extradata or _delay(index) > self.signature.delay_frames:
            raise VideoError(f"{self._path.name}: an element of another encoder setting at frame {self.frames}. Start another file.")
        try:
            stream = self._stream = self._stream or self._like(element)
            for number in range(index.frames):
                packet = self._packet(element, index, number)
                packet.stream = stream
                self._container.mux(packet)
        except FFmpegError as error:
            raise VideoError(f"{self._path.name}: frame {self.frames} could not be written ({error.strerror or error}).") from error
        self.frames += index.frames
        self.size_bytes += int(index.sizes.sum())

    def _like(self, element: bytes) -> av.VideoStream:
        with av.open(BytesIO(element)) as source:
            stream = self._container.add_stream_from_template(source.streams.video[0])
        stream.time_base = 1 / self._fps
        return stream

    def _packet(self, element: bytes, index: ChunkIndex, number: int) -> "av.Packet[Stream]":
        offset = int(index.offsets[number])
        packet = av.Packet(element[offset : offset + int(index.sizes[number])])
        packet.time_base = 1 / self._fps
        packet.pts = self.frames + int(index.display[number])
        packet.dts = self.frames + number - self.signature.delay_frames
        packet.duration = 1
        packet.is_keyframe = bool(index.key[number])
        return packet

    def close(self) -> None:
        """Finish the file."""
        self._container.close()

    def __enter__(self) -> "JoinedVideo":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
