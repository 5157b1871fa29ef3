"""Partition definitions and their keys.

A recording is a partition; datasets are ``<name>--<version>``, statistics and loader parity
``<name>--<version>--<recipe>``. Keys are added sorted and never deleted, since ranges follow insertion order.
"""

from collections.abc import Iterable

import dagster as dg

from egodata.errors import InputError
from egodata.schema.ids import check_dataset_name, sorted_ids

RECORDINGS = dg.DynamicPartitionsDefinition(name="recordings")
DATASETS = dg.DynamicPartitionsDefinition(name="datasets")
DATASET_RECIPES = dg.DynamicPartitionsDefinition(name="dataset_recipes")
ADD_CHUNK = 1000


def dataset_key(name: str, version: str) -> str:
    """Return the partition key of a frozen dataset."""
    return f"{check_dataset_name(name)}--{check_dataset_name(version, 'dataset version')}"


def recipe_key(name: str, version: str, *, recipe: str) -> str:
    """Return the partition key of a dataset under a recipe."""
    return f"{dataset_key(name, version)}--{check_dataset_name(recipe, 'recipe name')}"


def split_key(key: str, parts: int) -> list[str]:
    """Split a partition key into its names.

    Raises:
        InputError: It does not have that many.
    """
    names = key.split("--")
    if len(names) != parts:
        raise InputError(f"partition {key!r}: expected {parts} names joined by '--', got {len(names)}")
    return names


def new_keys(instance: dg.DagsterInstance, definition: dg.DynamicPartitionsDefinition, *, keys: Iterable[str]) -> list[str]:
    """Return those keys that the instance does not have yet, sorted by UTF-8 bytes."""
    return sorted_ids(set(keys) - set(instance.get_dynamic_partitions(definition.name or "")))


def add_keys(instance: dg.DagsterInstance, definition: dg.DynamicPartitionsDefinition, *, keys: Iterable[str]) -> list[str]:
    """Add keys that are new, sorted, in chunks that the database takes in one go; return them."""
    fresh = new_keys(instance, definition, keys=keys)
    for start in range(0, len(fresh), ADD_CHUNK):
        instance.add_dynamic_partitions(definition.name or "", fresh[start : start + ADD_CHUNK])
    return fresh


def contiguous_ranges(
    instance: dg.DagsterInstance, definition: dg.DynamicPartitionsDefinition, *, keys: Iterable[str]
) -> list[tuple[str, str]]:
    """Cover keys by as few ranges as possible; a range follows insertion order and can be one run.

    Returns:
        Inclusive (first, last) pairs that hold exactly the given keys.
    """
    wanted = set(keys)
    ranges: list[tuple[str, str]] = []
    open_first: str | None = None
    last = ""
    for key in instance.get_dynamic_partitions(definition.name or ""):
        if key in wanted:
            open_first = open_first or key
            last = key
        elif open_first is not None:
            ranges.append((open_first, last))
            open_first = None
    if open_first is not None:
        ranges.append((open_first, last))
    return ranges
