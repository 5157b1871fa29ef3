"""`egodata inspect`: what a store holds, or what one episode holds."""

import json
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import click

from egodata.cli.console import PathWord, echo, print_table
from egodata.cli.opened import open_episodes
from egodata.episode import EpisodeReader, EpisodeStore, read_spans
from egodata.errors import CorruptEpisodeError, InputError
from egodata.findings.waivers import Waiver, read_waivers, with_waivers
from egodata.formats.zarr import ZarrEpisode
from egodata.formats.zarr.versions import GROUP
from egodata.names import shell_word
from egodata.reports.validate import validate_episode
from egodata.schema.features import camera_key
from egodata.schema.layout import StorePaths, open_root

CATALOG_ABOVE = 1000
"""Episodes above which opening each one would take too long."""


@click.command()
@click.argument("store", type=PathWord(file_okay=False, path_type=Path))
@click.argument("episode_id", required=False)
@click.option("--where", help="SQL condition over the catalog, such as \"task_name = 'fold' AND n_frames > 100\".")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Rows of the catalog to print.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def inspect(store: Path, episode_id: str | None, where: str | None, limit: int, as_json: bool) -> int:
    """List the episodes of STORE, or the arrays, cameras, spans, digests and findings of EPISODE_ID.

    STORE may also be a folder of old <id>.zarr groups (schema v3.0, v3.1). With --where, and for stores of more than a thousand episodes
    with a Lance copy, the list comes from its catalog. Exit status 1 if an episode in the list cannot be opened.
    """
    if episode_id is not None and where is not None:
        raise InputError("inspect: got an episode and --where. Give one of them.")
    if episode_id is None and (where is not None or _many(StorePaths(store))):
        _inspect_catalog(open_root(store), where, limit=limit, as_json=as_json)
        return 0
    episodes = open_episodes(store, "zarr")
    if episode_id is None:
        return _inspect_store(episodes, store, as_json=as_json)
    _inspect_episode(episodes, episode_id, root=store, as_json=as_json)
    return 0


def _place(reader: EpisodeReader) -> Path:
    """Folder of an episode's group, for sizes on disk."""
    if isinstance(reader, ZarrEpisode):
        return reader.group
    return Path(getattr(reader, "group", "."))


def _many(paths: StorePaths) -> bool:
    return paths.lance.is_dir() and next(islice(paths.zarr.glob("*.zarr"), CATALOG_ABOVE, None), None) is not None


def _inspect_catalog(paths: StorePaths, where: str | None, *, limit: int, as_json: bool) -> None:
    from egodata.catalog.query import find_episodes  # lance is loaded only where the catalog is asked

    found = find_episodes(paths, where)
    if as_json:
        echo(json.dumps({"episodes": found.to_pylist()}, sort_keys=True))
        return
    columns = ("episode_id", "vendor", "task_name", "operator", "n_frames", "fps", "cameras", "annotation_keys", "scene", "licence")
    shown = [
        tuple(", ".join(cell) if isinstance(cell, list) else cell for cell in row.values())
        for row in found.select(columns).slice(0, limit).to_pylist()
    ]
    print_table(f"Episodes of {paths.root}", columns, shown)
    more = f", {found.num_rows - limit} more with --limit" if found.num_rows > limit else ""
    echo(f"{found.num_rows} episodes, {sum(found['n_frames'].to_pylist())} frames{more}")


def _inspect_store(episodes: EpisodeStore, root: Path, *, as_json: bool) -> int:
    rows, damaged = [], []
    for one in episodes.episode_ids():
        try:
            rows.append(_row(episodes, one))
        except CorruptEpisodeError as error:
            damaged.append(str(error))
    if as_json:
        echo(json.dumps({"episodes": rows, "damaged": damaged}, sort_keys=True))
    elif not rows and not damaged:
        echo(f"no episodes yet. Add some with `egodata ingest RAW --vendor V --store {shell_word(root)}`.")
    else:
        if rows:
            print_table(f"Episodes of {root}", tuple(rows[0]), [tuple(row.values()) for row in rows])
        echo(f"{len(rows)} episodes, {sum(row['frames'] for row in rows)} frames")
        for message in damaged:
            echo(message)
    return 1 if damaged else 0


def _row(episodes: EpisodeStore, one: str) -> dict[str, Any]:
    reader = episodes.open(one)
    group = _place(reader)
    meta = reader.meta
    found = {
        "episode": one,
        "vendor": meta.vendor,
        "task": meta.task_name,
        "operator": meta.operator,
        "frames": meta.total_frames,
        "fps": round(float(meta.fps), 3),
        "cameras": ", ".join(meta.cameras),
        "annotations": ", ".join(reader.annotation_keys),
        "KB": _size_bytes(group) // 1024,
        "version": group.parent.name if group.name == GROUP else meta.schema_version,
    }
    reader.close()
    return found


def _inspect_episode(episodes: EpisodeStore, episode_id: str, *, root: Path, as_json: bool) -> None:
    reader = episodes.open(episode_id)
    group = _place(reader)
    report = episode_report(reader, group, waivers=read_waivers(root / "ledger"))
    reader.close()
    if as_json:
        echo(json.dumps(report, sort_keys=True))
        return
    facts = [(key, value) for key, value in report.items() if not isinstance(value, (list, dict))]
    print_table(f"Episode {episode_id}", ("", "value"), [*facts, ("version", group.parent.name)])
    for title in ("arrays", "cameras", "annotations", "findings"):
        if report[title]:
            print_table(title.capitalize(), tuple(report[title][0]), [tuple(item.values()) for item in report[title]])
    print_table("Digests", ("part", "sha256"), list(report["digests"].items()))


def episode_report(reader: EpisodeReader, group: Path, *, waivers: Mapping[str, Waiver] | None = None) -> dict[str, Any]:
    """Describe one episode in plain JSON types.

    Args:
        reader: Opened.
        group: Its folder, for sizes on disk.
        waivers: In force in its store, by finding id.
    """
    meta = reader.meta
    calibration = reader.calibration
    arrays = [
        {
            "array": key,
            "dtype": meta.features[key].dtype,
            "shape": "x".join(map(str, (meta.total_frames, *meta.features[key].shape))),
            "unit": meta.features[key].unit,
            "coordinate frame": meta.features[key].coordinate_frame,
            "KB": round(_size_bytes(group / key) / 1024, 1),
        }
        for key in meta.numeric_keys
    ]
    spans = read_spans(reader)
    return {
        "episode_id": meta.episode_id,
        "recording_id": meta.recording_id,
        "clip": f"{meta.clip.index}: [{meta.clip.start}, {meta.clip.end})",
        "vendor": meta.vendor,
        "dataset": meta.dataset,
        "delivery": meta.delivery,
        "operator": meta.operator,
        "session": meta.session,
        "embodiment": meta.embodiment,
        "task": meta.task_name,
        "frames": meta.total_frames,
        "fps": f"{meta.fps.numerator}/{meta.fps.denominator}",
        "clock": meta.clock,
        "hand_frame_convention": meta.hand_frame_convention,
        "calibration": "unknown"
        if calibration is None
        else ", ".join(f"{name} {camera.model}" for name, camera in calibration.cameras.items()),
        "schema_version": meta.schema_version,
        "arrays": arrays,
        "cameras": [_camera_report(reader, camera, group) for camera in meta.cameras],
        "annotations": [
            {"key": key, "spans": len(found), "first": f"[{found[0].start}, {found[0].end}) {found[0].text}" if found else ""}
            for key, found in spans.items()
        ],
        "digests": reader.digests.to_json(),
        "findings": [
            {
                "severity": finding.severity.name.lower(),
                "code": finding.code,
                "id": finding.id,
                "message": finding.message,
                "waived": finding.waived,
            }
            for finding in with_waivers(validate_episode(reader), waivers or {})
        ],
    }


def _camera_report(reader: EpisodeReader, camera: str, group: Path) -> dict[str, Any]:
    info = reader.video_info(camera)
    size_bytes = _size_bytes(group / camera_key(camera))
    kept = ("codec", "profile", "crf", "preset", "gop", "bframes")
    return {
        "camera": camera,
        "size": f"{info.width}x{info.height}",
        "frames": info.frames,
        "elements": info.chunks,
        "frames_per_chunk": info.frames_per_chunk,
        "encoding": ", ".join(f"{key} {info.settings[key]}" for key in kept if key in info.settings),
        "KB": size_bytes // 1024,
        "KB/frame": round(size_bytes / 1024 / info.frames, 2),
    }


def _size_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
