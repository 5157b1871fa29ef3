"""Checkpoints: written whole or not at all, tensors and plain types only, with all that a prediction needs."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from egodata.config import typed
from egodata.errors import ConfigError, InputError, NotFoundError
from egodata.names import nearest
from egodata.sampling import Recipe
from egodata.stats import NormStats
from egotrain.conf import FitConfig, plain
from egotrain.datasets import RunDataset, train_digests
from egotrain.policies.dims import PolicyDims

CHECKPOINT_SCHEMA = 3
READABLE = (1, 2, 3)
"""Schema 1 knew neither several ranks nor the code revision, 2 only one dataset; they are read with what they lack taken as it was then."""
LAST = "last.ckpt"
_STEP = re.compile(r"step-(\d+)\.ckpt")
_PREFIX = "policy."


@dataclass(frozen=True, slots=True)
class CarriedPart:
    """One dataset that a checkpoint was trained on.

    Attributes:
        recipe: What a sample is.
        stats: Statistics that it was trained with; they win over any file.
        dataset: Reference and digest.
    """

    recipe: Recipe
    stats: NormStats
    dataset: Mapping[str, str]

    @classmethod
    def from_json(cls, values: Mapping[str, Any], *, where: str) -> "CarriedPart":
        """Read plain types."""
        return cls(typed(Recipe, values["recipe"], where=where), NormStats.from_json(values["stats"], where=where), values["dataset"])

    def to_json(self) -> dict[str, Any]:
        """Return plain types."""
        return {"recipe": plain(self.recipe.to_json()), "stats": self.stats.to_json(), "dataset": dict(self.dataset)}


@dataclass(frozen=True, slots=True)
class Carried:
    """What a checkpoint knows besides weights and optimiser state.

    Attributes:
        step: Optimiser steps done.
        config: Of the run.
        dims: Sizes that the policy was built for.
        parts: Datasets that it was trained on; the first names the run.
        weights: State of the policy; averaged weights where the run had them.
        revision: Of the code that wrote it; empty where unknown.
    """

    step: int
    config: FitConfig
    dims: PolicyDims
    parts: tuple[CarriedPart, ...]
    weights: Mapping[str, Tensor]
    revision: str = ""

    @property
    def first(self) -> CarriedPart:
        """The dataset that the run is named for."""
        return self.parts[0]

    def part_for(self, embodiment: str) -> CarriedPart:
        """Return the recipe and statistics for samples of an embodiment; the only ones there are where there is one dataset.

        Raises:
            ConfigError: The policy was trained on several datasets, none of that body.
        """
        for part in self.parts:
            if len(self.parts) == 1 or embodiment in part.recipe.embodiments:
                return part
        known = list(dict.fromkeys(name for part in self.parts for name in part.recipe.embodiments))
        raise ConfigError(f"checkpoint of step {self.step}: not trained on embodiment {embodiment!r}; {nearest(embodiment, known)}")


def carried_values(config: Mapping[str, Any], *, dims: PolicyDims, parts: Sequence[CarriedPart], revision: str = "") -> dict[str, Any]:
    """Return what the trainer puts into every checkpoint, as plain types."""
    return {
        "schema": CHECKPOINT_SCHEMA,
        "config": plain(config),
        "dims": plain(dims.to_json()),
        **parts[0].to_json(),
        "co_train": [part.to_json() for part in parts[1:]],
        "revision": revision,
    }


def step_path(folder: Path, step: int) -> Path:
    """Return the path of the checkpoint of a step."""
    return folder / f"step-{step:08d}.ckpt"


def publish(written: Path, path: Path) -> None:
    """Move a finished checkpoint into place and let ``last.ckpt`` beside it, a relative link, name it.

    Readers see the old checkpoint or the new one: the link is replaced, never removed.
    """
    with written.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(written, path)
    link = path.with_name(f".{LAST}.{os.getpid()}.tmp")
    link.unlink(missing_ok=True)
    link.symlink_to(path.name)
    os.replace(link, path.with_name(LAST))


def find_checkpoint(folder: Path, name: str = LAST) -> Path:
    """Return the file that a checkpoint name stands for.

    Raises:
        NotFoundError: It is not there, or the link leads nowhere; the newest checkpoint is named.
    """
    path = folder / name
    if path.is_file():
        return path.resolve()
    known = checkpoints(folder)
    if path.is_symlink() or name == LAST:
        hint = f"the newest is {known[-1].name}: ask for it with checkpoint={known[-1].name}" if known else "there is no checkpoint"
        raise NotFoundError(f"checkpoint {path}: {'the link leads nowhere' if path.is_symlink() else 'no such file'}; {hint}")
    raise NotFoundError(f"checkpoint {path}: no such file; {nearest(name, [found.name for found in known])}")


def checkpoints(folder: Path) -> list[Path]:
    """Return complete checkpoints by step, the newest last."""
    return sorted((path for path in folder.glob("step-*.ckpt") if _STEP.fullmatch(path.name)), key=lambda path: path.name)


def load_checkpoint(path: Path) -> Carried:
    """Read what a checkpoint carries; nothing in it is executed.

    Raises:
        InputError: Not one of ours, damaged, or of a newer schema.
    """
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
        schema, values = found["egotrain"]["schema"], found["egotrain"]
    except (OSError, RuntimeError, KeyError, TypeError, ValueError, EOFError, UnpicklingError) as error:
        raise InputError(f"checkpoint {path.name}: cannot be read ({type(error).__name__}: {str(error)[:120]}). Choose another.") from error
    if schema not in READABLE:
        raise InputError(f"checkpoint {path.name}: schema {schema}, this egotrain reads up to {CHECKPOINT_SCHEMA}. Use its writer.")
    revision, where = str(values.get("revision", "")), f"checkpoint {path.name}"
    try:
        return Carried(
            step=int(found["global_step"]),
            config=typed(FitConfig, values["config"], where=where),
            dims=PolicyDims.from_json(values["dims"]),
            parts=tuple(CarriedPart.from_json(part, where=where) for part in (values, *values.get("co_train", ()))),
            weights={**{name.removeprefix(_PREFIX): tensor for name, tensor in found["state_dict"].items()}, **found.get("ema", {})},
            revision=revision,
        )
    except (ConfigError, KeyError, TypeError) as error:
        by = f"revision {revision[:12]}" if revision else "an older revision"
        why = f"schema {schema}, written by {by}, says what this egotrain no longer knows ({error})"
        raise InputError(f"checkpoint {path.name}: {why}. Use that revision.") from error


def prune(folder: Path, *, keep: int) -> None:
    """Remove all but the newest checkpoints; 0 keeps all."""
    for path in checkpoints(folder)[: -keep or None] if keep else []:
        path.unlink()


def newest_checkpoint(folder: Path, *, say: Callable[[str], None]) -> Path | None:
    """Return the checkpoint to go on from: what ``last.ckpt`` names, else the newest complete one, which is said; None without any."""
    known = checkpoints(folder)
    if not known:
        return None
    if (folder / LAST).is_file():
        return find_checkpoint(folder)
    link = folder / f".{LAST}.{os.getpid()}.tmp"
    link.symlink_to(known[-1].name)
    os.replace(link, folder / LAST)
    say(f"{folder}: {LAST} leads nowhere; taking the newest complete checkpoint, {known[-1].name}")
    return known[-1]


def check_carried(carried: Carried, datasets: Sequence[RunDataset]) -> None:
    """Refuse to put a checkpoint and datasets together that do not belong to each other.

    Raises:
        ConfigError: The checkpoint was trained on other datasets, under other recipes, or its statistics are of other training heads.
    """
    what = f"checkpoint of step {carried.step}"
    if len(carried.parts) != len(datasets):
        raise ConfigError(f"{what}: trained on {len(carried.parts)} datasets, got {len(datasets)}. Use those it was trained on.")
    for part, one, digest in zip(carried.parts, datasets, train_digests(datasets), strict=True):
        before, manifest = part.dataset["digest"], one.manifest
        if before != manifest.digest:
            name = part.dataset["dataset"]
            raise ConfigError(f"{what}: trained on {name} ({before[:16]}), got {manifest.ref} ({manifest.digest[:16]}). Use that dataset.")
        if part.recipe.digest != one.recipe.digest:
            raise ConfigError(f"{what}: recipe {one.recipe.name} has other values than when it was trained. Restore it, or train anew.")
        if part.stats.train_digest != digest:
            raise ConfigError(f"{what}: its statistics are of another training head than {manifest.ref}'s. Train again.")


def load_weights(policy: torch.nn.Module, carried: Carried) -> None:
    """Put a checkpoint's weights into a policy.

    Raises:
        ConfigError: The policy's code has other parameters than the checkpoint.
    """
    wanted = policy.state_dict()
    wrong = [f"{name} is not in it" for name in wanted if name not in carried.weights]
    wrong += [f"{name} is not in the policy" for name in carried.weights if name not in wanted]
    wrong += [
        f"{name} is {tuple(tensor.shape)} in it and {tuple(wanted[name].shape)} in the policy"
        for name, tensor in carried.weights.items()
        if name in wanted and tensor.shape != wanted[name].shape
    ]
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise ConfigError(f"checkpoint of step {carried.step}: written by another policy: {'; '.join(wrong[:3])}{more}. Train again.")
    policy.load_state_dict(dict(carried.weights))
