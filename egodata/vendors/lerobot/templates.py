"""Path templates of info.json, filled without trusting them: known names, plain numbers, nothing else."""

import re
from collections.abc import Mapping
from string import Formatter

from egodata.errors import InputError

NAMES = ("chunk_index", "episode_chunk", "episode_index", "file_index", "video_key")
MAX_NAME_BYTES, MAX_PATH_BYTES = 255, 1024
_WIDTH = re.compile(r"(0?\d{1,2}d?|d)?")


def fill(template: str, values: Mapping[str, int | str], *, where: str) -> str:
    """Fill a path template.

    `str.format` as such would follow attributes and indices of what it is given, and pad a number to any width.

    Args:
        template: Such as ``data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet``.
        values: By name, of `NAMES`.
        where: Named in an error.

    Raises:
        InputError: A field that is no known name, or whose format is not the width of a number; a path that no file can have.

    >>> fill("a/{episode_index:06d}.mp4", {"episode_index": 7}, where="video_path")
    'a/000007.mp4'
    """
    parts = []
    try:
        for text, name, spec, conversion in Formatter().parse(template):
            parts.append(text)
            if name is None:
                continue
            if name not in values or conversion or not _WIDTH.fullmatch(spec or "") or (spec and isinstance(values[name], str)):
                raise ValueError(f"field {{{name}{'!' + conversion if conversion else ''}{':' + spec if spec else ''}}}")
            parts.append(format(values[name], spec or ""))
        path = "".join(parts)
        if "\0" in path or len(path.encode()) > MAX_PATH_BYTES or any(len(part.encode()) > MAX_NAME_BYTES for part in path.split("/")):
            raise ValueError("no file can be called so")
    except ValueError as error:
        raise InputError(
            f"meta/info.json: {where} {template[:120]!r} cannot be filled ({str(error)[:80]}), expected fields out of {', '.join(values)} "
            "with at most a width. Correct the file."
        ) from error
    return path
