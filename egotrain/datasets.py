"""The datasets of a run: one, or several of one or of several bodies, which must not train on what another holds out."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from egodata.catalog import Manifest, check_together, load_dataset
from egodata.catalog.leases import lease
from egodata.errors import ConfigError
from egodata.sampling import Recipe, load_recipe
from egodata.schema.layout import StorePaths
from egodata.stats import pooled_train_digest
from egotrain.conf import FitConfig

TRAIN = "train"
SIZES = ("action_steps", "proprio_history", "image_history")


@dataclass(frozen=True, slots=True)
class RunDataset:
    """A dataset and how it is read.

    Attributes:
        manifest: The frozen dataset.
        recipe: What a sample is.
        weight: How often it is read, relative to the others.
    """

    manifest: Manifest
    recipe: Recipe
    weight: float = 1.0

    @property
    def reference(self) -> dict[str, str]:
        """Name and digest."""
        return {"dataset": self.manifest.ref, "digest": self.manifest.digest}


def load_datasets(paths: StorePaths, config: FitConfig) -> tuple[RunDataset, ...]:
    """Load the datasets of a run; the first one is `config.dataset`.

    Raises:
        NotFoundError: No such dataset or recipe.
        GateError: A dataset was changed since it was frozen, or trains on what another one holds out.
        ConfigError: Recipes that do not go together in one policy.
    """
    named = [(config.dataset, config.recipe, 1.0), *((one.dataset, one.recipe, one.weight) for one in config.co_train)]
    found = tuple(
        RunDataset(load_dataset(paths, dataset, format=config.format), load_recipe(recipe), weight) for dataset, recipe, weight in named
    )
    check_together([one.manifest for one in found])
    _check_recipes(found)
    return found


def _check_recipes(datasets: Sequence[RunDataset]) -> None:
    first = datasets[0]
    recipe_of: dict[str, RunDataset] = {}
    for one in datasets:
        for name in SIZES:
            mine, theirs = getattr(one.recipe, name), getattr(first.recipe, name)
            if mine != theirs:
                raise ConfigError(
                    f"recipe {one.recipe.name} of {one.manifest.ref}: {name} is {mine}, recipe {first.recipe.name} of {first.manifest.ref} "
                    f"has {theirs}. One policy needs equal ones; choose another recipe."
                )
        for body in one.recipe.embodiments:
            other = recipe_of.setdefault(body, one)
            if other.recipe.digest != one.recipe.digest:
                raise ConfigError(
                    f"embodiment {body}: recipe {other.recipe.name} for {other.manifest.ref} and {one.recipe.name} for {one.manifest.ref}. "
                    "A policy has one kind of action per embodiment; use one recipe for both."
                )


def train_digests(datasets: Sequence[RunDataset]) -> tuple[str, ...]:
    """Return for each dataset the digest of the training heads that its statistics are of."""
    found = {recipe.digest: pooled_train_digest(manifests) for recipe, manifests in by_recipe(datasets).values()}
    return tuple(found[one.recipe.digest] for one in datasets)


def by_recipe(datasets: Sequence[RunDataset]) -> dict[str, tuple[Recipe, list[Manifest]]]:
    """Return recipes by digest, each with its datasets."""
    groups: dict[str, tuple[Recipe, list[Manifest]]] = {}
    for one in datasets:
        groups.setdefault(one.recipe.digest, (one.recipe, []))[1].append(one.manifest)
    return groups


def scored_heads(heads: Sequence[str], datasets: Sequence[RunDataset]) -> dict[str, tuple[RunDataset | None, str]]:
    """Return which heads are scored: by the name they go by, the run's dataset (None: another one) and the name of the head there.

    A bare name is that head of every dataset of the run; heads that a dataset does not have are left out.

    Args:
        heads: As in a config.
        datasets: Of the run.
    """
    found = _named_heads(heads, datasets)
    return {name: (one, head) for name, (one, head) in found.items() if one is None or head in one.manifest.heads}


def _named_heads(heads: Sequence[str], datasets: Sequence[RunDataset]) -> dict[str, tuple[RunDataset | None, str]]:
    """Return all heads that a config asks for as `scored_heads` does, also those that a dataset does not have."""
    out: dict[str, tuple[RunDataset | None, str]] = {}
    by_ref = {one.manifest.ref: one for one in datasets}
    for head in heads:
        ref, colon, name = head.rpartition(":")
        if colon:
            out[head] = (by_ref.get(ref), name)
        else:
            out.update({head_name(one, head, datasets=datasets): (one, head) for one in datasets})
    return out


def head_name(one: RunDataset, head: str, *, datasets: Sequence[RunDataset]) -> str:
    """Return the name that a head goes by in scores: its own if it is of the first dataset, else ``NAME@VERSION:HEAD``."""
    return head if one is datasets[0] else f"{one.manifest.ref}:{head}"


def missing_heads(heads: Sequence[str], datasets: Sequence[RunDataset], *, scored: Iterable[str]) -> list[str]:
    """Return the heads of a config that are not scored since a dataset does not have them, by the names they would go by."""
    return sorted(_named_heads(heads, datasets).keys() - set(scored))


@contextmanager
def leases(paths: StorePaths, datasets: Sequence[RunDataset]) -> Iterator[None]:
    """Hold a lease on every dataset."""
    with ExitStack() as stack:
        for one in datasets:
            stack.enter_context(lease(paths, one.manifest))
        yield
