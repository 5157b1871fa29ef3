"""The ingest report as a page: counts by delivery, operator and reason, what changed since the last time, plots and thumbnails."""

import base64
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from egodata.episode import EpisodeReader, EpisodeStore
from egodata.errors import EgodataError
from egodata.reports.limits import SHIPPED
from egodata.reports.overlay import preview_frame
from egodata.reports.page import Raw, bars, facts, page, table
from egodata.reports.quality import check_quality
from egodata.schema.layout import write_atomic

SHOWN_EPISODES, SHOWN_ROWS = 24, 200
THUMB_WIDTH = 150
_BINS = 20
CHANGES = {
    "new": "not in it before",
    "gone": "no longer in it",
    "bytes_changed": "with other bytes",
    "now_built": "built now, not before",
    "now_set_aside": "set aside now, not before",
    "now_absent": "delivered before, absent now",
}


@dataclass(slots=True)
class _Looked:
    """What was read of published episodes.

    Attributes:
        figures: By episode id.
        strips: JPEG pictures by episode id: first, middle and last frame.
        unreadable: Why, by episode id.
    """

    figures: dict[str, dict[str, Any]] = field(default_factory=dict)
    strips: dict[str, list[bytes]] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)


def write_ingest_page(report: Mapping[str, Any], episodes: EpisodeStore, *, out: Path) -> Path:
    """Write the page of a report.

    Args:
        report: What `egodata.ingest.IngestReport.to_json` returned.
        episodes: The store that it was ingested into; the figures of all episodes are read, thumbnails of some.
        out: The file.
    """
    looked = _look(report, episodes)
    title = f"Ingest of {report['vendor']} delivery {report['delivery']}"
    write_atomic(out, page(title, _parts(report, looked, title)).encode())
    return out


def _look(report: Mapping[str, Any], episodes: EpisodeStore) -> _Looked:
    looked, rank = _Looked(), {"built": 0, "attached": 1, "skipped": 2}
    ordered = sorted(report["recordings"], key=lambda item: (rank.get(item["status"], 3), -len(item["findings"]), item["recording"]))
    for episode_id in (episode_id for item in ordered for episode_id in item["episodes"]):
        try:
            reader = episodes.open(episode_id)
            try:
                looked.figures[episode_id] = check_quality(reader, limits=SHIPPED, content="").figures
                if len(looked.strips) < SHOWN_EPISODES:
                    looked.strips[episode_id] = _strip(reader)
            finally:
                reader.close()
        except EgodataError as error:
            looked.unreadable[episode_id] = str(error)
    return looked


def _strip(reader: EpisodeReader) -> list[bytes]:
    last = reader.meta.total_frames - 1
    chosen, cameras = sorted({0, last // 2, last}), reader.meta.cameras
    if not cameras:
        return [_jpeg(preview_frame(reader, frame)) for frame in chosen]
    camera = reader.meta.reference_camera if reader.meta.reference_camera in cameras else cameras[0]
    return [_jpeg(frame) for frame in reader.frames(camera, chosen)]


def _jpeg(frame: NDArray[np.uint8]) -> bytes:
    height = max(1, frame.shape[0] * THUMB_WIDTH // frame.shape[1])
    small = cv2.resize(frame, (THUMB_WIDTH, height), interpolation=cv2.INTER_AREA)
    return bytes(cv2.imencode(".jpg", small[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 80])[1])


def _parts(report: Mapping[str, Any], looked: _Looked, title: str) -> Iterator[str]:
    counts = report["counts"]
    yield f"<h1>{escape(title)}</h1>"
    sum_up = " + ".join(f"{name.replace('_', ' ')} {counts[name]}" for name in ("built", "set_aside", "skipped", "absent"))
    yield f"<p>Dataset {escape(report['dataset'])}. Inputs {counts['inputs']} = {sum_up}; "
    yield f"{counts['attached']} of the built ones only got new annotations or calibration.</p>"
    yield facts([(f"{counts[name]:,}", name.replace("_", " ")) for name in ("inputs", "built", "set_aside", "skipped", "absent")])
    if report["copied"]:
        copied = report["copied"]
        yield f"<p>Kept in the store: {copied['files']} files copied, {copied['present']} there already, {copied['refused']} refused.</p>"
    yield from _by_operator(report)
    yield from _reasons(report)
    yield from _changes(report)
    yield from _plots(looked)
    yield from _pictures(report, looked)
    yield from _findings(report)
    if looked.unreadable:
        yield "<h2>Cannot be read</h2>"
        yield table(("episode", "why"), list(looked.unreadable.items()), bad=range(len(looked.unreadable)))


def _by_operator(report: Mapping[str, Any]) -> Iterator[str]:
    if report["operators"]:
        yield "<h2>By operator</h2>"
        rows = [
            (name or "unknown", *(found[status] for status in ("built", "attached", "set_aside", "skipped")))
            for name, found in report["operators"].items()
        ]
        yield table(("operator", "built", "attached", "set aside", "skipped"), rows)


def _reasons(report: Mapping[str, Any]) -> Iterator[str]:
    if not report["reasons"]:
        return
    yield "<h2>Set aside, by reason</h2>"
    yield table(("reason", "recordings"), list(report["reasons"].items()))
    rows = [
        (item["recording"], item["operator"], finding["code"], finding["message"], finding["id"], finding.get("waived"))
        for item in report["recordings"]
        if item["status"] == "set_aside"
        for finding in item["findings"]
        if finding["severity"] == "error"
    ]
    yield from _limited(("recording", "operator", "reason", "what, and what to do", "id", "waived"), rows)


def _limited(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    wrapped = [tuple(_wrapped(cell) if isinstance(cell, str) and len(cell) > 60 else cell for cell in row) for row in rows[:SHOWN_ROWS]]
    yield table(columns, wrapped)
    if len(rows) > SHOWN_ROWS:
        yield f"<p>{len(rows) - SHOWN_ROWS} more rows are in the JSON report.</p>"


def _wrapped(text: str) -> Raw:
    return Raw(f'<div style="white-space:normal;min-width:340px">{escape(text)}</div>')


def _changes(report: Mapping[str, Any]) -> Iterator[str]:
    changes = report["changes"] or {}
    yield "<h2>Since the last ingest of this delivery</h2>"
    if not changes.get("since"):
        yield "<p>This is the first.</p>"
        return
    rows = [
        (what, len(changes[name]), ", ".join(changes[name][:6]) + (" ..." if len(changes[name]) > 6 else ""))
        for name, what in CHANGES.items()
    ]
    yield f"<p>Compared with <code>{escape(changes['since'])}</code>.</p>"
    yield table(("recordings", "number", "which"), [row for row in rows if row[1]] or [("none changed", 0, "")])
    noted = [(code, changes["findings_new"].get(code, 0), changes["findings_gone"].get(code, 0)) for code in _codes(changes)]
    if noted:
        yield table(("finding", "new", "gone"), noted)


def _codes(changes: Mapping[str, Any]) -> list[str]:
    return sorted({*changes["findings_new"], *changes["findings_gone"]})


def _plots(looked: _Looked) -> Iterator[str]:
    if not looked.figures:
        return
    yield '<h2>The episodes</h2><div class="grid">'
    plots = {
        "seconds": "length in seconds",
        "missing_left": "share of frames without a left hand",
        "missing_right": "share of frames without a right hand",
        "inside_share": "share of keypoints that project into the picture",
        "behind_share": "share of keypoints behind the camera",
        "head_path_m": "path of the head in metres",
        "head_step_m": "largest step of the head in metres",
    }
    for name, caption in plots.items():
        values = [float(found[name]) for found in looked.figures.values() if found.get(name) is not None]
        if values:
            yield f"<figure>{_histogram(values)}<figcaption>{caption}, {len(values)} episodes</figcaption></figure>"
    yield "</div>"


def _histogram(values: Sequence[float]) -> Raw:
    low, high = min(values), max(values)
    edges = np.linspace(low, high if high > low else low + 1, _BINS + 1)
    counts, _ = np.histogram(values, edges)
    labels = [f"{edge:.2g}" if at % 6 == 0 else "" for at, edge in enumerate(edges[:-1])]
    return bars(labels, [("var(--one)", [float(count) for count in counts])], width=340, height=120)


def _pictures(report: Mapping[str, Any], looked: _Looked) -> Iterator[str]:
    if not looked.strips:
        return
    noted = {episode_id: item for item in report["recordings"] for episode_id in item["episodes"]}
    yield '<h2>First, middle and last frames</h2><div class="grid">'
    for episode_id, pictures in looked.strips.items():
        shown = "".join(f'<img alt="" src="data:image/jpeg;base64,{base64.b64encode(data).decode()}">' for data in pictures)
        codes = ", ".join(sorted({finding["code"] for finding in noted[episode_id]["findings"] if finding["severity"] != "info"}))
        found = looked.figures[episode_id]
        where = f"spread {found['spread_px'][0]:.0f} px" if found.get("behind_share") == 0 else f"behind {found.get('behind_share', 0):.0%}"
        spread = f", keypoints inside {found['inside_share']:.0%}, {where}" if "inside_share" in found else ""
        caption = f"{episode_id}: {noted[episode_id]['status']}, {found['frames']} frames{spread}{'; ' + codes if codes else ''}"
        yield f'<figure><div style="display:flex;gap:3px">{shown}</div><figcaption>{escape(caption)}</figcaption></figure>'
    yield "</div>"
    if len(looked.figures) > len(looked.strips):
        yield f"<p>{len(looked.figures) - len(looked.strips)} more episodes without a picture here; `egodata preview` shows each.</p>"


def _findings(report: Mapping[str, Any]) -> Iterator[str]:
    every = [finding for item in report["recordings"] for finding in item["findings"] if finding["severity"] != "error"]
    if not every:
        return
    kinds = Counter((finding["severity"], finding["code"]) for finding in every)
    yield "<h2>Noted</h2>"
    yield table(("severity", "finding", "times"), [(*kind, count) for kind, count in sorted(kinds.items(), reverse=True)])
    rows = [
        (finding["episode"], finding["code"], finding["message"], finding["id"], finding.get("waived"))
        for finding in every
        if finding["severity"] == "warning"
    ]
    if rows:
        yield from _limited(("episode", "finding", "what", "id", "waived"), rows)
