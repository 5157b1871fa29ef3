"""Predictions for an episode of a store from a checkpoint alone: no dataset, no statistics file, no run folder."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.catalog.manifest import HeadEpisode
from egodata.errors import InputError, NotFoundError
from egodata.formats import open_store
from egodata.names import nearest
from egodata.progress import Progress, silent
from egodata.sampling import HeadSource, Recipe
from egodata.schema.features import resolve_embodiment
from egodata.schema.layout import StorePaths, open_root, write_atomic
from egotrain.checkpoint import LAST, Carried, find_checkpoint, load_checkpoint
from egotrain.data import check_dims, policy_dims
from egotrain.evaluate import restored
from egotrain.metrics import chunk_metrics
from egotrain.numerics import fixed_numerics
from egotrain.runs import CONFIG, open_run
from egotrain.videos import Predicted, predict_clip, write_video

BATCH = 32


@dataclass(frozen=True, slots=True)
class EpisodePrediction:
    """What a policy says about one episode.

    Attributes:
        episode_id: The episode.
        step: Of the checkpoint.
        left_out: Frames asked for at which no hand is valid, so that nothing is predicted.
        found: Samples and un-normalised actions.
        names: Of the action's channels.
        scores: Against what was recorded after each frame; NaN where nothing was.
    """

    episode_id: str
    step: int
    left_out: int
    found: Predicted
    names: tuple[str, ...]
    scores: dict[str, float]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what is written: frames (n,), actions (n, S, D), the recorded ones with their mask, and reference poses (n, A, 7)."""
        samples = self.found.samples
        return {
            "frames": np.array([sample.frame for sample in samples], np.int64),
            "actions": self.found.actions,
            "recorded": np.stack([sample.action for sample in samples]),
            "recorded_mask": np.stack([sample.action_mask for sample in samples]),
            "reference": np.stack([sample.reference for sample in samples]),
            "names": np.array(self.names),
        }


def locate(run: Path, checkpoint: str = LAST) -> Path:
    """Return the checkpoint file that a path stands for: a file, or a run's folder and a name in it.

    Raises:
        NotFoundError: Neither.
    """
    if run.is_file():
        return run
    if (run / CONFIG).is_file():
        return find_checkpoint(run / "checkpoints", checkpoint)
    if run.suffix == ".ckpt":
        raise NotFoundError(f"checkpoint {run}: no such file; {nearest(run.name, [path.name for path in run.parent.glob('*.ckpt')])}")
    return find_checkpoint(open_run(run) / "checkpoints", checkpoint)


def predict(
    checkpoint: Path,
    episode_id: str,
    *,
    store: Path,
    format: str = "zarr",
    frames: Sequence[int] | None = None,
    video: Path | None = None,
    progress: Progress = silent,
) -> EpisodePrediction:
    """Predict at frames of an episode, which need not be in any dataset.

    Args:
        checkpoint: The file.
        episode_id: In the store.
        store: Its root.
        format: Copy to read.
        frames: Which; None for every usable one.
        video: Where an overlay video of the whole episode goes, if anywhere.
        progress: Told how far the video has come.

    Raises:
        EpisodeNotFoundError: The store has no such episode.
        RecipeError: The checkpoint's recipe does not fit the episode.
        ConfigError: The episode's sizes are not those of the policy.
        InputError: None of the frames can be predicted at.
    """
    carried = load_checkpoint(checkpoint)
    config = carried.config
    with _source(open_root(store), episode_id, carried=carried, format=format) as source:
        part = carried.part_for(source.recipe.embodiments[0])
        check_dims(carried.dims, policy_dims([source], config.data), what=f"checkpoint of step {carried.step} on episode {episode_id}")
        wanted = _indices(source, None if video is not None else frames, episode_id)
        with fixed_numerics(config.trainer.threads):
            module = restored(carried, config=config)
            found = predict_clip(module, source, indices=wanted, stats=part.stats, batch_size=BATCH)
        if video is not None:
            write_video(source.reader(0), video, recipe=part.recipe, predicted=found, progress=progress)
        chosen = _chosen(found, frames)
        return EpisodePrediction(
            episode_id,
            carried.step,
            left_out=(source.episodes[0].frames if frames is None else len(frames)) - len(chosen.samples),
            found=chosen,
            names=source.layout.action_names,
            scores=_scores(chosen, part.recipe),
        )


def write_predictions(path: Path, prediction: EpisodePrediction) -> None:
    """Write the arrays as one compressed ``.npz`` file, whole or not at all.

    Raises:
        InputError: The path has another suffix.
    """
    from io import BytesIO

    if path.suffix != ".npz":
        raise InputError(f"{path}: expected a name ending in .npz. Choose one.")
    buffer = BytesIO()
    np.savez_compressed(buffer, **prediction.arrays())  # type: ignore[arg-type]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, buffer.getvalue())


@contextmanager
def _source(paths: StorePaths, episode_id: str, *, carried: Carried, format: str) -> Iterator[HeadSource]:
    opener = partial(open_store, paths, format)
    reader = opener().open(episode_id)
    episode = HeadEpisode(episode_id, reader.meta.total_frames, reader.digests.content, operator=reader.meta.operator)
    part = carried.part_for(resolve_embodiment(reader.meta.embodiment)[0])
    reader.close()
    normalisers = part.stats.normalisers(carried.config.data.normalisation)
    source = HeadSource([episode], opener, recipe=part.recipe, normalisers=normalisers, seed=carried.config.seed)
    try:
        yield source
    finally:
        source.close()


def _indices(source: HeadSource, frames: Sequence[int] | None, episode_id: str) -> NDArray[np.int64]:
    total = source.episodes[0].frames
    outside = [frame for frame in frames or () if not 0 <= frame < total]
    if outside:
        raise InputError(f"episode {episode_id}: frame {outside[0]} is outside [0, {total})")
    usable = source.index.frames.astype(np.int64)
    wanted = np.arange(len(usable)) if frames is None else np.flatnonzero(np.isin(usable, np.array(frames)))
    if not len(wanted):
        raise InputError(f"episode {episode_id}: no hand is valid at any of the frames asked for. Choose others.")
    return wanted.astype(np.int64)


def _chosen(found: Predicted, frames: Sequence[int] | None) -> Predicted:
    if frames is None:
        return found
    kept = [at for at, sample in enumerate(found.samples) if sample.frame in set(frames)]
    return Predicted([found.samples[at] for at in kept], found.actions[kept])


def _scores(found: Predicted, recipe: Recipe) -> dict[str, float]:
    samples = found.samples
    truth, mask, reference = (np.stack([getattr(sample, name) for sample in samples]) for name in ("action", "action_mask", "reference"))
    return chunk_metrics(found.actions, truth, mask=mask, recipe=recipe, reference=reference)
