"""Files of a delivery, never followed out of it."""

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Listing:
    """What lies in a folder, from one look at it: with 100,000 recordings a question per file is what a delivery's discovery takes.

    Attributes:
        names: Of everything in it.
        files: Names of files, and of links to files.
        links: Names of symbolic links, wherever they lead.
    """

    names: frozenset[str]
    files: frozenset[str]
    links: frozenset[str]

    @classmethod
    def of(cls, folder: Path) -> "Listing":
        """Look at a folder.

        Raises:
            OSError: It cannot be read.
        """
        with os.scandir(folder) as found:
            entries = list(found)
        links = frozenset(entry.name for entry in entries if entry.is_symlink())
        files = frozenset(entry.name for entry in entries if (Path(entry.path) if entry.name in links else entry).is_file())
        return cls(frozenset(entry.name for entry in entries), files, links)


def is_inside(root: Path, path: Path) -> bool:
    """Return whether a path stays in a delivery once every symbolic link and `..` is resolved.

    A link that leads to itself does not, nor does a name that no file can have.
    """
    try:
        return _without_links(root, path) or path.resolve().is_relative_to(root.resolve())
    except (RuntimeError, OSError, ValueError):  # a loop of links: RuntimeError up to Python 3.12; a name with a zero byte: ValueError
        return False


def _without_links(root: Path, path: Path) -> bool:
    """Say that a path lies below `root` by its names, none of them a link: then nothing above `root` matters, and nothing is resolved."""
    above, parts = root.parts, path.parts
    if parts[: len(above)] != above or ".." in parts:
        return False
    here = str(root)
    for name in parts[len(above) :]:
        here = os.path.join(here, name)
        try:
            if stat.S_ISLNK(os.lstat(here).st_mode):
                return False
        except OSError:
            return False
    return True


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
