"""Random access to stored frames: a packet index per element, and only the packets that the wanted frames need.

Frames that nothing refers to (nal_ref_idc 0) are left out unless wanted; that is bit-exact against sequential decoding.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import av
import numpy as np
from av.error import FFmpegError
from av.video.codeccontext import VideoCodecContext
from av.video.reformatter import VideoReformatter
from numpy.typing import NDArray

from egodata.episode import VideoInfo
from egodata.errors import CorruptEpisodeError, HandleError, VideoError, WindowError
from egodata.video.av1 import AV1, index_av1
from egodata.video.mp4 import ChunkIndex, index_chunk
from egodata.video.source import rgb_array

DEFAULT_CACHE_BYTES = 64 * 2**20
KEPT_DECODERS = 2


class Decoders:
    """The few decoders of one process, by configuration: a new one would allocate its frames anew for every request (0.15 ms).

    A decoder is taken out while it works and comes back only after it was drained without an error, so none is used in an unknown state.
    """

    def __init__(self, kept: int = KEPT_DECODERS) -> None:
        self._kept = kept
        self._idle: OrderedDict[bytes, av.VideoCodecContext] = OrderedDict()

    def take(self, extradata: bytes, *, decoder: str) -> av.VideoCodecContext:
        """Return an idle decoder for an avcC or av1C record, or a new one of that name."""
        context = self._idle.pop(extradata, None)
        if context is None:
            context = cast(VideoCodecContext, av.CodecContext.create(decoder, "r"))
            context.extradata = extradata
            context.thread_count = 1
            context.thread_type = "NONE"
            context.options = {"err_detect": "explode"}
        return context

    def give_back(self, extradata: bytes, context: av.VideoCodecContext) -> None:
        """Take a drained decoder back."""
        context.flush_buffers()
        self._idle[extradata] = context
        while len(self._idle) > self._kept:
            self._idle.popitem(last=False)


class ChunkCache:
    """Byte-capped LRU of elements and their packet indexes, and the decoders, for all readers of one process."""

    def __init__(self, max_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self._max = max_bytes
        self._items: OrderedDict[tuple[int, int], tuple[bytes, ChunkIndex]] = OrderedDict()
        self.bytes = 0
        self._next = 0
        self.decoders = Decoders()

    def owner(self) -> int:
        """Return a new key space for one reader."""
        self._next += 1
        return self._next

    def get(self, owner: int, number: int) -> tuple[bytes, ChunkIndex] | None:
        """Return an element, or None; it becomes the most recent."""
        item = self._items.get((owner, number))
        if item is not None:
            self._items.move_to_end((owner, number))
        return item

    def put(self, owner: int, number: int, *, item: tuple[bytes, ChunkIndex]) -> None:
        """Keep an element and drop the oldest ones above the cap; the newest always stays."""
        self._items[owner, number] = item
        self.bytes += len(item[0])
        while self.bytes > self._max and len(self._items) > 1:
            _, (data, _) = self._items.popitem(last=False)
            self.bytes -= len(data)

    def drop(self, owner: int) -> None:
        """Forget everything of one reader."""
        for key in [key for key in self._items if key[0] == owner]:
            self.bytes -= len(self._items.pop(key)[0])


class FrameReader:
    """Reads frames of one camera stream by index. For one thread of the process that made it."""

    def __init__(
        self, info: VideoInfo, chunk: Callable[[int], bytes], *, where: str, cache: ChunkCache | None = None, exact: bool = True
    ) -> None:
        """Make a reader; nothing is read yet.

        Args:
            info: Sizes and counts of the stream.
            chunk: Gives a stored element by its number.
            where: Episode and camera, for error messages.
            cache: Shared by the readers of a store; None makes a small one.
            exact: Whether an element with more frames than it should have is an error; old stores pad their last one.
        """
        self._exact = exact
        self._info = info
        self._chunk = chunk
        self._where = where
        self._cache = ChunkCache() if cache is None else cache
        self._owner = self._cache.owner()
        self._pid = os.getpid()
        self._closed = False
        self._reformatter = VideoReformatter()

    def frames(self, indices: Sequence[int]) -> NDArray[np.uint8]:
        """Return frames in the order asked for; repeats are allowed.

        Args:
            indices: Frame numbers, 0 <= i < info.frames.

        Returns:
            (N, H, W, 3) uint8 RGB, a fresh array.

        Raises:
            WindowError: An index is outside the stream.
            CorruptEpisodeError: An element cannot be decoded or lacks frames.
            HandleError: The reader is closed, or another process made it.
        """
        if self._closed:
            raise HandleError(f"{self._where}: reader is closed. Open the episode again.")
        if os.getpid() != self._pid:
            raise HandleError(
                f"{self._where}: opened in process {self._pid}, used in {os.getpid()}. Open it in the worker (spawn or forkserver)."
            )
        info = self._info
        wanted = [int(index) for index in indices]
        for index in wanted:
            if not 0 <= index < info.frames:
                raise WindowError(f"{self._where}: frame {index} is outside [0, {info.frames}).")
        out = np.empty((len(wanted), info.height, info.width, 3), np.uint8)
        slots: dict[int, dict[int, list[int]]] = {}
        for slot, index in enumerate(wanted):
            slots.setdefault(index // info.frames_per_chunk, {}).setdefault(index % info.frames_per_chunk, []).append(slot)
        for number in sorted(slots):
            self._fill(number, slots[number], out)
        return out

    def size(self) -> tuple[int, int]:
        """Return (width, height) in pixels of the first frame, whatever `info` says.

        Raises:
            CorruptEpisodeError: The first element cannot be decoded.
        """
        data, index = self._load(0)
        try:
            for frame in _decode(data, index, [0], decoders=self._cache.decoders):
                return frame.width, frame.height
        except FFmpegError as error:
            raise CorruptEpisodeError(f"{self._where} element 0: cannot be decoded ({error.strerror or error}).") from error
        raise CorruptEpisodeError(f"{self._where} element 0: no frame decodes.")

    def close(self) -> None:
        """Let go of cached elements; using the reader again raises HandleError."""
        self._cache.drop(self._owner)
        self._closed = True

    def _load(self, number: int) -> tuple[bytes, ChunkIndex]:
        item = self._cache.get(self._owner, number)
        if item is not None:
            return item
        data = self._chunk(number)
        try:
            index = index_av1(data) if self._info.settings.get("codec") == AV1 else index_chunk(data)
        except VideoError as error:
            raise CorruptEpisodeError(f"{self._where} element {number}: {error}") from error
        expected = min(self._info.frames_per_chunk, self._info.frames - number * self._info.frames_per_chunk)
        if index.frames < expected or (self._exact and index.frames != expected):
            raise CorruptEpisodeError(
                f"{self._where} element {number}: expected {expected} frames, got {index.frames}. Rebuild the episode."
            )
        self._cache.put(self._owner, number, item=(data, index))
        return data, index

    def _fill(self, number: int, slots: dict[int, list[int]], out: NDArray[np.uint8]) -> None:
        data, index = self._load(number)
        missing = set(slots)
        try:
            for frame in _decode(data, index, sorted(slots), decoders=self._cache.decoders):
                if frame.pts not in missing:
                    continue
                missing.discard(frame.pts)
                if (frame.width, frame.height) != (self._info.width, self._info.height):
                    raise CorruptEpisodeError(
                        f"{self._where} element {number}: expected {self._info.width}x{self._info.height}, got {frame.width}x{frame.height}"
                    )
                rgb = rgb_array(self._reformatter.reformat(frame, format="rgb24", threads=1))
                for slot in slots[frame.pts]:
                    out[slot] = rgb
        except FFmpegError as error:
            raise CorruptEpisodeError(
                f"{self._where} element {number}: cannot be decoded ({error.strerror or error}). Rebuild the episode."
            ) from error
        if missing:
            raise CorruptEpisodeError(f"{self._where} element {number}: frame {min(missing)} does not decode. Rebuild the episode.")


def packets_needed(index: ChunkIndex, wanted: Sequence[int]) -> list[int]:
    """Return the decode positions that must be fed to see some displayed frames, ascending.

    Args:
        index: Packet index of the element.
        wanted: Displayed positions in it.
    """
    positions = index.decode[np.asarray(wanted, np.int64)]
    keys = np.flatnonzero(index.key)
    starts = keys[np.searchsorted(keys, positions, side="right") - 1]
    needed = np.zeros(index.frames, np.bool_)
    for start in np.unique(starts):
        needed[start : positions[starts == start].max() + 1] = True
    needed &= ~index.disposable
    needed[positions] = True
    return [int(position) for position in np.flatnonzero(needed)]


def _decode(data: bytes, index: ChunkIndex, wanted: Sequence[int], *, decoders: Decoders) -> Iterator[av.VideoFrame]:
    """Decode what is needed; pts is the displayed position."""
    context = decoders.take(index.extradata, decoder=index.decoder)
    for position in packets_needed(index, wanted):
        start = int(index.offsets[position])
        packet = av.Packet(data[start : start + int(index.sizes[position])])
        packet.pts = int(index.display[position])
        packet.dts = position
        yield from context.decode(packet)
    yield from context.decode(None)
    decoders.give_back(index.extradata, context)
