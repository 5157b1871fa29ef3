"""The parity report as one HTML page: verdict, worst offenders, frames side by side, where they differ, and histograms."""

import base64
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from egodata.catalog.manifest import Manifest
from egodata.episode import EpisodeReader
from egodata.errors import EgodataError
from egodata.findings import Finding
from egodata.parity import ParityReport, report_file
from egodata.parity.pixels import MAE_BINS, compare_frame, mae_bin
from egodata.parity.report import LevelReport
from egodata.parity.scope import Scope, make_scope, open_episode
from egodata.reports.page import Raw, bars, facts, page, table
from egodata.schema.features import IMAGES
from egodata.schema.layout import StorePaths, write_atomic

SHOWN_FINDINGS = 40
SHOWN_FRAMES = 6
SHOWN_CURVES = 6
_THUMB_WIDTH = 352
_AROUND_FRAMES = 20


def write_parity_page(paths: StorePaths, report: ParityReport, *, dataset: Manifest | None = None, out: Path | None = None) -> Path:
    """Write the page of a report; it needs no other file.

    Args:
        paths: The store: worst frames are read again from both formats.
        report: From `check_parity`.
        dataset: The one that was checked.
        out: Where to; by default beside the report's JSON.

    Returns:
        The page's file.
    """
    scope = make_scope(paths, episode_ids=None, dataset=dataset)
    parts = [*_head(report), *_levels(report), *_worst(report), *_frames(scope, report), *_curves(scope, report), *_histograms(report)]
    path = report_file(paths, report, suffix="html") if out is None else out
    write_atomic(path, page(f"Parity: {report.verdict}", parts).encode())
    return path


def _head(report: ParityReport) -> Iterator[str]:
    colour = "var(--three)" if report.passed else "var(--bad)"
    yield f'<h1>Parity of zarr and Lance: <span style="color:{colour}">{report.verdict}</span></h1>'
    scope = report.dataset or "all episodes"
    if report.chosen:
        scope += f", sample of {report.chosen['episodes']} of {report.chosen['of']} for {report.chosen['day']}"
    recipe = f", recipe {report.recipe}" if report.recipe else ""
    versions = ", ".join(f"{name} {version}" for name, version in sorted(report.versions.items()))
    yield f"<p>{escape(scope + recipe)} · {escape(report.created)} · Lance versions {escape(versions)}</p>"
    content = report.level("content")
    counts = {} if content is None else content.outcome.counts
    findings = sum(len(level.outcome.findings) for level in report.levels)
    failed = {name for level in report.levels for name in level.failed}
    yield facts(
        [
            (f"{counts.get('episodes', 0):,}", "episodes compared"),
            (f"{counts.get('values', 0):,}", "numbers"),
            (f"{counts.get('spans', 0):,}", "spans"),
            (f"{counts.get('video_elements', 0):,}", "video elements"),
            (f"{counts.get('frames_decoded', 0):,}", "frames decoded"),
            (f"{findings:,}", "findings"),
            (f"{len(failed):,}", "episodes with findings"),
        ]
    )


def _levels(report: ParityReport) -> Iterator[str]:
    yield "<h2>Levels</h2>"
    rows = [
        (
            level.level,
            "passed" if level.passed else "failed",
            len(level.outcome.findings),
            str(level.outcome.numeric or "none"),
            str(level.outcome.pixel or "none"),
            _wrapped(str(level.outcome.likeness or "equal") if level.outcome.counts.get("frames_decoded") else "", 230),
        )
        for level in report.levels
    ]
    columns = ("level", "verdict", "findings", "largest numeric difference", "largest pixel difference", "decoded frames")
    yield table(columns, rows, bad=[at for at, level in enumerate(report.levels) if not level.passed])
    yield f"<p>Bounds: {escape(_bounds(report))}</p>"


def _bounds(report: ParityReport) -> str:
    config = report.config
    numbers = "numbers equal in every bit" if config.numeric is None else f"numbers within {config.numeric:g}"
    frames = [f"colour values within {config.pixel}"] if config.pixel else ["frames equal"] if config.pixel == 0 else []
    frames += [f"{name} {value:g}" for name, value in _set_bounds(report)]
    video = "video bytes equal" if config.video_bytes == "equal" else "video bytes free"
    return ", ".join([numbers, *frames, video])


def _set_bounds(report: ParityReport) -> Iterator[tuple[str, float]]:
    config = report.config
    for name, value in (("MAE at most", config.pixel_mae), ("PSNR in dB at least", config.psnr_db), ("SSIM at least", config.ssim)):
        if value is not None:
            yield name, value


def _all_findings(report: ParityReport) -> list[tuple[LevelReport, Finding]]:
    return [(level, finding) for level in report.levels for finding in level.outcome.findings]


def _worst(report: ParityReport) -> Iterator[str]:
    found = _all_findings(report)
    if not found:
        yield "<h2>Worst offenders</h2><p>None: nothing differs beyond the bounds.</p>"
        return
    yield (
        f"<h2>Worst offenders</h2><p>{len(found)} findings"
        + (f", the first {SHOWN_FINDINGS}" if len(found) > SHOWN_FINDINGS else "")
        + "</p>"
    )
    rows = [
        (
            level.level,
            finding.episode,
            finding.stream,
            None if finding.frames is None else finding.frames[0],
            finding.code,
            _wrapped(finding.message, 380),
        )
        for level, finding in found[:SHOWN_FINDINGS]
    ]
    yield table(("level", "episode", "stream", "frame", "kind", "what"), rows)


def _wrapped(text: str, least_px: int) -> Raw:
    return Raw(f'<div style="white-space:normal;min-width:{least_px}px;max-width:560px">{escape(text)}</div>')


def _frames(scope: Scope, report: ParityReport) -> Iterator[str]:
    """Show the worst frames of both formats beside each other, and where they differ; without findings, the largest difference."""
    places = [
        (finding.episode, finding.stream.removeprefix(IMAGES), finding.frames[0])
        for _, finding in _all_findings(report)
        if finding.frames and finding.stream.startswith(IMAGES)
    ]
    places += [(found.episode, found.stream.removeprefix(IMAGES), found.frame) for level in report.levels if (found := level.outcome.pixel)]
    shown = list(dict.fromkeys(places))[:SHOWN_FRAMES]
    if not shown:
        return
    yield "<h2>Frames side by side</h2><p>Zarr, Lance, and their difference: brighter is further apart, scaled to its own largest.</p>"
    for episode_id, camera, frame in shown:
        yield _frame_row(scope, episode_id, camera, frame)


def _frame_row(scope: Scope, episode_id: str, camera: str, frame: int) -> str:
    label = f"episode {escape(episode_id)}, {escape(camera)}, frame {frame}"
    found = _both(scope, episode_id)
    if isinstance(found, str):
        return f"<p>{label}: {escape(found)}</p>"
    try:
        one, other = (reader.frames(camera, [frame])[0] for reader in found)
    except EgodataError as error:
        return f"<p>{label}: {escape(str(error))}</p>"
    finally:
        for reader in found:
            reader.close()
    if one.shape != other.shape:
        return f"<p>{label}: {one.shape[1]}x{one.shape[0]} on zarr, {other.shape[1]}x{other.shape[0]} on lance</p>"
    measured = compare_frame(one, other, with_ssim=True)
    text = f"MAE {measured.mae:.3f}, PSNR {measured.psnr_db:.2f} dB, SSIM {measured.ssim or 0:.4f}, largest {measured.largest}"
    pictures = [("zarr", one), ("Lance", other), ("difference", heat_map(one, other))]
    figures = "".join(f"<figure>{_png(picture)}<figcaption>{name}</figcaption></figure>" for name, picture in pictures)
    return f'<p><b>{label}</b>: {text}</p><div class="grid">{figures}</div>'


def _both(scope: Scope, episode_id: str) -> tuple[EpisodeReader, EpisodeReader] | str:
    opened = [open_episode(store, episode_id, scope=scope) for store in (scope.zarr, scope.lance)]
    readers = [reader for reader in opened if not isinstance(reader, Finding)]
    if len(readers) == len(opened):
        return readers[0], readers[1]
    for reader in readers:
        reader.close()
    return next(lost.message for lost in opened if isinstance(lost, Finding))


def heat_map(one: NDArray[np.uint8], other: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Colour where two frames (H, W, 3) differ: black is equal, yellow the largest difference of this pair. Returns RGB."""
    difference = np.abs(one.astype(np.int16) - other).max(-1)
    top = max(1, int(difference.max()))
    coloured = cv2.applyColorMap((difference * 255 // top).astype(np.uint8), cv2.COLORMAP_INFERNO)
    return np.asarray(coloured[..., ::-1], np.uint8)


def _png(picture: NDArray[np.uint8]) -> str:
    height, width = picture.shape[:2]
    scaled = cv2.resize(picture, (_THUMB_WIDTH, max(1, height * _THUMB_WIDTH // width)), interpolation=cv2.INTER_NEAREST_EXACT)
    _, data = cv2.imencode(".png", np.ascontiguousarray(scaled[..., ::-1]))
    return f'<img alt="" width="{_THUMB_WIDTH}" src="data:image/png;base64,{base64.b64encode(data.tobytes()).decode()}">'


def _curves(scope: Scope, report: ParityReport) -> Iterator[str]:
    """Draw both sides' numbers around the worst frame of a feature."""
    places = [
        (finding.episode, finding.stream, finding.frames[0])
        for _, finding in _all_findings(report)
        if finding.frames and finding.code == "parity-numeric"
    ]
    shown = list(dict.fromkeys(places))[:SHOWN_CURVES]
    if shown:
        yield "<h2>Numbers around the difference</h2>"
        yield '<p>Most differing channel: <span style="color:var(--one)">zarr</span>, <span style="color:var(--two)">Lance</span>.</p>'
        yield '<div class="grid">' + "".join(_curve(scope, *place) for place in shown) + "</div>"


def _curve(scope: Scope, episode_id: str, key: str, frame: int) -> str:
    found = _both(scope, episode_id)
    if isinstance(found, str):
        return ""
    try:
        total = min(reader.meta.total_frames for reader in found)
        start, end = max(0, frame - _AROUND_FRAMES), min(total, frame + _AROUND_FRAMES + 1)
        pair = [reader.rows([key], [(start, end)])[key].reshape(end - start, -1).astype(np.float64) for reader in found]
    except EgodataError:
        return ""
    finally:
        for reader in found:
            reader.close()
    if pair[0].shape != pair[1].shape:
        return ""
    apart = np.nan_to_num(np.abs(pair[0] - pair[1]), nan=np.inf).max(0) * (pair[0] != pair[1]).any(0)
    channel = int(np.argmax(np.nan_to_num(apart, nan=0.0)))
    series = [(colour, values[:, channel]) for colour, values in zip(("var(--one)", "var(--two)"), pair, strict=True)]
    lines = _lines(series, mark=(frame - start) / max(1, end - start - 1))
    text = f"{escape(episode_id)} {escape(key)}[{channel}], frames {start} to {end - 1}, worst {frame}"
    return f"<figure>{lines}<figcaption>{text}</figcaption></figure>"


def _lines(series: Sequence[tuple[str, NDArray[np.float64]]], *, mark: float, width: int = 350, height: int = 110) -> Raw:
    known = np.concatenate([values[np.isfinite(values)] for _, values in series])
    if not len(known):
        return Raw("")
    low, high = float(known.min()), float(known.max())
    span = (high - low) or 1.0
    parts = [f'<line x1="{mark * width:.1f}" x2="{mark * width:.1f}" y1="0" y2="{height}" stroke="var(--bad)" stroke-dasharray="3 3"/>']
    for colour, values in series:
        step = width / max(1, len(values) - 1)
        points = [
            f"{at * step:.1f},{4 + (height - 8) * (high - value) / span:.1f}" for at, value in enumerate(values) if np.isfinite(value)
        ]
        parts.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="1.6" opacity="0.85"/>')
    labels = f'<text x="2" y="11">{high:.4g}</text><text x="2" y="{height - 2}">{low:.4g}</text>'
    return Raw(f'<svg width="{width}" height="{height}" role="img">{"".join(parts)}{labels}</svg>')


def _histograms(report: ParityReport) -> Iterator[str]:
    content = report.level("content")
    histograms = {} if content is None else content.outcome.histograms
    if not any(histograms.values()):
        return
    yield '<h2>Histograms</h2><div class="grid">'
    pixels = histograms.get("pixel_mae", {})
    if pixels:
        order = ["0", *(mae_bin(end - 1e-9) for end in MAE_BINS), mae_bin(MAE_BINS[-1])]
        values = [float(pixels.get(name, 0)) for name in order]
        yield f"<figure>{bars(order, [('var(--one)', values)])}<figcaption>decoded frames by mean absolute difference</figcaption></figure>"
    numbers = histograms.get("numeric", {})
    if numbers:
        order = sorted(numbers, key=float)
        values = [float(numbers[name]) for name in order]
        caption = "differing numbers by size, powers of ten; inf where one side is no number"
        yield f"<figure>{bars(order, [('var(--two)', values)])}<figcaption>{caption}</figcaption></figure>"
    else:
        yield "<p>No number differs.</p>"
    yield "</div>"
