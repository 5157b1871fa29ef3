"""Properties of canonical JSON and digests; their exact values are pinned by the golden set."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from egodata.errors import SchemaError
from egodata.schema.canonical import canonical_json, jsonable
from egodata.schema.digests import array_digest, combined_digest, elements_digest


def test_large_integers_are_text_and_what_is_no_number_is_null():
    value = {"ns": 2**53, "safe": 2**53 - 1, "nan": float("nan"), "numpy": np.float32(0.5), "tuple": (1, True, None)}
    assert canonical_json(value) == b'{"nan":null,"ns":"9007199254740992","numpy":0.5,"safe":9007199254740991,"tuple":[1,true,null]}'


@pytest.mark.parametrize("value", [{1: "a"}, b"bytes", np.zeros(2), {"a": object()}])
def test_what_has_no_json_form_is_refused(value):
    with pytest.raises(SchemaError, match="canonical JSON"):
        jsonable(value)


@settings(max_examples=50, deadline=None)
@given(arrays(np.float32, array_shapes(min_dims=1, max_dims=3, max_side=6)))
def test_a_digest_sees_values_and_not_their_encoding(values):
    digest = array_digest("k", values)
    assert digest == array_digest("k", np.asfortranarray(values).astype(">f4"))
    assert digest == array_digest("k", np.where(values == 0, np.float32(-0.0), values))
    changed = values.copy()
    changed.flat[0] = np.nan if np.isfinite(changed.flat[0]) else 1
    assert digest != array_digest("k", changed)


def test_a_digest_sees_key_dtype_and_shape():
    zeros = np.zeros((2, 3), np.float32)
    others = [("b", zeros), ("a", zeros.astype(np.float64)), ("a", zeros.reshape(3, 2)), ("a", zeros.view(np.int32)), ("a", zeros[:1])]
    found = {array_digest("a", zeros), *(array_digest(key, array) for key, array in others)}
    assert len(found) == 6


@settings(max_examples=50, deadline=None)
@given(st.lists(st.binary(max_size=8), max_size=5), st.lists(st.binary(max_size=8), max_size=5))
def test_elements_cannot_be_cut_elsewhere(first, second):
    same = elements_digest("k", first, count=len(first)) == elements_digest("k", second, count=len(second))
    assert same == (first == second)


def test_a_set_of_digests_has_no_order():
    assert combined_digest({"b": "1", "a": "2"}) == combined_digest({"a": "2", "b": "1"})
    assert combined_digest({"a": "1", "b": "2"}) != combined_digest({"a": "2", "b": "1"})
