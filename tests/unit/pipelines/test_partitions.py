"""Partition keys: safe, in order, as few ranges as possible."""

import dagster as dg
import pytest
from hypothesis import given, strategies as st

from egodata.errors import InputError, SchemaError
from pipelines.partitions import RECORDINGS, add_keys, contiguous_ranges, dataset_key, new_keys, recipe_key, split_key

NAMES = st.from_regex(r"[A-Za-z0-9_](-?[A-Za-z0-9_.]){0,10}", fullmatch=True)


@given(NAMES, NAMES, NAMES)
def test_keys_split_into_what_they_were_made_of(name: str, version: str, recipe: str) -> None:
    assert split_key(dataset_key(name, version), 2) == [name, version]
    assert split_key(recipe_key(name, version, recipe=recipe), 3) == [name, version, recipe]


@pytest.mark.parametrize("pair", [("a--b", "c"), ("a", "b--c"), ("a/b", "c"), ("", "c"), ("a-", "v1"), ("a", "-v1")])
def test_names_that_could_make_equal_keys_are_refused(pair: tuple[str, str]) -> None:
    with pytest.raises(SchemaError):
        dataset_key(*pair)


def test_a_key_of_another_form_is_refused() -> None:
    with pytest.raises(InputError, match="expected 2 names"):
        split_key("synthetic", 2)


def test_keys_are_added_once_sorted_by_bytes() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        assert add_keys(instance, RECORDINGS, keys=["b", "B", "a"]) == ["B", "a", "b"]
        assert add_keys(instance, RECORDINGS, keys=["a", "c"]) == ["c"]
        assert list(instance.get_dynamic_partitions("recordings")) == ["B", "a", "b", "c"]
        assert new_keys(instance, RECORDINGS, keys=["a", "d"]) == ["d"]


def test_more_keys_than_one_chunk() -> None:
    keys = [f"{number:05d}" for number in range(2500)]
    with dg.DagsterInstance.ephemeral() as instance:
        assert add_keys(instance, RECORDINGS, keys=keys) == keys
        assert instance.get_dynamic_partitions("recordings") == keys


def test_ranges_hold_exactly_the_keys_in_insertion_order() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        add_keys(instance, RECORDINGS, keys=["a", "c", "e"])
        add_keys(instance, RECORDINGS, keys=["b", "d"])  # delivered later: a c e b d
        assert contiguous_ranges(instance, RECORDINGS, keys=["a", "c", "b"]) == [("a", "c"), ("b", "b")]
        assert contiguous_ranges(instance, RECORDINGS, keys=["e", "b", "d"]) == [("e", "d")]
        assert contiguous_ranges(instance, RECORDINGS, keys=[]) == []
