"""The card of a frozen dataset: who is in which head, how long episodes are, what they show and say, and its pins in pictures."""

import base64
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from egodata.catalog.manifest import HeadEpisode, Manifest
from egodata.episode import EpisodeReader, EpisodeStore
from egodata.errors import CorruptEpisodeError, NotFoundError
from egodata.progress import Progress, silent, tracked
from egodata.reports.page import HEAD_COLOURS, bars, colour_key, facts, page, table
from egodata.sampling.order import even_stride
from egodata.schema.layout import StorePaths, write_atomic

LOOKED_AT = 2000
"""Episodes that are opened for tasks and annotations; of larger datasets so many, spread evenly over each head."""
PICTURES, PICTURE_WIDTH = 4, 240


@dataclass(slots=True)
class Coverage:
    """Of one annotation key in one head: episodes that have it, frames under a span, spans."""

    episodes: int = 0
    frames: int = 0
    spans: int = 0


@dataclass(slots=True)
class CardFacts:
    """What was found by opening episodes.

    Attributes:
        looked: Episodes opened, by head.
        frames: Their frames, by head.
        tasks: (head, task) -> episodes.
        coverage: (head, key) -> coverage.
        gone: Episodes that could not be opened.
        pins: (head, episode, camera, pictures as JPEG).
    """

    looked: Counter[str] = field(default_factory=Counter)
    frames: Counter[str] = field(default_factory=Counter)
    tasks: Counter[tuple[str, str]] = field(default_factory=Counter)
    coverage: dict[tuple[str, str], Coverage] = field(default_factory=lambda: defaultdict(Coverage))
    gone: list[str] = field(default_factory=list)
    pins: list[tuple[str, str, str, list[bytes]]] = field(default_factory=list)


def write_card(
    paths: StorePaths, manifest: Manifest, *, store: EpisodeStore, progress: Progress = silent, looked_at: int = LOOKED_AT
) -> Path:
    """Write the card of a dataset beside its manifest, as ``card.html``.

    Args:
        paths: The store.
        manifest: The dataset.
        store: Opens its episodes; either format.
        progress: Told how many episodes were opened.
        looked_at: Most episodes to open.

    Raises:
        OSError: The disk cannot be written.
    """
    path = paths.manifest(manifest.name, manifest.version).with_name("card.html")
    write_atomic(path, card_page(manifest, gather(manifest, store, looked_at=looked_at, progress=progress)).encode())
    return path


def gather(manifest: Manifest, store: EpisodeStore, *, looked_at: int = LOOKED_AT, progress: Progress = silent) -> CardFacts:
    """Open episodes for what the manifest does not say. One that cannot be opened is named, not an error."""
    found = CardFacts()
    total = sum(len(members) for members in manifest.heads.values())
    chosen = [
        (head, members[at])
        for head, members in manifest.heads.items()
        for at in even_stride(len(members), max(1, looked_at * len(members) // max(1, total)))
    ]
    for head, episode in tracked(chosen, label=f"card {manifest.ref}", progress=progress):
        _look(found, head, episode, store)
    episodes = {episode.episode_id: episode for members in manifest.heads.values() for episode in members}
    for head, pins in manifest.pins.items():
        for pin in pins:
            _picture(found, head, episodes[pin], store)
    return found


def _look(found: CardFacts, head: str, episode: HeadEpisode, store: EpisodeStore) -> None:
    try:
        reader = store.open(episode.episode_id, content=episode.content)
        spans = {key: reader.spans(key) or () for key in reader.annotation_keys}
    except (NotFoundError, CorruptEpisodeError):
        found.gone.append(episode.episode_id)
        return
    found.looked[head] += 1
    found.frames[head] += episode.frames
    found.tasks[head, reader.meta.task_name or "(none)"] += 1
    for key, listed in spans.items():
        covered = np.zeros(episode.frames, bool)
        for span in listed:
            covered[span.start : span.end] = True
        coverage = found.coverage[head, key]
        coverage.episodes += 1
        coverage.spans += len(listed)
        coverage.frames += int(covered.sum())
    reader.close()


def _picture(found: CardFacts, head: str, episode: HeadEpisode, store: EpisodeStore) -> None:
    try:
        reader = store.open(episode.episode_id, content=episode.content)
        camera = _camera(reader)
        frames = reader.frames(camera, even_stride(episode.frames, PICTURES)) if camera else np.zeros((0, 1, 1, 3), np.uint8)
        reader.close()
    except (NotFoundError, CorruptEpisodeError):
        found.gone.append(episode.episode_id)
        return
    found.pins.append((head, episode.episode_id, camera, [_jpeg(frame) for frame in frames]))


def _camera(reader: EpisodeReader) -> str:
    cameras = reader.meta.cameras
    return reader.meta.reference_camera if reader.meta.reference_camera in cameras else (cameras[0] if cameras else "")


def _jpeg(frame: NDArray[np.uint8]) -> bytes:
    height = max(1, round(frame.shape[0] * PICTURE_WIDTH / frame.shape[1]))
    small = cv2.resize(frame, (PICTURE_WIDTH, height), interpolation=cv2.INTER_AREA)
    return bytes(cv2.imencode(".jpg", small[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 82])[1])


def card_page(manifest: Manifest, found: CardFacts) -> str:
    """Return the page."""
    return page(f"Dataset {manifest.ref}", _parts(manifest, found))


def _parts(manifest: Manifest, found: CardFacts) -> Iterator[str]:
    every = [episode for members in manifest.heads.values() for episode in members]
    yield f"<h1>Dataset {escape(manifest.ref)}</h1><p>Digest <code>{manifest.digest}</code></p>"
    yield facts(
        [
            (f"{len(every):,}", "episodes"),
            (f"{sum(episode.frames for episode in every):,}", "frames"),
            (f"{len({episode.operator for episode in every} - {None}):,}", "operators"),
            (f"{len({(episode.recording) for episode in every}):,}", "recordings"),
        ]
    )
    yield from _history(manifest.provenance)
    yield from _operators(manifest)
    yield from _lengths(manifest)
    yield from _contents(found)
    yield from _pins(found)
    yield "<h2>Rule</h2>" + table(
        ("field", "value"), [(key, _short(value)) for key, value in sorted(manifest.rule.items()) if value not in (None, [], {})]
    )
    gone = list(dict.fromkeys(found.gone))
    if gone:
        yield f'<p class="bad">{len(gone)} episodes could not be opened: {escape(", ".join(gone[:5]))}</p>'


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= 160 else f"{text[:160]} ..."


def _history(provenance: Mapping[str, object]) -> Iterator[str]:
    parent = provenance.get("parent")
    facts_of = [
        f"frozen {provenance['created']}" if "created" in provenance else "",
        f"from {provenance['format']}" if "format" in provenance else "",
    ]
    yield f"<p>{escape(', '.join(part for part in facts_of if part))}</p>"
    if isinstance(parent, Mapping):
        lines = parent["difference"]["lines"]
        yield f"<p>Follows version {escape(str(parent['version']))}: {escape('; '.join(lines)) or 'no difference'}</p>"
    left = provenance.get("left_out")
    if isinstance(left, Mapping) and left:
        yield "<p>Left out: " + escape(", ".join(f"{count} ({reason})" for reason, count in left.items())) + "</p>"


def _operators(manifest: Manifest) -> Iterator[str]:
    yield "<h2>Operators and heads</h2><p>Episodes, and frames in brackets.</p>"
    episodes: Counter[tuple[str, str]] = Counter()
    frames: Counter[tuple[str, str]] = Counter()
    for head, members in manifest.heads.items():
        for episode in members:
            for name in (episode.operator or "unknown", "all"):
                episodes[name, head] += 1
                frames[name, head] += episode.frames
    heads = list(manifest.heads)
    names = sorted({name for name, _ in episodes} - {"all"}, key=lambda name: (-sum(episodes[name, head] for head in heads), name))
    held = set(manifest.held_out_operators)
    rows = [
        (
            f"{name} (held out)" if name in held else name,
            *(f"{episodes[name, head]:,} ({frames[name, head]:,})" if episodes[name, head] else "" for head in heads),
        )
        for name in (*names, "all")
    ]
    yield table(("operator", *heads), rows)


def _lengths(manifest: Manifest) -> Iterator[str]:
    longest = max(episode.frames for members in manifest.heads.values() for episode in members)
    edges = np.linspace(0, longest + 1, 25)
    yield "<h2>Lengths</h2><p>Episodes by number of frames.</p>" + colour_key(manifest.heads)
    counts = [
        (HEAD_COLOURS[head], np.histogram([e.frames for e in members], edges)[0].tolist()) for head, members in manifest.heads.items()
    ]
    yield bars([f"{edge:.0f}" for edge in edges[:-1]], counts, width=760)
    rows = []
    for head, members in manifest.heads.items():
        lengths = np.array([episode.frames for episode in members])
        rows.append((head, len(members), int(lengths.sum()), int(lengths.min()), float(np.median(lengths)), int(lengths.max())))
    yield table(("head", "episodes", "frames", "shortest", "median", "longest"), rows)


def _contents(found: CardFacts) -> Iterator[str]:
    heads = list(found.looked)
    yield f"<h2>Tasks</h2><p>{sum(found.looked.values()):,} episodes were opened for tasks and annotations.</p>"
    tasks = sorted({task for _, task in found.tasks}, key=lambda task: (-sum(found.tasks[head, task] for head in heads), task))
    yield table(("task", *heads), [(task, *(found.tasks[head, task] for head in heads)) for task in tasks[:40]])
    yield "<h2>Annotations</h2><p>Share of the frames under a span, with the episodes that have the key and the number of spans.</p>"
    keys = sorted({key for _, key in found.coverage})
    rows = [(key, *(_covered(found, head, key) for head in heads)) for key in keys]
    yield table(("key", *heads), rows) if rows else "<p>None: every prompt is the recipe's default.</p>"


def _covered(found: CardFacts, head: str, key: str) -> str:
    if (head, key) not in found.coverage:
        return "absent"
    one = found.coverage[head, key]
    return f"{one.frames / max(1, found.frames[head]):.1%} ({one.episodes:,} episodes, {one.spans:,} spans)"


def _pins(found: CardFacts) -> Iterator[str]:
    if not found.pins:
        return
    yield "<h2>Pins</h2>"
    for head, episode, camera, pictures in found.pins:
        shown = "".join(f'<img alt="" src="data:image/jpeg;base64,{base64.b64encode(data).decode()}">' for data in pictures)
        caption = f"<figcaption>{escape(head)}: {escape(episode)} {escape(camera)}</figcaption>"
        yield f'<figure style="margin:0 0 14px"><div class="grid" style="gap:6px">{shown}</div>{caption}</figure>'
