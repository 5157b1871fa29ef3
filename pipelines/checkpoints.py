"""What a checkpoint says about its own making; its weights are not loaded."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from egodata.errors import InputError, NotFoundError

LAST = "last.ckpt"


@dataclass(frozen=True, slots=True)
class CarriedDataset:
    """One dataset that a checkpoint was trained on.

    Attributes:
        ref: ``name@version``.
        digest: Its digest.
        stats_key: Key of the norm statistics that its samples were normalised with.
        recipe: Of its samples.
    """

    ref: str
    digest: str
    stats_key: str
    recipe: Mapping[str, Any]

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "CarriedDataset":
        """Read plain types."""
        dataset = values["dataset"]
        return cls(str(dataset["dataset"]), str(dataset["digest"]), str(values["stats"]["key"]), dict(values["recipe"]))


@dataclass(frozen=True, slots=True)
class Carried:
    """What lineage needs of a checkpoint.

    Attributes:
        step: Optimiser step.
        datasets: What it was trained on; the first names the run.
        config: Of the training, as plain values.
    """

    step: int
    datasets: tuple[CarriedDataset, ...]
    config: Mapping[str, Any]


def checkpoint_file(path: Path) -> Path:
    """Return the checkpoint that a path means: the file, or the newest one of a run folder.

    Raises:
        NotFoundError: There is none.
    """
    if path.is_file():
        return path
    for candidate in (path / "checkpoints" / LAST, path / LAST):
        if candidate.is_file():
            return candidate
    raise NotFoundError(f"checkpoint {path}: no such file, and no run folder with {LAST}")


def run_folder_of(path: Path) -> Path | None:
    """Return the run folder that holds a checkpoint, or None where it was copied away."""
    folder = checkpoint_file(path).resolve().parent.parent
    return folder if (folder / "dataset.json").is_file() else None


def read_checkpoint(path: Path) -> Carried:
    """Read what a checkpoint carries; nothing in it is executed.

    Raises:
        NotFoundError: There is none.
        InputError: Not one of egotrain's, or damaged.
    """
    import torch  # slow to load, and only this command needs it

    file = checkpoint_file(path)
    try:
        found = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
        values = found["egotrain"]
        return Carried(
            step=int(found["global_step"]),
            datasets=tuple(CarriedDataset.from_json(part) for part in (values, *values.get("co_train", ()))),
            config=dict(values["config"]),
        )
    except (OSError, RuntimeError, KeyError, TypeError, ValueError, EOFError, UnpicklingError) as error:
        raise InputError(f"checkpoint {file.name}: cannot be read ({type(error).__name__}: {str(error)[:120]}). Choose another.") from error
