"""Clips: one recording yields several episodes, cut by explicit ranges, by annotation spans or at gaps.

A clip's id is `<recording>-c<start>-<end>` in frames of the recording, whatever other clips there are; one clip that is the whole
recording keeps the recording's id.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from egodata.annotations import Annotations, Span
from egodata.config import load_config, strict_config
from egodata.episode import CameraSource, Clip, EpisodeDraft, VideoSource
from egodata.errors import ConfigError
from egodata.findings import Finding, Severity
from egodata.schema.features import SIDES, TIMESTAMPS, valid_key
from egodata.vendors import Drafts, SetAside

Range = tuple[int, int]


@strict_config
@dataclass(frozen=True, slots=True)
class ClipRule:
    """How recordings are cut; exactly one of `ranges`, `spans` and `gap_s`.

    Attributes:
        ranges: Half-open frame ranges by recording id; recordings that are not named stay whole.
        spans: Annotation key; every span of it is a clip. Recordings without the key stay whole.
        gap_s: Cut where time stamps are farther apart, and where no hand is valid for longer; those frames are in no clip.
        min_frames: Shorter clips from spans and gaps are left out and counted.
        max_frames: Longer pieces between gaps are cut every so many frames; None leaves them whole.
    """

    ranges: dict[str, tuple[Range, ...]] | None = None
    spans: str | None = None
    gap_s: float | None = None
    min_frames: int = 10
    max_frames: int | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("ranges", "spans", "gap_s") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ConfigError(f"clips: expected one of ranges, spans, gap_s, got {', '.join(given) or 'none'}.")
        for recording, ranges in (self.ranges or {}).items():
            ordered = sorted(ranges)
            if any(not 0 <= start < end for start, end in ordered) or any(a[1] > b[0] for a, b in pairwise(ordered)):
                raise ConfigError(f"clips: ranges of {recording}: expected 0 <= start < end without overlap, got {list(ranges)}.")

    def settings(self, recording: str) -> dict[str, object] | None:
        """Return what decides about one recording, as JSON; None where it stays whole. Other recordings' ranges are not part of it."""
        if self.ranges is not None:
            own = sorted(self.ranges.get(recording, ()))
            return {"ranges": [list(item) for item in own]} if own else None
        rule = {"spans": self.spans, "gap_s": self.gap_s, "min_frames": self.min_frames, "max_frames": self.max_frames}
        return {key: value for key, value in rule.items() if value is not None}


def load_clips(path: Path | ClipRule | None) -> ClipRule | None:
    """Read a clip rule; None for none, and a rule stays what it is.

    Raises:
        ConfigError: Not such a file.
        NotFoundError: There is none.
    """
    return load_config(path, ClipRule) if isinstance(path, Path) else path


def cut_drafts(drafts: Drafts, rule: ClipRule, *, recording: str) -> Drafts:
    """Cut the one draft of a recording into clips.

    Args:
        drafts: From a vendor. A vendor that cuts by itself is left alone by `spans` and `gap_s`.
        rule: How.
        recording: Its id.

    Raises:
        SetAside: A range lies outside the recording, nothing is left, or its video cannot be cut.
    """
    if rule.settings(recording) is None or (len(drafts.episodes) != 1 and rule.ranges is None):
        return drafts
    if len(drafts.episodes) != 1:
        _refuse(drafts, recording, f"the vendor's reader cuts it into {len(drafts.episodes)} episodes itself; ranges cannot cut it again")
    (draft,) = drafts.episodes
    total = draft.meta.total_frames
    ranges, short = _ranges(draft, rule, recording)
    if outside := [item for item in ranges if item[1] > total]:
        _refuse(drafts, recording, f"range [{outside[0][0]}, {outside[0][1]}) ends after its {total} frames")
    if not ranges:
        _refuse(drafts, recording, f"no piece of at least {rule.min_frames} frames is left of its {total}")
    if ranges == [(0, total)]:
        return drafts
    if not all(isinstance(source, VideoSource) for source in draft.videos.values()):
        _refuse(drafts, recording, "its video is stored already and cannot be cut. Cut the original recording")
    clips = tuple(_cut(draft, item, index=number, recording=recording) for number, item in enumerate(ranges))
    left_out = total - sum(end - start for start, end in ranges)
    message = f"cut into {len(clips)} clips; {left_out} of {total} frames are in none" + (
        f", {short} pieces were too short" if short else ""
    )
    note = Finding("clips-cut", Severity.INFO, recording, message + ".", got=f"{left_out} frames left out")
    return Drafts(clips, (*drafts.findings, *draft.findings, note))


def _refuse(drafts: Drafts, recording: str, why: str) -> NoReturn:
    found = (*drafts.findings, *(finding for draft in drafts.episodes for finding in draft.findings))
    raise SetAside((*found, Finding("clips-impossible", Severity.ERROR, recording, f"recording {recording}: {why}.")))


def _ranges(draft: EpisodeDraft, rule: ClipRule, recording: str) -> tuple[list[Range], int]:
    """Return the ranges to cut, sorted, and how many were too short."""
    total = draft.meta.total_frames
    if rule.ranges is not None:
        return sorted(rule.ranges[recording]), 0
    if rule.spans is not None:
        spans = draft.annotations.get(rule.spans)
        found = [(0, total)] if spans is None else sorted({(span.start, min(span.end, total)) for span in spans})
    else:
        found = _between_gaps(draft, float(rule.gap_s or 0), rule.max_frames)
    kept = [item for item in found if item[1] - item[0] >= rule.min_frames]
    return kept, len(found) - len(kept)


def _between_gaps(draft: EpisodeDraft, gap_s: float, max_frames: int | None) -> list[Range]:
    total = draft.meta.total_frames
    good = np.ones(total, np.bool_)
    masks = [draft.arrays[key] for side in SIDES if (key := valid_key(f"{side}.obs_ee_pose")) in draft.arrays]
    if masks:
        for start, end in runs(~np.any(masks, axis=0)):
            good[start:end] = end - start <= gap_s * draft.meta.fps
    breaks = np.zeros(total, np.bool_)
    if TIMESTAMPS in draft.arrays:
        breaks[1:] = np.diff(draft.arrays[TIMESTAMPS]) > gap_s * 1e9
    found: list[Range] = []
    for start, end in runs(good):
        edges = [start, *(int(at) for at in np.flatnonzero(breaks[start + 1 : end]) + start + 1), end]
        for low, high in pairwise(edges):
            step = max_frames or high - low
            found += [(at, min(at + step, high)) for at in range(low, high, step)]
    return found


def runs(mask: NDArray[np.bool_]) -> list[Range]:
    """Return the half-open ranges in which a mask (T,) is True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return [(int(start), int(end)) for start, end in edges.reshape(-1, 2)]


def _cut(draft: EpisodeDraft, item: Range, *, index: int, recording: str) -> EpisodeDraft:
    start, end = item
    arrays = {key: np.ascontiguousarray(values[start:end]) for key, values in draft.arrays.items()}
    if draft.meta.clock == "frame0" and TIMESTAMPS in arrays:
        arrays[TIMESTAMPS] = arrays[TIMESTAMPS] - arrays[TIMESTAMPS][0]
    meta = replace(
        draft.meta,
        episode_id=f"{recording}-c{start}-{end}",
        clip=Clip(index, start, end, aliased=False),
        total_frames=end - start,
    )
    videos: dict[str, CameraSource] = {
        name: replace(source, rows=source.rows[start:end]) for name, source in draft.videos.items() if isinstance(source, VideoSource)
    }
    return replace(draft, meta=meta, arrays=arrays, videos=videos, annotations=_within(draft.annotations, item), findings=())


def _within(annotations: Annotations, item: Range) -> Annotations:
    """Keep the spans that reach into a clip, cut to it and counted from its start; a key stays present."""
    start, end = item
    return {
        key: [
            Span(span.text, max(span.start, start) - start, min(span.end, end) - start)
            for span in spans
            if span.start < end and span.end > start
        ]
        for key, spans in annotations.items()
    }
