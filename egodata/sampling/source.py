"""A head of a frozen dataset as samples: the same on both formats, lazy in every process, nothing replaced silently."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from egodata.catalog.manifest import HeadEpisode, Manifest
from egodata.episode import EpisodeReader, EpisodeStore
from egodata.errors import RecipeError, SampleError
from egodata.formats import open_store
from egodata.progress import Progress, silent, tracked
from egodata.sampling.assemble import CameraImages, episode_samples, read_images
from egodata.sampling.blocks import BlockCache
from egodata.sampling.cache import USUAL, EpisodeCache, Keep, Numbers
from egodata.sampling.index import HeadIndex, build_index
from egodata.sampling.index_cache import cached_index, index_key
from egodata.sampling.order import AUTO_BUDGET, auto_per_episode, stride_indices
from egodata.sampling.prompts import frames_with_text
from egodata.sampling.recipe import Layout, Recipe, bind_reader
from egodata.sampling.runs import DecodedRuns
from egodata.sampling.selection import UsableFrames, usable_frames
from egodata.sampling.tracks import windows_of
from egodata.sampling.types import EpisodeWindows, Normaliser, Part, Sample
from egodata.sampling.windows import cutoff_ends
from egodata.schema.layout import StorePaths

ReadImages = Callable[[int, NDArray[np.int64]], dict[str, CameraImages]]
PIECE_STEPS = 25_600
"""Most action steps that a walk over windows makes at once: bounds its memory, whatever the length of an episode."""


class HeadSource:
    """Samples of one head. Picklable: a copy in another process opens its own files when it first reads."""

    def __init__(
        self,
        episodes: Sequence[HeadEpisode],
        opener: Callable[[], EpisodeStore],
        *,
        recipe: Recipe,
        normalisers: Mapping[str, Normaliser] | None = None,
        seed: int = 0,
        progress: Progress = silent,
        keep: Keep = USUAL,
    ) -> None:
        """Bind the recipe to every episode, then read their masks and build the index. `open` is the usual way in.

        Args:
            episodes: In head order.
            opener: Opens the store; picklable.
            recipe: What a sample is.
            normalisers: For ``action`` and ``proprio``; a missing one leaves the numbers as they are.
            seed: Base seed of prompts.
            progress: Told how far reading has come.
            keep: How much of the episodes' numbers stays in memory, and whether mapped blocks of the same store and format serve them.

        Raises:
            RecipeError: An episode lacks something, or two episodes have different joints.
        """
        self.episodes = tuple(episodes)
        self.recipe = recipe
        self.seed = seed
        self.normalisers = dict(normalisers or {})
        self._cache = EpisodeCache(opener, recipe, numbers_bytes=keep.numbers_bytes, blocks=keep.blocks)
        self.layout = self._bind_all()
        self.index: HeadIndex = cached_index(keep.index, index_key(self.episodes, recipe), build=partial(self._build_index, progress))

    @classmethod
    def open(
        cls,
        paths: StorePaths,
        manifest: Manifest,
        *,
        head: str,
        recipe: Recipe,
        format: str,
        normalisers: Mapping[str, Normaliser] | None = None,
        seed: int = 0,
    ) -> "HeadSource":
        """Open a head of a frozen dataset on one format, at the contents and table versions that it recorded.

        Raises:
            NotFoundError: The dataset has no such head, or a content is gone.
            RecipeError: The recipe does not fit an episode; found before data is read.
        """
        opener = partial(open_store, paths, format, versions=manifest.lance_versions)
        keep = Keep(blocks=BlockCache(paths.cache / "blocks" / format), index=paths.cache / "index" / format)
        return cls(manifest.head(head), opener, recipe=recipe, normalisers=normalisers, seed=seed, keep=keep)

    def _bind_all(self) -> Layout:
        layouts = [bind_reader(self.recipe, self._cache.reader(episode)) for episode in self.episodes]
        if not layouts:
            raise RecipeError(f"recipe {self.recipe.name}: the head has no episodes")
        for episode, layout in zip(self.episodes, layouts, strict=True):
            if (layout.action_names, layout.proprio_names) != (layouts[0].action_names, layouts[0].proprio_names):
                raise RecipeError(
                    f"recipe {self.recipe.name}: episode {episode.episode_id} has {layout.action_dim} action and {layout.proprio_dim} "
                    f"proprio channels, {self.episodes[0].episode_id} has {layouts[0].action_dim} and {layouts[0].proprio_dim}, "
                    f"or other names. Put one body in a dataset."
                )
        return layouts[0]

    def _build_index(self, progress: Progress) -> HeadIndex:
        return build_index(self._usable(episode) for episode in tracked(self.episodes, label="index", progress=progress))

    def _usable(self, episode: HeadEpisode) -> UsableFrames:
        numbers = self._cache.numbers(episode)
        return usable_frames(self.recipe, numbers.tracks.ready, spans=numbers.spans)

    def __len__(self) -> int:
        return len(self.index)

    @property
    def excluded(self) -> Mapping[str, int]:
        """Frames left out of the index, by reason."""
        return self.index.excluded

    def operators(self) -> tuple[str, ...]:
        """Known operators of the head, sorted."""
        return tuple(sorted({episode.operator for episode in self.episodes if episode.operator is not None}))

    def numbers(self, ordinal: int) -> Numbers:
        """Return the numbers of one episode by its position in the head."""
        return self._cache.numbers(self.episodes[ordinal])

    def reader(self, ordinal: int) -> EpisodeReader:
        """Return an open reader of one episode by its position in the head; it stays the source's own."""
        return self._cache.reader(self.episodes[ordinal])

    def empty_prompt_share(self) -> float:
        """Share of the samples at which no text of the recipe's roles is active; no image is decoded for it."""
        empty = 0
        for ordinal in range(len(self.episodes)):
            numbers = self.numbers(ordinal)
            covered = frames_with_text(self.recipe, numbers.spans, total=numbers.tracks.total_frames)
            empty += int((~covered[self._frames(ordinal)]).sum())
        return empty / len(self) if len(self) else 0.0

    def _frames(self, ordinal: int) -> NDArray[np.int64]:
        return self.index.frames[self.index.offsets[ordinal] : self.index.offsets[ordinal + 1]].astype(np.int64)

    def windows_of(self, ordinal: int, *, frames: NDArray[np.int64] | None = None, part: Part | None = None) -> EpisodeWindows:
        """Return actions and proprio of an episode's usable frames, before normalisation: for statistics.

        Args:
            ordinal: Position of the episode in the head.
            frames: Start frames instead of all usable ones.
            part: Some steps of the action instead of everything.
        """
        numbers = self.numbers(ordinal)
        starts = self._frames(ordinal) if frames is None else frames
        return windows_of(numbers.tracks, self.recipe, starts=starts, fps=numbers.fps, ends=self._ends(numbers, starts), part=part)

    def windows(self, *, part: Part | None = None) -> Iterator[tuple[HeadEpisode, EpisodeWindows]]:
        """Walk over the windows of the head's usable frames, in order; a long episode comes in several pieces.

        Args:
            part: Some steps of the action instead of everything.
        """
        steps = self.recipe.action_steps if part is None else len(part.steps)
        at_once = max(64, PIECE_STEPS // max(1, steps))
        for ordinal, episode in enumerate(self.episodes):
            frames = self._frames(ordinal)
            for start in range(0, len(frames), at_once):
                yield episode, self.windows_of(ordinal, frames=frames[start : start + at_once], part=part)

    def _ends(self, numbers: Numbers, starts: NDArray[np.int64]) -> NDArray[np.int64] | None:
        if self.recipe.span_cutoff is None:
            return None
        return cutoff_ends(numbers.spans[self.recipe.span_cutoff], starts, total=numbers.tracks.total_frames)

    def sample(self, i: int, *, epoch: int | None = None, with_images: bool = True) -> Sample:
        """Read sample i of the index; see `samples`."""
        return self.samples([i], epoch=epoch, with_images=with_images)[0]

    def samples(
        self, indices: Sequence[int], *, epoch: int | None = None, with_images: bool = True, runs: DecodedRuns | None = None
    ) -> list[Sample]:
        """Read samples in the order asked for, decoding each distinct frame once.

        Args:
            indices: Positions in the index; repeats are allowed.
            epoch: Training epoch, from which prompts are drawn; None is evaluation, where the first active text counts.
            with_images: Whether to decode images.
            runs: Decodes whole runs and keeps them, for block order; the frames are the same.

        Raises:
            WindowError: An index outside [0, N).
            SampleError: Reading failed; the message names episode and frame.
        """
        wanted = np.asarray(indices, np.int64)
        ordinals, frames = self.index.locate(wanted)
        images = partial(self._images, runs=runs) if with_images else None
        out: dict[int, Sample] = {}
        for ordinal in dict.fromkeys(ordinals.tolist()):
            at = np.flatnonzero(ordinals == ordinal)
            made = self._read(int(ordinal), wanted[at], frames[at], epoch=epoch, images=images)
            out.update(zip(at.tolist(), made, strict=True))
        return [out[position] for position in range(len(wanted))]

    def _images(self, ordinal: int, frames: NDArray[np.int64], runs: DecodedRuns | None) -> dict[str, CameraImages]:
        episode = self.episodes[ordinal]
        numbers, reader = self._cache.numbers(episode), self._cache.reader(episode)
        if runs is None:
            return read_images(reader, numbers, recipe=self.recipe, starts=frames)
        return runs.images(reader, numbers, recipe=self.recipe, starts=frames, content=episode.content)

    def _read(
        self, ordinal: int, indices: NDArray[np.int64], frames: NDArray[np.int64], *, epoch: int | None, images: ReadImages | None
    ) -> list[Sample]:
        episode = self.episodes[ordinal]
        draws = None if epoch is None else [(self.seed, epoch, int(i)) for i in indices]
        try:
            numbers = self._cache.numbers(episode)
            found = {} if images is None else images(ordinal, frames)
            windows = self.windows_of(ordinal, frames=frames)
            return episode_samples(
                episode.episode_id, numbers, recipe=self.recipe, windows=windows, images=found, draws=draws, normalisers=self.normalisers
            )
        except Exception as error:
            if len(frames) > 1:  # find the frame that fails, for the message
                for i, frame in zip(indices, frames, strict=True):
                    self._read(ordinal, np.array([i]), np.array([frame]), epoch=epoch, images=images)
            shown = ", ".join(str(frame) for frame in frames[:5])
            raise SampleError(f"episode {episode.episode_id} frame {shown}: {error}") from error

    def evaluation_indices(self, *, per_episode: int | None = None, budget: int = AUTO_BUDGET) -> NDArray[np.int64]:
        """Pick evenly spaced samples of every episode: `per_episode` of them, or as many as the budget allows."""
        return stride_indices(self.index.offsets, per_episode or auto_per_episode(len(self.episodes), budget))

    def with_normalisers(self, normalisers: Mapping[str, Normaliser]) -> "HeadSource":
        """Return a view of the same head, index and cache that normalises."""
        view = object.__new__(HeadSource)
        view.__dict__.update(self.__dict__)
        view.normalisers = dict(normalisers)
        return view

    def close(self) -> None:
        """Close open episodes; reading again opens them."""
        self._cache.close()
