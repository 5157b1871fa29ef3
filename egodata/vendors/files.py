"""Files of a delivery, never followed out of it."""

from pathlib import Path


def is_inside(root: Path, path: Path) -> bool:
    """Return whether a path stays in a delivery once every symbolic link and `..` is resolved."""
    return path.resolve().is_relative_to(root.resolve())


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
