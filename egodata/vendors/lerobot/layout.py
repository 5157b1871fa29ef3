"""Find the episodes of a LeRobot dataset, and what in it belongs to none."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from egodata.errors import InputError
from egodata.findings import Finding, Severity
from egodata.schema.ids import EPISODE_ID
from egodata.vendors.base import Discovery, RecordingRef, Refused, VendorOptions
from egodata.vendors.files import is_inside, present
from egodata.vendors.lerobot.listing import Entry, Listing, read_listing
from egodata.vendors.lerobot.orphans import Noticed, orphan_files, orphan_rows, untiled

STATE_DTYPES = ("float32", "float64")


def episode_id(dataset: str, index: int) -> str:
    """Return the id of an episode: vendor, dataset, the vendor's own index.

    >>> episode_id("g1", 29)
    'lerobot-g1-000029'
    """
    return f"lerobot-{dataset}-{index:06d}"


def discover(root: Path, options: VendorOptions) -> Discovery:
    """List recordings: listed episodes that hold a file, and in v2 unlisted ones found on disk; the other listed ones are absent.

    Files and rows that belong to no episode are refused by name, so that nothing is left out unseen.

    Raises:
        InputError: Not a LeRobot dataset, or a dataset name that cannot be part of an id.
    """
    if not EPISODE_ID.fullmatch(episode_id(options.dataset, 0)):
        raise InputError(f"dataset name {options.dataset!r}: ids need A-Z a-z 0-9 _ - only. Name it with --dataset.")
    listing = read_listing(root)
    entries = {**({} if listing.shared else {index: listing.own_entry(index) for index in _on_disk(root)}), **listing.episodes}
    noticed = untiled(listing.episodes) if listing.shared else {}
    recordings, absent, refused = [], [], []
    for index, entry in sorted(entries.items()):
        ref = _reference(root, options, listing, index=index, entry=entry, noticed=noticed.get(index))
        outside = [name for name in (entry.data, *entry.videos.values()) if not is_inside(root, root / name)]
        if outside:
            refused.append(Refused(ref, (_outside(ref.id, Path(outside[0])),)))
        elif ref.files["media"]:
            recordings.append(ref)
        else:
            absent.append(ref.id)
    refused += _orphans(root, options, listing, entries=entries)
    return Discovery(tuple(recordings), tuple(absent), tuple(refused))


def _on_disk(root: Path) -> set[int]:
    names = (re.fullmatch(r"episode_(\d{1,12})\.parquet", path.name) for path in root.glob("data/*/*.parquet"))
    return {int(match[1]) for match in names if match}


def _outside(recording: str, path: Path) -> Finding:
    message = f"{path.name}: leads out of the delivery by a link or '..', not followed. Deliver the file itself."
    return Finding("path-escape", Severity.ERROR, recording, message, stream=path.name)


def _orphans(root: Path, options: VendorOptions, listing: Listing, *, entries: Mapping[int, Entry]) -> list[Refused]:
    found = []
    if listing.shared:
        for index, (name, count) in sorted(orphan_rows(root, listing.episodes).items()):
            message = f"{name}: {count} rows of episode {index}, which meta/episodes does not list. Ask for the whole meta folder."
            found.append(_unread(root, options, episode_id(options.dataset, index), code="rows-orphan", message=message))
    wanted = {name for entry in entries.values() for name in (entry.data, *entry.videos.values())}
    for name in orphan_files(root, wanted):
        known = f"lerobot-{options.dataset}-file-{hashlib.sha256(name.encode()).hexdigest()[:12]}"
        message = f"{name}: no listed episode has this file. Correct meta/info.json's paths or meta/episodes, or leave the file out."
        found.append(_unread(root, options, known, code="file-orphan", message=message))
    return found


def _unread(root: Path, options: VendorOptions, known: str, *, code: str, message: str) -> Refused:
    nothing: dict[str, tuple[Path, ...]] = {"media": (), "annotations": (), "calibration": ()}
    ref = RecordingRef(known, "lerobot", options.dataset, options.delivery, root, nothing)
    return Refused(ref, (Finding(code, Severity.ERROR, known, message, stream=message.partition(":")[0]),))


def _reference(root: Path, options: VendorOptions, listing: Listing, *, index: int, entry: Entry, noticed: Noticed | None) -> RecordingRef:
    info = listing.info
    features = info["features"]
    kept = {name: features[name] for name in sorted(features) if features[name].get("dtype") in STATE_DTYPES}
    details = {
        "index": index,
        "data": entry.data,
        "videos": dict(entry.videos),
        "features": kept,
        "declared": {camera: _declared(features[camera]) for camera in listing.cameras},
        "fps": float(info["fps"]),
        "robot_type": info.get("robot_type"),
        "listed": None if index not in listing.episodes else {"length": entry.length, "tasks": list(entry.tasks)},
        "tasks": {str(key): text for key, text in sorted(listing.tasks.items())},
        "rows": None if entry.rows is None else list(entry.rows),
        "spans_s": {camera: list(span) for camera, span in entry.spans_s.items()},
        "noticed": None if noticed is None else [noticed.code, noticed.message, noticed.expected, noticed.got],
    }
    inside = [root / name for name in (entry.data, *entry.videos.values()) if is_inside(root, root / name)]
    files = {"media": present(*dict.fromkeys(inside)), "annotations": (), "calibration": ()}
    return RecordingRef(episode_id(options.dataset, index), "lerobot", options.dataset, options.delivery, root, files, None, details)


def _declared(feature: Mapping[str, object]) -> dict[str, object]:
    """Return what info.json says about a camera's files: shape, and the entries of `info` (v2 `video_info`) that can be checked."""
    told = feature.get("info") or feature.get("video_info")
    info = told if isinstance(told, dict) else {}
    names = feature.get("names")
    checked = {name: info[name] for name in ("video.codec", "video.pix_fmt", "video.height", "video.width", "has_audio") if name in info}
    return {"shape": feature.get("shape"), "names": names if isinstance(names, list) else None, **checked}
