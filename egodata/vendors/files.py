"""Files of a delivery, never followed out of it."""

import json
from pathlib import Path
from typing import Any


def is_inside(root: Path, path: Path) -> bool:
    """Return whether a path stays in a delivery once every symbolic link and `..` is resolved.

    A link that leads to itself does not, nor does a name that no file can have.
    """
    try:
        return path.resolve().is_relative_to(root.resolve())
    except (RuntimeError, OSError, ValueError):  # a loop of links: RuntimeError up to Python 3.12; a name with a zero byte: ValueError
        return False


def parse_json(text: str) -> Any:
    """Parse what a vendor calls JSON.

    Raises:
        ValueError: Not JSON, nested too deep to be read, or text in it that UTF-8 has no form for (half a surrogate pair).
    """
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    return value


def present(*paths: Path | None) -> tuple[Path, ...]:
    """Return the paths that are files, in order."""
    return tuple(path for path in paths if path is not None and path.is_file())


def entry_name(url: str) -> str | None:
    """Return the file name that the last part of a URL gives, without query; None if it is none or leads elsewhere.

    >>> entry_name("https://bucket/a/b_video.mp4?sig=x/y")
    'b_video.mp4'
    """
    name = url.partition("?")[0].partition("#")[0].rstrip("/").rpartition("/")[2]
    return None if name in ("", ".", "..") or "\\" in name else name
