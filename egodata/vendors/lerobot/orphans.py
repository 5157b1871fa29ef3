"""What a dataset holds besides its listed episodes, and what its ranges leave out."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from egodata.vendors.files import is_inside
from egodata.vendors.lerobot.columns import whole_numbers
from egodata.vendors.lerobot.listing import Entry
from egodata.vendors.lerobot.parquet import read_parquet

SUFFIXES = {"data": (".parquet",), "videos": (".mp4", ".mkv", ".mov", ".avi", ".webm")}


@dataclass(frozen=True, slots=True)
class Noticed:
    """Something that discovery saw about an episode, to become a finding when it is read."""

    code: str
    message: str
    expected: str = ""
    got: str = ""


def untiled(episodes: Mapping[int, Entry]) -> dict[int, Noticed]:
    """Return which episodes' ranges do not follow each other: gaps, overlaps, and lengths that disagree with the range."""
    found: dict[int, Noticed] = {}
    end = 0
    for index, entry in sorted(episodes.items(), key=lambda item: (item[1].rows or (0, 0), item[0])):
        if entry.rows is None:
            continue
        start, stop = entry.rows
        if stop - start != entry.length:
            text = (
                f"rows [{start}, {stop}) of the dataset are listed with a length of {entry.length}; the parquet's own episode_index counts"
            )
            found[index] = Noticed("ranges-untiled", text, str(stop - start), str(entry.length))
        elif start != end:
            kind = f"{start - end} rows belong to no episode" if start > end else f"{end - start} rows belong to two"
            text = f"rows [{start}, {stop}) of the dataset do not follow those before, which end at {end}: {kind} by the list"
            found[index] = Noticed("ranges-untiled", text, str(end), str(start))
        end = max(end, stop)
    return found


def orphan_rows(root: Path, episodes: Mapping[int, Entry]) -> dict[int, tuple[str, int]]:
    """Return by episode index where rows of episodes lie that nothing lists, and how many; unreadable files are left to `read`."""
    found: dict[int, tuple[str, int]] = {}
    for name in sorted({entry.data for entry in episodes.values()}):
        path = root / name
        if not path.is_file() or not is_inside(root, path):
            continue
        try:
            column = whole_numbers(read_parquet(path, columns=["episode_index"]), "episode_index")
        except (pa.ArrowException, OSError):
            continue
        if column is None:
            continue
        for index, count in zip(*np.unique(column, return_counts=True), strict=True):
            if int(index) not in episodes and index >= 0:
                found[int(index)] = (name, found.get(int(index), (name, 0))[1] + int(count))
    return found


def orphan_files(root: Path, wanted: set[str]) -> list[str]:
    """Return data and video files that no episode names, relative to the dataset, sorted."""
    return sorted(
        name
        for folder, suffixes in SUFFIXES.items()
        for path in (root / folder).rglob("*")
        if path.suffix.lower() in suffixes
        and (path.is_file() or path.is_symlink())
        and (name := path.relative_to(root).as_posix()) not in wanted
    )
