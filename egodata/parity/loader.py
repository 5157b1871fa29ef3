"""Loader level: the same global index gives the same sample, whichever format is read."""

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egodata.catalog.manifest import Manifest
from egodata.errors import CorruptEpisodeError, EpisodeNotFoundError, FeatureNotFoundError, SampleError
from egodata.findings import Finding, Severity
from egodata.formats import open_store
from egodata.parity.compare import compare_arrays
from egodata.parity.pixels import compare_frame
from egodata.parity.report import Difference, Outcome, ParityConfig, largest, merged
from egodata.progress import Progress
from egodata.sampling import HeadSource, Recipe, Sample
from egodata.schema.layout import StorePaths

_READ_AT_ONCE = 16
EPOCHS = (None, 0)
"""Evaluation, and the first training epoch: their prompts are chosen by different rules."""


def compare_head(
    paths: StorePaths,
    manifest: Manifest,
    *,
    head: str,
    recipe: Recipe,
    samples: int | None,
    config: ParityConfig,
    progress: Progress,
) -> Outcome:
    """Compare the index of one head, and some of its samples in evaluation and in training, field by field.

    Args:
        paths: The store.
        manifest: The frozen dataset.
        head: Its head.
        recipe: What a sample is.
        samples: How many; None for all.
        config: What may differ, how far, and the seed of choices.
        progress: Told per batch.
    """
    with ExitStack() as stack:
        opened: list[HeadSource] = []
        for name in ("zarr", "lance"):
            try:
                opener = partial(open_store, paths, name, versions=manifest.lance_versions)
                source = HeadSource(manifest.head(head), opener, recipe=recipe, seed=config.seed)  # no cached blocks: the stores themselves
            except (CorruptEpisodeError, EpisodeNotFoundError, FeatureNotFoundError) as error:
                return Outcome({"heads": 1}, (_unopened(manifest, head, str(error)),))
            opened.append(stack.enter_context(closing(source)))
        zarr, lance = opened
        index = _compare_index(zarr, lance, head)
        if index.findings:
            return index
        chosen = _chosen(len(zarr), samples, config.seed)
        outcomes = [index]
        for start in range(0, len(chosen), _READ_AT_ONCE):
            progress(f"parity loader {head}", start, len(chosen))
            outcomes += list(_compare_batch(zarr, lance, chosen[start : start + _READ_AT_ONCE], config=config))
        progress(f"parity loader {head}", len(chosen), len(chosen))
    return merged(outcomes)


def _unopened(manifest: Manifest, head: str, text: str) -> Finding:
    """Make a finding for a head that one format cannot open; the error's text names the episode."""
    named = [episode for episode in manifest.head(head) if re.search(rf"episode {episode.episode_id}(?![\w-])", text)]
    episode = named[0] if named else manifest.head(head)[0]
    return Finding("parity-unreadable", Severity.ERROR, episode.episode_id, f"head {head}: {text}", head, content=episode.content)


def _chosen(total: int, samples: int | None, seed: int) -> list[int]:
    if samples is None or samples >= total:
        return list(range(total))
    return sorted(np.random.default_rng(seed).choice(total, samples, replace=False).tolist())


def _compare_index(zarr: HeadSource, lance: HeadSource, head: str) -> Outcome:
    same = np.array_equal(zarr.index.offsets, lance.index.offsets) and np.array_equal(zarr.index.frames, lance.index.frames)
    counts = {"heads": 1, "index": len(zarr)}
    if same and dict(zarr.excluded) == dict(lance.excluded):
        return Outcome(counts)
    per_episode = np.diff(zarr.index.offsets) != np.diff(lance.index.offsets)
    episode = zarr.episodes[int(per_episode.argmax())]
    message = (
        f"head {head}: the index has {len(zarr)} samples on zarr, {len(lance)} on lance; first in episode {episode.episode_id}. "
        "Build the Lance copy again."
    )
    found = Finding("parity-index", Severity.ERROR, episode.episode_id, message, head, content=episode.content)
    return Outcome(counts, (found,))


def _compare_batch(zarr: HeadSource, lance: HeadSource, indices: Sequence[int], *, config: ParityConfig) -> Iterator[Outcome]:
    contents = {episode.episode_id: episode.content for episode in zarr.episodes}
    for epoch in EPOCHS:
        try:
            pairs = zip(zarr.samples(indices, epoch=epoch), lance.samples(indices, epoch=epoch), strict=True)
        except SampleError as error:
            ordinals, _ = zarr.index.locate(np.asarray(indices[:1], np.int64))
            episode = zarr.episodes[int(ordinals[0])]
            yield Outcome(findings=(Finding("parity-unreadable", Severity.ERROR, episode.episode_id, str(error), content=episode.content),))
            continue
        for number, (expected, got) in zip(indices, pairs, strict=True):
            yield compare_samples(expected, got, index=number, content=contents[expected.episode_id], config=config)


def compare_samples(expected: Sample, got: Sample, *, index: int, content: str, config: ParityConfig) -> Outcome:
    """Compare every field of two samples.

    Args:
        expected: Read from zarr.
        got: Read from Lance.
        index: Global index of both, for the message.
        content: Content digest of the episode.
        config: What may differ, how far, and the seed of choices.
    """
    findings: list[Finding] = []
    numeric: Difference | None = None
    pixel: Difference | None = None
    for name, one, other in _parts(expected, got):
        image = name.startswith("images.")
        found, unequal = _compare_part(one, other, config, image=image)
        if found is not None:
            difference = Difference(found, expected.episode_id, name, expected.frame)
            numeric, pixel = (numeric, largest([pixel, difference])) if image else (largest([numeric, difference]), pixel)
        if unequal:
            message = f"sample {index} (episode {expected.episode_id} frame {expected.frame}): {name}: {unequal}. Build the copy again."
            frames = (expected.frame, expected.frame + 1)
            findings.append(Finding("parity-sample", Severity.ERROR, expected.episode_id, message, name, frames, content=content))
    return Outcome({"samples": 1}, tuple(findings), numeric, pixel)


def _parts(expected: Sample, got: Sample) -> Iterator[tuple[str, Any, Any]]:
    """Yield name and both values of every field; fields that map cameras to arrays are taken apart."""
    for field in fields(Sample):
        one, other = getattr(expected, field.name), getattr(got, field.name)
        if not hasattr(one, "keys"):
            yield field.name, one, other
            continue
        for key in sorted({*one, *other}):
            yield f"{field.name}.{key}", one.get(key), other.get(key)


def _compare_part(expected: Any, got: Any, config: ParityConfig, *, image: bool) -> tuple[float | None, str]:
    """Return the largest difference of arrays, if any, and what is wrong, if anything."""
    if not isinstance(expected, np.ndarray) or not isinstance(got, np.ndarray):
        same = expected == got and type(expected) is type(got)
        return None, "" if same else f"{expected!r:.80} on zarr, {got!r:.80} on lance"
    if (expected.shape, expected.dtype) != (got.shape, got.dtype):
        return None, f"{expected.dtype.name} {expected.shape} on zarr, {got.dtype.name} {got.shape} on lance"
    if image:
        return _compare_images(expected, got, config)
    found = compare_arrays(expected, got, tolerance=config.numeric)
    if found is None:
        return None, ""
    return found.largest, f"differs by up to {found.largest:g} ({found.expected} on zarr, {found.got} on lance)" if found.cells else ""


def _compare_images(expected: NDArray[np.uint8], got: NDArray[np.uint8], config: ParityConfig) -> tuple[float | None, str]:
    found = [compare_frame(one, other, with_ssim=config.ssim is not None) for one, other in zip(expected, got, strict=True)]
    most = max((frame.largest for frame in found), default=0)
    return (float(most) if most else None), next((why for frame in found if (why := frame.beyond(config))), "")
