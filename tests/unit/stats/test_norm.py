import copy
import json
import re

import numpy as np
import pytest

from egodata.errors import InputError
from egodata.stats import NormStats, feature_stats
from egodata.stats.fields import FIELDS


@pytest.fixture
def stats(given):
    actions = np.random.default_rng(3).normal(size=(60, 4, 3))
    actions[:, 0] = 0.5
    actions[:, 1, 2] = 0.5
    return NormStats("k" * 64, "t" * 64, "r" * 64, 1, 60, feature_stats(given(actions)))


def test_a_file_reads_back_bit_for_bit(stats):
    again = NormStats.from_json(json.loads(stats.to_bytes()))
    assert again.to_bytes() == stats.to_bytes()
    for feature in ("action", "proprio"):
        for name in FIELDS:
            assert again.features[feature].fields[name].tobytes() == stats.features[feature].fields[name].tobytes()
    values = np.random.default_rng(0).normal(size=(5, 4, 3)).astype(np.float32)
    ones = np.ones(values.shape, bool)
    before, after = stats.normalisers()["action"].forward(values, ones), again.normalisers()["action"].forward(values, ones)
    assert before.tobytes() == after.tobytes()


def test_cells_without_values_survive_the_file(given):
    source = given(np.zeros((5, 4, 2)))
    source.parts[0].action_mask[:, 1, 0] = False
    stats = NormStats("k", "t", "r", 1, 5, feature_stats(source))
    value = stats.to_json()
    assert value["features"]["action"]["mean"][1][0] is None
    assert value["features"]["action"]["count"][1][0] == 0
    assert np.isnan(NormStats.from_json(value).features["action"].fields["mean"][1, 0])


def test_the_form_is_plain_types(stats):
    def check(value):
        assert type(value) in (dict, list, str, int, float, type(None))
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            check(item)

    check(stats.to_json())


def test_channels_without_scale_are_named(stats):
    shown = [str(flat) for flat in stats.flat_channels()]
    assert shown == ["action c0 steps 0", "action c1 steps 0", "action c2 steps 0-1"]
    assert [str(flat) for flat in stats.flat_channels("zscore")] == shown


@pytest.mark.parametrize("field", [*FIELDS, "names", "kept"])
def test_a_missing_field_is_named(stats, field):
    value = copy.deepcopy(stats.to_json())
    del value["features"]["action"][field]
    with pytest.raises(InputError, match=rf"statistics: field action\.{field} is missing\. Compute it again"):
        NormStats.from_json(value)


@pytest.mark.parametrize("field", ["key", "train_digest", "windows", "features", "digest"])
def test_a_missing_top_field_is_named(stats, field):
    value = stats.to_json()
    del value[field]
    with pytest.raises(InputError, match=f"run7: field {field} is missing"):
        NormStats.from_json(value, where="run7")


def test_another_schema_or_changed_content_is_refused(stats):
    with pytest.raises(InputError, match="expected statistics schema 1, got 9"):
        NormStats.from_json({**stats.to_json(), "schema": 9})
    with pytest.raises(InputError, match="expected statistics schema 1, got 'list'"):
        NormStats.from_json([])
    changed = copy.deepcopy(stats.to_json())
    changed["features"]["action"]["mean"][2][1] += 1e-9
    with pytest.raises(InputError, match="changed since it was written"):
        NormStats.from_json(changed)
    changed["features"]["action"]["q01"] = [1.0]
    with pytest.raises(InputError, match=re.escape("field action.q01 has shape (1,), expected 3 channels")):
        NormStats.from_json(changed)
