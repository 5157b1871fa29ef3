"""Episodes that this process has open: readers, and their numbers in a byte-capped cache keyed by content.

The cache sits above `EpisodeReader`, so it serves both formats. Each source has its own: shared between formats
it would compare a thing with itself. Whole-episode numbers come from memory-mapped blocks (`blocks.py`) where a source has them.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.catalog.manifest import HeadEpisode
from egodata.episode import EpisodeReader, EpisodeStore
from egodata.sampling.arms import in_one_hand_frame
from egodata.sampling.blocks import BlockCache
from egodata.sampling.prompts import Roles
from egodata.sampling.recipe import Recipe, bind_reader
from egodata.sampling.tracks import Tracks, prepare
from egodata.schema.features import camera_key, resolve_embodiment, valid_key

Rows = Callable[[Sequence[str], Sequence[tuple[int, int]]], dict[str, NDArray[Any]]]

NUMBERS_BYTES = 256 * 2**20
OPEN_READERS = 128


@dataclass(frozen=True, slots=True)
class Keep:
    """What a source keeps of its episodes' numbers.

    Attributes:
        numbers_bytes: Cap of prepared numbers in memory; the last used ones stay.
        blocks: Memory-mapped numbers shared by processes; None reads the store itself.
        index: Folder of indexes that were made before; None makes it anew and keeps it in memory.
    """

    numbers_bytes: int = NUMBERS_BYTES
    blocks: BlockCache | None = None
    index: Path | None = None


USUAL = Keep()


@dataclass(frozen=True, slots=True)
class Numbers:
    """What a source keeps of an episode: no images.

    Attributes:
        tracks: Poses or joints.
        spans: By annotation key of the recipe; None where absent.
        camera_valid: (T,) by camera, for cameras that are aligned to another one's frames.
        fps: Frames per second.
        embodiment: Canonical name.
    """

    tracks: Tracks
    spans: Roles
    camera_valid: Mapping[str, NDArray[np.bool_]]
    fps: Fraction
    embodiment: str


def read_numbers(reader: EpisodeReader, recipe: Recipe, *, rows: Rows | None = None) -> Numbers:
    """Read all that a recipe needs of an episode but images, in one call per kind.

    Args:
        reader: The episode.
        recipe: What is needed.
        rows: Where rows come from instead of the reader: a block of the same content.

    Raises:
        RecipeError: The episode lacks something; found before data is read.
    """
    meta = reader.meta
    layout = bind_reader(recipe, reader)
    arrays = (rows or reader.rows)(layout.keys, [(0, meta.total_frames)] * len(layout.keys))
    arrays = in_one_hand_frame(arrays, meta.hand_frame_convention)
    present = {*reader.annotation_keys, *reader.structure_keys}
    spans = {key: reader.spans(key) if key in present else None for key in (*recipe.prompt_roles, *recipe.span_keys)}
    masks = {camera: valid_key(camera_key(camera)) for camera in recipe.cameras}
    valid = {camera: np.asarray(arrays[mask], bool) for camera, mask in masks.items() if mask in arrays}
    return Numbers(prepare(arrays, recipe), spans, valid, meta.fps, resolve_embodiment(meta.embodiment)[0])


class EpisodeCache:
    """Open readers and numbers of one process. A pickled copy starts empty and opens again where it is used."""

    def __init__(
        self, opener: Callable[[], EpisodeStore], recipe: Recipe, *, numbers_bytes: int = NUMBERS_BYTES, blocks: BlockCache | None = None
    ) -> None:
        """Remember how to open a store; nothing is opened yet.

        Args:
            opener: Opens the store; picklable.
            recipe: What numbers to read.
            numbers_bytes: Cap of the kept numbers; the last used ones stay.
            blocks: Memory-mapped numbers shared by processes; None reads the store.
        """
        self._blocks = blocks
        self._opener = opener
        self._recipe = recipe
        self._cap = numbers_bytes
        self._start_empty()

    def _start_empty(self) -> None:
        self._store: EpisodeStore | None = None
        self._readers: OrderedDict[str, EpisodeReader] = OrderedDict()
        self._numbers: OrderedDict[str, Numbers] = OrderedDict()
        self._held_bytes = 0

    def __getstate__(self) -> dict[str, Any]:
        return {"_opener": self._opener, "_recipe": self._recipe, "_cap": self._cap, "_blocks": self._blocks}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start_empty()

    @property
    def held_bytes(self) -> int:
        """Memory of the kept numbers."""
        return self._held_bytes

    def reader(self, episode: HeadEpisode) -> EpisodeReader:
        """Return an open reader of exactly the recorded content.

        Raises:
            EpisodeNotFoundError: It is gone.
        """
        if episode.content in self._readers:
            self._readers.move_to_end(episode.content)
            return self._readers[episode.content]
        if self._store is None:
            self._store = self._opener()
        reader = self._store.open(episode.episode_id, content=episode.content)
        self._readers[episode.content] = reader
        while len(self._readers) > OPEN_READERS:
            self._readers.popitem(last=False)[1].close()
        return reader

    def numbers(self, episode: HeadEpisode) -> Numbers:
        """Return an episode's numbers, read once while they fit."""
        if episode.content in self._numbers:
            self._numbers.move_to_end(episode.content)
            return self._numbers[episode.content]
        reader = self.reader(episode)
        rows = None if self._blocks is None else self._blocks.block(reader, content=episode.content).rows
        found = read_numbers(reader, self._recipe, rows=rows)
        self._numbers[episode.content] = found
        self._held_bytes += found.tracks.size_bytes
        while self._held_bytes > self._cap and len(self._numbers) > 1:
            self._held_bytes -= self._numbers.popitem(last=False)[1].tracks.size_bytes
        return found

    def close(self) -> None:
        """Close every reader and forget the numbers."""
        for reader in self._readers.values():
            reader.close()
        self._start_empty()
