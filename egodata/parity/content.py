"""Content level: every number, span, attribute and video byte of one episode in both formats, and some decoded frames."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from egodata.episode import EpisodeReader, read_all_numeric, semantic_attributes
from egodata.findings import Finding, Severity
from egodata.parity.compare import compare_arrays
from egodata.parity.pixels import SSIM_SHOWN, FrameDifference, compare_frame, likeness_of, mae_bin
from egodata.parity.report import Difference, Outcome, ParityConfig, largest, merged
from egodata.parity.scope import READ_ERRORS

_DECODED_AT_ONCE = 32


def compare_content(zarr: EpisodeReader, lance: EpisodeReader, *, frames: int | None, seed: int, config: ParityConfig) -> Outcome:
    """Compare one episode in both formats.

    Args:
        zarr: The episode as published: what is expected.
        lance: Its copy.
        frames: How many frames per camera are decoded and compared pixel by pixel; None for all.
        seed: Of the choice of frames.
        config: What may differ, how far, and the seed of choices.
    """
    parts: tuple[Callable[[], Outcome], ...] = (
        lambda: _attributes(zarr, lance),
        lambda: _spans(zarr, lance),
        lambda: _numeric(zarr, lance, config),
        lambda: _video(zarr, lance, frames=frames, seed=seed, config=config),
    )
    outcomes = []
    for part in parts:
        try:
            outcomes.append(part())
        except READ_ERRORS as error:
            outcomes.append(Outcome(findings=(finding(zarr, "parity-unreadable", message=str(error)),)))
    return merged([Outcome({"episodes": 1}), *outcomes])


def finding(
    reader: EpisodeReader, code: str, *, message: str, stream: str = "", frame: int | None = None, expected: str = "", got: str = ""
) -> Finding:
    """Make a finding about one episode, at error level."""
    frames = None if frame is None else (frame, frame + 1)
    return Finding(code, Severity.ERROR, reader.meta.episode_id, message, stream, frames, expected, got, reader.digests.content)


def _attributes(zarr: EpisodeReader, lance: EpisodeReader) -> Outcome:
    expected, got = semantic_attributes(zarr.meta, None), semantic_attributes(lance.meta, None)
    findings = [
        _unequal(zarr, "parity-meta", key, expected.get(key), got=got.get(key))
        for key in sorted({*expected, *got})
        if expected.get(key) != got.get(key)
    ]
    if zarr.calibration != lance.calibration:
        findings.append(_unequal(zarr, "parity-calibration", "calibration", zarr.calibration, got=lance.calibration))
    return Outcome({"attributes": len(expected)}, tuple(findings))


def _unequal(reader: EpisodeReader, code: str, stream: str, expected: Any, *, got: Any) -> Finding:
    one, other = f"{expected!r:.200}", f"{got!r:.200}"
    message = f"episode {reader.meta.episode_id}: {stream}: zarr has {one}, lance {other}. Build the Lance copy again."
    return finding(reader, code, stream=stream, message=message, expected=one, got=other)


def _spans(zarr: EpisodeReader, lance: EpisodeReader) -> Outcome:
    findings, count = [], 0
    for key in sorted({*zarr.annotation_keys, *zarr.structure_keys, *lance.annotation_keys, *lance.structure_keys}):
        expected, got = zarr.spans(key), lance.spans(key)
        count += len(expected or ())
        if expected != got:
            findings.append(_unequal(zarr, "parity-spans", key, _first_other(expected, got), got=_first_other(got, expected)))
    return Outcome({"spans": count}, tuple(findings))


def _first_other(spans: tuple[Any, ...] | None, other: tuple[Any, ...] | None) -> Any:
    """Return what to show: ``absent``, the first span that the other side has differently, or the number of spans."""
    if spans is None:
        return "absent"
    differing = [span for place, span in enumerate(spans) if other is None or place >= len(other) or other[place] != span]
    return differing[0] if differing else f"{len(spans)} spans"


def _numeric(zarr: EpisodeReader, lance: EpisodeReader, config: ParityConfig) -> Outcome:
    expected, got = read_all_numeric(zarr), read_all_numeric(lance)
    findings, biggest, values = [], None, 0
    decades: Counter[str] = Counter()
    for key in sorted({*expected, *got}):
        one, other = expected.get(key), got.get(key)
        if one is None or other is None or (one.shape, one.dtype) != (other.shape, other.dtype):
            shapes = [None if array is None else f"{array.dtype.name} {array.shape}" for array in (one, other)]
            findings.append(_unequal(zarr, "parity-numeric", key, shapes[0], got=shapes[1]))
            continue
        values += one.size
        found = compare_arrays(one, other, tolerance=config.numeric)
        if found is None:
            continue
        decades.update(found.decades)
        biggest = largest([biggest, Difference(found.largest, zarr.meta.episode_id, key, found.row)])
        if found.cells:
            frame = found.row if found.first is None else found.first
            message = (
                f"episode {zarr.meta.episode_id}: {key}: {found.cells} values differ from frame {frame}, by up to {found.largest:g}"
                f" at frame {found.row} ({found.expected} in zarr, {found.got} in lance). Build the Lance copy again."
            )
            findings.append(
                finding(zarr, "parity-numeric", stream=key, message=message, frame=found.row, expected=found.expected, got=found.got)
            )
    bins = {"numeric": dict(decades)} if decades else {}
    return Outcome({"arrays": len(expected), "values": values}, tuple(findings), numeric=biggest, histograms=bins)


def _video(zarr: EpisodeReader, lance: EpisodeReader, *, frames: int | None, seed: int, config: ParityConfig) -> Outcome:
    outcomes = []
    for camera in sorted({*zarr.meta.cameras, *lance.meta.cameras}):
        if camera not in zarr.meta.cameras or camera not in lance.meta.cameras:
            continue  # _attributes has found it: cameras are features
        chunks = range(zarr.video_info(camera).chunks)
        changed = [index for index in chunks if zarr.video_chunk(camera, index) != lance.video_chunk(camera, index)]
        chosen = sorted({*_chosen(zarr.meta.total_frames, frames, seed), *_frames_of(zarr, camera, changed)})
        outcomes.append(_bytes(zarr, camera, changed, config=config))
        outcomes.append(_pixels(zarr, lance, camera, chosen=chosen, config=config))
    return merged(outcomes)


def _chosen(total: int, frames: int | None, seed: int) -> list[int]:
    if frames is None or frames >= total:
        return list(range(total))
    return sorted(np.random.default_rng(seed).choice(total, frames, replace=False).tolist())


def _frames_of(reader: EpisodeReader, camera: str, chunks: list[int]) -> Iterator[int]:
    """Yield all frames of some elements: where bytes differ, every pixel is looked at."""
    info = reader.video_info(camera)
    for index in chunks:
        yield from range(index * info.frames_per_chunk, min((index + 1) * info.frames_per_chunk, info.frames))


def _bytes(zarr: EpisodeReader, camera: str, changed: list[int], *, config: ParityConfig) -> Outcome:
    counts = {"video_elements": zarr.video_info(camera).chunks}
    if not changed or config.video_bytes == "any":
        return Outcome(counts)
    shown = ", ".join(map(str, changed[:5]))
    message = f"episode {zarr.meta.episode_id}: images.{camera}: bytes differ in {len(changed)} elements ({shown}). Build the copy again."
    first = changed[0] * zarr.video_info(camera).frames_per_chunk
    return Outcome(counts, (finding(zarr, "parity-video-bytes", stream=f"images.{camera}", message=message, frame=first),))


def _pixels(zarr: EpisodeReader, lance: EpisodeReader, camera: str, *, chosen: list[int], config: ParityConfig) -> Outcome:
    stream = f"images.{camera}"
    biggest: Difference | None = None
    seen: list[FrameDifference] = []
    broken: list[tuple[int, str]] = []
    measured = 0
    for start in range(0, len(chosen), _DECODED_AT_ONCE):
        indices = chosen[start : start + _DECODED_AT_ONCE]
        expected, got = zarr.frames(camera, indices), lance.frames(camera, indices)
        if expected.shape != got.shape:
            unequal = _unequal(zarr, "parity-pixels", stream, expected.shape[1:], got=got.shape[1:])
            return Outcome({"frames_decoded": len(chosen)}, (unequal,))
        for place, frame in enumerate(indices):
            found = compare_frame(expected[place], got[place], with_ssim=config.ssim is not None or measured < SSIM_SHOWN)
            seen.append(found)
            if found.largest == 0:
                continue
            measured += 1
            biggest = largest([biggest, Difference(float(found.largest), zarr.meta.episode_id, stream, frame)])
            if why := found.beyond(config):
                broken.append((frame, why))
    bins = Counter(mae_bin(found.mae) for found in seen)
    result = Outcome({"frames_decoded": len(chosen)}, (), None, biggest, likeness_of(seen), {"pixel_mae": dict(bins)})
    if not broken or biggest is None:
        return result
    worst = max(broken, key=lambda item: seen[chosen.index(item[0])].mae)
    message = (
        f"episode {zarr.meta.episode_id}: {stream}: {len(broken)} of {len(chosen)} decoded frames differ beyond the bounds, first frame "
        f"{broken[0][0]}, worst frame {worst[0]} ({worst[1]}; {result.likeness}). Build the Lance copy again."
    )
    return replace(result, findings=(finding(zarr, "parity-pixels", stream=stream, message=message, frame=worst[0]),))
