"""Whether a VRS file is all there: the library reads a cut one as a shorter recording and says nothing.

A VRS file is a header of 80 bytes and a chain of records, each of which starts with its size
(https://github.com/facebookresearch/vrs, "File format").
"""

import struct
from pathlib import Path

from egodata.errors import VideoError

_MAGIC = b"VisionRe"
_HEADER = struct.Struct("<16xII3q")
_SIZE = struct.Struct("<I")


def require_whole(path: Path) -> int:
    """Walk the chain of records to the end of the file.

    Returns:
        How many there are.

    Raises:
        VideoError: It is empty, no VRS file, or its last record does not end where the file does.
    """
    size = path.stat().st_size
    if size == 0:
        raise VideoError(f"recording {path.name}: 0 bytes. Get the file again.")
    with path.open("rb") as file:
        head = file.read(_HEADER.size)
        if len(head) < _HEADER.size or not head.startswith(_MAGIC):
            raise VideoError(f"recording {path.name}: not a readable VRS file (another format). Get the file again.")
        header_bytes, least, _, _, first = _HEADER.unpack(head)
        at, count = first or header_bytes, 0
        while at < size:
            file.seek(at)
            step = file.read(_SIZE.size)
            length = _SIZE.unpack(step)[0] if len(step) == _SIZE.size else 0
            if length < max(least, _SIZE.size) or at + length > size:
                raise VideoError(
                    f"recording {path.name}: cut off or damaged after {count} records, at byte {at} of {size}. Get the file again."
                )
            at, count = at + length, count + 1
    if at != size or count == 0:
        raise VideoError(f"recording {path.name}: cut off after {count} records: the file ends at byte {size}. Get the file again.")
    return count
