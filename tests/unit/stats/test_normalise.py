import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays

from egodata.errors import ConfigError
from egodata.stats import FeatureStats, NormStats
from egodata.stats.fields import summarise
from egodata.stats.normalise import FLOOR, MODES, affine, mode_range, without_scale


def fields_of(*columns):
    return summarise(np.array(columns, np.float32))


def forward(normaliser, values):
    values = np.asarray(values, np.float32)
    return normaliser.forward(values, np.ones(values.shape, bool))


def test_quantile_maps_its_range_to_minus_one_and_one_without_clipping():
    fields = fields_of(np.linspace(0, 1, 101))
    normaliser = affine(fields, "quantile", kept=())
    assert forward(normaliser, [[0.01], [0.5], [0.99], [1.97]]).ravel() == pytest.approx([-1, 0, 1, 3], abs=1e-5)


def test_minmax_and_zscore():
    values = np.array([0, 2, 4, 10], np.float32)
    fields = fields_of(values)
    assert forward(affine(fields, "minmax", kept=()), values[:, None]).ravel() == pytest.approx(2 * values / (10 + 1e-6) - 1, abs=1e-6)
    scaled = forward(affine(fields, "zscore", kept=()), values[:, None]).ravel()
    assert scaled == pytest.approx((values - 4) / (values.std() + 1e-6), abs=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_a_constant_channel_gives_the_centre(mode):
    fields = fields_of([0.3] * 1000, [0.3] * 996 + [0.3 + 1e-5] * 4)
    normaliser = affine(fields, mode, kept=())
    values = np.array([[0.3, 7.0], [-5.0, np.nan]], np.float32)
    assert forward(normaliser, values)[np.isfinite(values)].tolist() == [0, 0, 0]
    assert normaliser.inverse(np.array([[0.7, -3.0]], np.float32)) == pytest.approx(np.array([[0.3, 0.3]]), abs=1e-5)


def test_constant_in_almost_every_row_has_no_quantile_range_but_a_full_one():
    fields = fields_of([0.3] * 996 + [9.0] * 4)
    assert without_scale(fields, "quantile", kept=()).tolist() == [True]
    assert without_scale(fields, "minmax", kept=()).tolist() == [False]
    assert forward(affine(fields, "quantile", kept=()), [[9.0]]).tolist() == [[0.0]]


@pytest.mark.parametrize(("span", "flat"), [(1e-3, False), (1.1e-4, False), (9e-5, True), (1e-5, True), (0.0, True)])
def test_the_floor(span, flat):
    fields = fields_of([0.0] * 500 + [span] * 500)
    assert without_scale(fields, "quantile", kept=()).tolist() == [flat]
    assert without_scale(fields, "minmax", kept=()).tolist() == [flat]


def test_a_channel_without_values_is_finite():
    fields = fields_of([np.nan, np.nan])
    for mode in MODES:
        normaliser = affine(fields, mode, kept=())
        assert forward(normaliser, [[3.0]]).tolist() == [[0.0]]
        assert normaliser.inverse(np.ones((1, 1), np.float32)).tolist() == [[0.0]]


@pytest.mark.parametrize("mode", MODES)
def test_kept_channels_stay_as_they_are(mode):
    normaliser = affine(fields_of([0.0] * 9, [5.0, 6.0, 7.0] * 3), mode, kept=(0,))
    values = np.array([[-0.25, 6.0]], np.float32)
    assert forward(normaliser, values)[0, 0] == -0.25
    assert normaliser.inverse(values)[0, 0] == -0.25
    assert not without_scale(fields_of([0.0] * 9), mode, kept=(0,)).any()


def test_what_is_not_valid_becomes_0():
    normaliser = affine(fields_of([0.0, 1.0]), "minmax", kept=())
    values = np.array([[np.nan], [0.0], [1.0]], np.float32)
    assert normaliser.forward(values, np.array([[False], [False], [True]])).ravel() == pytest.approx([0, 0, 1], abs=1e-5)


def test_per_step_statistics_apply_per_step():
    per_step = {name: column.reshape(2, 1) for name, column in fields_of([0.0, 1.0], [0.0, 10.0]).items()}
    normaliser = affine(per_step, "minmax", kept=())
    values = np.array([[[1.0], [1.0]], [[0.5], [5.0]]], np.float32)
    assert forward(normaliser, values)[..., 0] == pytest.approx(np.array([[1.0, -0.8], [0.0, 0.0]]), abs=1e-5)
    assert normaliser.inverse(forward(normaliser, values)) == pytest.approx(values, abs=1e-5)


finite = st.floats(-1e6, 1e6, width=32)


@given(
    rows=arrays.arrays(np.float32, st.tuples(st.integers(1, 40), st.just(2)), elements=finite),
    others=arrays.arrays(np.float32, (5, 2), elements=finite),
    mode=st.sampled_from(MODES),
)
def test_back_and_forth_is_the_identity_where_there_is_scale(rows, others, mode):
    fields = summarise(np.ascontiguousarray(rows.T))
    normaliser = affine(fields, mode, kept=())
    values = np.concatenate([rows, others])
    scaled = forward(normaliser, values)
    back = normaliser.inverse(scaled)
    assert np.isfinite(scaled).all() and np.isfinite(back).all()
    centre, scale = mode_range(fields, mode)
    tolerance = 1e-6 * np.maximum(np.maximum(np.abs(values), np.abs(centre)), scale)
    apart = np.where(scale >= FLOOR, np.abs(back.astype(np.float64) - values), np.abs(back - centre))
    assert (apart <= np.maximum(tolerance, 1e-7)).all()
    assert (scaled[:, scale < FLOOR] == 0).all()


@given(base=st.floats(-10, 10, width=32), span=st.floats(0, 0.01))
def test_the_range_rule_holds_for_any_small_range(base, span):
    """Below 1e-4 the centre, above it the identity; nothing in between."""
    rows = np.linspace(base, base + span, 200).astype(np.float32)
    fields = summarise(rows[None].copy())
    back = affine(fields, "quantile", kept=()).inverse(forward(affine(fields, "quantile", kept=()), rows[:, None]))[:, 0]
    if fields["q99"][0] - fields["q01"][0] < FLOOR:
        assert np.ptp(back) == 0
    else:
        assert np.abs(back.astype(np.float64) - rows).max() <= 1e-6 * max(1.0, abs(base) + span)


def test_modes_are_named():
    stats = NormStats("k", "t", "r", 1, 1, {"action": FeatureStats(("a",), (), fields_of([1.0]))})
    with pytest.raises(ConfigError, match=r"normalisation mode 'quantiles': did you mean quantile\?"):
        stats.normalisers("quantiles")
