"""Partials: the source rows of an episode that a recipe's numbers are made of, kept by content.

A dataset that has grown reads only its new episodes from the store. What is merged are rows, not summaries, so statistics made with
the help of partials are byte for byte those of a fresh run. Partials are a cache: a damaged one is made again, and a disk that cannot
be written only costs time.
"""

import json
import multiprocessing
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.annotations import Span
from egodata.calibration import Calibration
from egodata.catalog.manifest import HeadEpisode
from egodata.episode import EpisodeMeta, EpisodeReader, EpisodeStore, VideoInfo, meta_attributes, meta_from_attributes
from egodata.errors import EpisodeNotFoundError, FeatureNotFoundError, WindowError
from egodata.progress import Progress, silent
from egodata.sampling import Recipe
from egodata.sampling.recipe import bind_reader
from egodata.schema.canonical import canonical_json, json_digest, sha256_hex
from egodata.schema.digests import EpisodeDigests
from egodata.schema.ids import ANNOTATION_PREFIX
from egodata.schema.layout import StorePaths, write_atomic

PARTIAL_SCHEMA = 1


def partial_key(content: str, recipe: Recipe) -> str:
    """Return the key of an episode's partial: its content, and which rows and spans the recipe's numbers need."""
    spans = {"span": recipe.span_cutoff} if recipe.span_selection is None else {"spans": list(recipe.span_keys)}
    return json_digest({"schema": PARTIAL_SCHEMA, "content": content, "features": list(recipe.features), **spans})


def partial_path(paths: StorePaths, key: str) -> Path:
    """Return where a partial lies: ``cache/rows/<first two digits>/<key>``."""
    return paths.cache / "rows" / key[:2] / key


class PartialReader:
    """The part of an `EpisodeReader` that numbers need, from the bytes of a partial."""

    def __init__(self, meta: EpisodeMeta, digests: EpisodeDigests, *, header: Mapping[str, Any], body: bytes) -> None:
        self.meta = meta
        self.digests = digests
        self.calibration: Calibration | None = None
        self._spans: Mapping[str, Any] = header["spans"]
        self._at: dict[str, tuple[int, str, tuple[int, ...]]] = {}
        self._body = body
        offset = 0
        for key, dtype, shape in header["arrays"]:
            self._at[key] = (offset, dtype, tuple(shape))
            offset += int(np.dtype(dtype).itemsize * np.prod(shape, dtype=np.int64))

    @property
    def annotation_keys(self) -> tuple[str, ...]:
        """Keys of the kept texts that are present."""
        return tuple(sorted(key for key, spans in self._spans.items() if spans is not None and key.startswith(ANNOTATION_PREFIX)))

    @property
    def structure_keys(self) -> tuple[str, ...]:
        """Keys of the kept structural spans that are present."""
        return tuple(sorted(key for key, spans in self._spans.items() if spans is not None and not key.startswith(ANNOTATION_PREFIX)))

    def spans(self, key: str) -> tuple[Span, ...] | None:
        """Return kept spans; None if the key is absent."""
        found = self._spans.get(key)
        return None if found is None else tuple(Span(*item) for item in found)

    def rows(self, keys: Sequence[str], ranges: Sequence[tuple[int, int]]) -> dict[str, NDArray[Any]]:
        """Return copies of row ranges of kept arrays; see `EpisodeReader.rows`."""
        out = {}
        for key, (start, end) in zip(keys, ranges, strict=True):
            if key not in self._at:
                raise FeatureNotFoundError(f"episode {self.meta.episode_id}: {key} is not kept in its partial")
            offset, dtype, shape = self._at[key]
            if not 0 <= start <= end <= shape[0]:
                raise WindowError(f"episode {self.meta.episode_id} {key}: rows [{start}, {end}) outside [0, {shape[0]}]")
            count = int(np.prod(shape, dtype=np.int64))
            out[key] = np.frombuffer(self._body, np.dtype(dtype), count, offset).reshape(shape)[start:end].copy()
        return out

    def frames(self, camera: str, indices: Sequence[int]) -> NDArray[np.uint8]:
        """Partials keep no images."""
        raise FeatureNotFoundError(f"episode {self.meta.episode_id}: a partial keeps no images of {camera}")

    def video_info(self, camera: str) -> VideoInfo:
        """Partials keep no images."""
        raise FeatureNotFoundError(f"episode {self.meta.episode_id}: a partial keeps no images of {camera}")

    def video_chunk(self, camera: str, index: int) -> bytes:
        """Partials keep no images."""
        raise FeatureNotFoundError(f"episode {self.meta.episode_id}: a partial keeps no images of {camera}")

    def close(self) -> None:
        """Nothing is open."""


class PartialStore:
    """An `EpisodeStore` that answers from partials, and makes those that are missing from the store behind it.

    It pickles and is its own opener, so each process opens the store behind it only if it has to.
    """

    def __init__(self, paths: StorePaths, recipe: Recipe, *, opener: Callable[[], EpisodeStore]) -> None:
        """Remember where partials lie and how to open the store behind; nothing is opened yet."""
        self._paths, self._recipe, self._opener = paths, recipe.numbers_only, opener
        self._behind: EpisodeStore | None = None

    def __call__(self) -> "PartialStore":
        """Return itself, as an opener does."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {"_paths": self._paths, "_recipe": self._recipe, "_opener": self._opener, "_behind": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _store(self) -> EpisodeStore:
        if self._behind is None:
            self._behind = self._opener()
        return self._behind

    def episode_ids(self) -> list[str]:
        """Return the ids of the store behind."""
        return self._store().episode_ids()

    def open(self, episode_id: str, *, content: str | None = None) -> EpisodeReader:
        """Open the partial of one content, made now if it is missing or damaged.

        Raises:
            EpisodeNotFoundError: No content was named, or the store does not hold it.
            RecipeError: The recipe does not fit the episode.
        """
        if content is None:
            raise EpisodeNotFoundError(f"episode {episode_id}: partials are found by content only")
        key = partial_key(content, self._recipe)
        path = partial_path(self._paths, key)
        kept = _load(path, key, episode_id)
        if kept is not None:
            return kept
        reader = self._store().open(episode_id, content=content)
        try:
            data = _pack(reader, self._recipe, key=key)
        finally:
            reader.close()
        try:
            write_atomic(path, data)
        except OSError:
            pass  # a cache that cannot be written must not stop training
        return _unpack(data, key, episode_id)

    def missing(self, episodes: Sequence[HeadEpisode]) -> list[HeadEpisode]:
        """Return the episodes that no partial lies there for; whether one is damaged shows when it is opened."""
        return [one for one in episodes if not partial_path(self._paths, partial_key(one.content, self._recipe)).is_file()]


def make_partials(store: PartialStore, episodes: Sequence[HeadEpisode], *, workers: int, progress: Progress = silent) -> int:
    """Make the partials that are missing in several processes, and return how many there were.

    Raises:
        NotFoundError: An episode's recorded content is gone.
        RecipeError: The recipe does not fit an episode.
    """
    missing = store.missing(episodes)
    if workers <= 1 or len(missing) < 2:
        return len(missing)  # they are made where they are first needed
    shares = [missing[at :: 4 * workers] for at in range(min(4 * workers, len(missing)))]
    done = 0
    progress("source rows", 0, len(missing))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for future in as_completed([pool.submit(_make, store, share) for share in shares]):
            done += future.result()
            progress("source rows", done, len(missing))
    return len(missing)


def _make(store: PartialStore, episodes: Sequence[HeadEpisode]) -> int:
    for episode in episodes:
        store.open(episode.episode_id, content=episode.content).close()
    return len(episodes)


def _pack(reader: EpisodeReader, recipe: Recipe, *, key: str) -> bytes:
    """Write the digest of the rest, a header in canonical JSON, each on a line, then the arrays' little-endian bytes."""
    meta = reader.meta
    keys = bind_reader(recipe, reader).keys
    arrays = reader.rows(keys, [(0, meta.total_frames)] * len(keys))
    spans = {role: reader.spans(role) for role in recipe.span_keys}
    plain = {name: np.ascontiguousarray(array, array.dtype.newbyteorder("<")) for name, array in arrays.items()}
    body = b"".join(plain[name].tobytes() for name in keys)
    header = {
        "key": key,
        "attributes": meta_attributes(meta),
        "digests": reader.digests.to_json(),
        "arrays": [[name, plain[name].dtype.str, list(plain[name].shape)] for name in keys],
        "spans": {role: None if found is None else [[span.text, span.start, span.end] for span in found] for role, found in spans.items()},
    }
    rest = canonical_json(header) + b"\n" + body
    return sha256_hex(rest).encode() + b"\n" + rest


def _unpack(data: bytes, key: str, episode_id: str) -> PartialReader:
    digest, _, rest = data.partition(b"\n")
    line, _, body = rest.partition(b"\n")
    header = json.loads(line) if sha256_hex(rest).encode() == digest else {}
    if header.get("key") != key:
        raise ValueError(f"partial {key[:16]}: damaged")
    attributes = {**header["attributes"], "episode_id": sys.intern(episode_id)}
    digests = EpisodeDigests(**{part: header["digests"][part] for part in ("media", "annotations", "calibration", "meta")})
    return PartialReader(meta_from_attributes(attributes), digests, header=header, body=body)


def _load(path: Path, key: str, episode_id: str) -> PartialReader | None:
    try:
        return _unpack(path.read_bytes(), key, episode_id)
    except (OSError, ValueError, KeyError, TypeError):  # absent, cut off or damaged: made again
        return None
