"""The sample table of a stored mp4 element, read without a demuxer (which costs 3 ms per element)."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egodata.errors import VideoError

_CONTAINERS = {b"moov", b"trak", b"mdia", b"minf", b"stbl"}
_AVC1_HEADER_BYTES = 86 - 8
_IDR = 5


@dataclass(frozen=True, slots=True)
class ChunkIndex:
    """Packets of one stored element. Per-packet arrays are in decode order.

    Attributes:
        offsets: (N,) int64, byte position of each packet.
        sizes: (N,) int64, bytes.
        key: (N,) bool, keyframes.
        disposable: (N,) bool, nothing refers to the frame (nal_ref_idc 0).
        display: (N,) int64, displayed position of each packet's frame.
        decode: (N,) int64, inverse of `display`: decode position of each displayed frame.
        extradata: avcC record for the decoder; av1C for AV1.
        decoder: Name of the decoder.
    """

    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    key: NDArray[np.bool_]
    disposable: NDArray[np.bool_]
    display: NDArray[np.int64]
    decode: NDArray[np.int64]
    extradata: bytes
    decoder: str = "h264"

    @property
    def frames(self) -> int:
        """Number of frames."""
        return len(self.sizes)


def index_chunk(data: bytes) -> ChunkIndex:
    """Read the packet index of a stored element: one H.264 track, one mp4.

    Raises:
        VideoError: Not such an mp4, or its table points outside the data.
    """
    try:
        tables = dict(_video_tables(data))
        sizes = _sizes(tables[b"stsz"])
        offsets = _offsets(tables, sizes)
        pts = _pts(tables, len(sizes))
        extradata = _extradata(tables[b"stsd"])
        key = np.zeros(len(sizes), np.bool_)
        key[_table(tables[b"stss"], ">u4", 4, 1)[:, 0] - 1 if b"stss" in tables else slice(None)] = True
    except (KeyError, IndexError, ValueError, struct.error) as error:
        raise VideoError(f"mp4 element: no readable H.264 sample table ({type(error).__name__}: {error})") from error
    if len(sizes) == 0 or not key[0] or int((offsets + sizes).max()) > len(data):
        raise VideoError(
            f"mp4 element: {len(sizes)} packets in {len(data)} bytes, first one a keyframe: expected, not found. It was cut off."
        )
    decode = np.argsort(pts, kind="stable").astype(np.int64)
    display = np.empty_like(decode)
    display[decode] = np.arange(len(decode))
    length_bytes = (extradata[4] & 3) + 1
    kinds = [_slice_header(data, int(o), int(o + s), length_bytes) for o, s in zip(offsets, sizes, strict=True)]
    disposable = np.array([header & 0x60 == 0 for header in kinds], np.bool_)
    key &= np.array([header & 31 == _IDR for header in kinds], np.bool_)  # others have open GOPs: frames before them need the GOP before
    if not key[0]:
        raise VideoError("mp4 element: its first frame is no IDR frame, so it cannot be decoded on its own.")
    return ChunkIndex(offsets, sizes, key, disposable, display, decode, extradata)


def _boxes(data: bytes, start: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    while start + 8 <= end:
        size, kind = struct.unpack_from(">I4s", data, start)
        head = 8
        if size == 1:
            size, head = struct.unpack_from(">Q", data, start + 8)[0], 16
        elif size == 0:
            size = end - start
        if size < head or start + size > end:
            raise ValueError(f"box {kind!r} at byte {start} does not fit")
        yield kind, start + head, start + size
        start += size


def _video_tables(data: bytes, start: int = 0, end: int | None = None) -> Iterator[tuple[bytes, bytes]]:
    """Yield the tables of the one track; stored elements have a single track."""
    for kind, first, last in _boxes(data, start, len(data) if end is None else end):
        if kind in _CONTAINERS:
            yield from _video_tables(data, first, last)
        elif kind in (b"stsd", b"stsz", b"stco", b"co64", b"stsc", b"stts", b"ctts", b"stss"):
            yield kind, data[first:last]


def _table(box: bytes, dtype: str, count_at: int, columns: int) -> NDArray[np.int64]:
    count = struct.unpack_from(">I", box, count_at)[0]
    return np.frombuffer(box, dtype, count * columns, count_at + 4).reshape(count, columns).astype(np.int64)


def _sizes(box: bytes) -> NDArray[np.int64]:
    fixed, count = struct.unpack_from(">II", box, 4)
    return np.full(count, fixed, np.int64) if fixed else np.frombuffer(box, ">u4", count, 12).astype(np.int64)


def _offsets(tables: dict[bytes, bytes], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    starts = _table(tables[b"stco"], ">u4", 4, 1)[:, 0] if b"stco" in tables else _table(tables[b"co64"], ">u8", 4, 1)[:, 0]
    runs = _table(tables[b"stsc"], ">u4", 4, 3)
    repeats = np.diff(np.append(runs[:, 0], len(starts) + 1))
    per_chunk = np.repeat(runs[:, 1], repeats)
    chunk = np.repeat(np.arange(len(starts)), per_chunk)
    before = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    first = np.concatenate([[0], np.cumsum(per_chunk)[:-1]])
    return np.asarray(starts[chunk] + before - before[first][chunk], np.int64)


def _pts(tables: dict[bytes, bytes], count: int) -> NDArray[np.int64]:
    steps = _table(tables[b"stts"], ">u4", 4, 2)
    durations = np.repeat(steps[:, 1], steps[:, 0])
    pts = np.concatenate([[0], np.cumsum(durations)[:-1]])
    if b"ctts" in tables:
        shifts = _table(tables[b"ctts"], ">i4", 4, 2)
        pts = pts + np.repeat(shifts[:, 1], shifts[:, 0])
    if len(pts) != count:
        raise ValueError(f"{len(pts)} times for {count} packets")
    return np.asarray(pts, np.int64)


def _extradata(box: bytes) -> bytes:
    for kind, first, last in _boxes(box, 8, len(box)):
        if kind == b"avc1":
            for inner, start, end in _boxes(box, first + _AVC1_HEADER_BYTES, last):
                if inner == b"avcC":
                    return box[start:end]
    raise ValueError("no avc1 entry with avcC")


def _slice_header(data: bytes, start: int, end: int, length_bytes: int) -> int:
    """Return the first byte of a packet's first slice: nal_ref_idc and nal_unit_type; 0x7f where there is none."""
    while start + length_bytes < end:
        header = data[start + length_bytes]
        if 1 <= header & 31 <= _IDR:
            return header
        start += length_bytes + int.from_bytes(data[start : start + length_bytes], "big")
    return 0x7F
