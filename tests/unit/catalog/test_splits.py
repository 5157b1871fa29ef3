from fractions import Fraction
from hashlib import sha256

import pytest
from hypothesis import given, strategies as st

from egodata.catalog.splits import check_split_keys, group_keys, hash_v1, shuffle_v1, split_keys
from egodata.errors import ConfigError, GateError


def ids(count):
    return [f"ep{i:04d}" for i in range(count)]


def test_shuffle_golden_values():
    assert shuffle_v1(ids(20), 0.05) == ["ep0019"]
    assert shuffle_v1(ids(100), 0.05) == ["ep0042", "ep0041", "ep0091", "ep0009", "ep0065"]
    chosen = shuffle_v1(ids(1416), 0.05)
    assert len(chosen) == 70
    assert chosen[:6] == ["ep0762", "ep1233", "ep0187", "ep0238", "ep0034", "ep0032"]


def test_shuffle_counts():
    assert len(shuffle_v1(ids(100), 0.29)) == 28  # float arithmetic: 100 * 0.29 is below 29
    assert len(shuffle_v1(ids(10), 0.2)) == 2
    assert len(shuffle_v1(ids(3), 0.05)) == 1  # at least one
    assert shuffle_v1(ids(3), 0.0) == []
    assert shuffle_v1([], 0.5) == []


@given(st.permutations(ids(30)), st.floats(0, 1))
def test_listing_order_does_not_matter(listed, ratio):
    assert shuffle_v1(listed, ratio) == shuffle_v1(ids(30), ratio)
    assert hash_v1(listed, ratio) == hash_v1(ids(30), ratio)


@given(st.sets(st.text(max_size=8)), st.sets(st.text(max_size=8)), st.floats(0, 1), st.integers())
def test_hash_never_moves_a_key(keys, others, ratio, seed):
    assert set(hash_v1(keys | others, ratio, seed=seed)) & keys == set(hash_v1(keys, ratio, seed=seed))


def test_hash_is_the_documented_comparison():
    keys = ids(2000)
    u = {key: Fraction(int.from_bytes(sha256(f"42:{key}".encode()).digest()[:8], "big"), 2**64) for key in keys}
    assert hash_v1(keys, 0.05) == [key for key in keys if u[key] < Fraction(1, 20)]
    assert 60 < len(hash_v1(keys, 0.05)) < 140
    assert hash_v1(keys, 0.0) == [] and hash_v1(keys, 1.0) == keys


def test_key_of_one_aliased_clip_is_its_episode_id(row):
    alone = row("clip7", recording_id="tape", aliased=True)
    assert split_keys([alone]) == {"clip7": "clip7"}
    unaliased = row("tape-c0-9", recording_id="tape")
    assert split_keys([unaliased]) == {"tape-c0-9": "tape"}
    several = [row("x", recording_id="tape", aliased=True), row("tape-c9-20", recording_id="tape", clip_index=1)]
    assert split_keys(several) == {"x": "tape", "tape-c9-20": "tape"}


def test_two_recordings_with_one_key_are_refused(row):
    rows = [row("taken", recording_id="other", aliased=True), row("taken-c0-5", recording_id="taken")]
    with pytest.raises(GateError, match=r"split key taken: shared by recordings other \(mecka\) and taken \(mecka\)"):
        check_split_keys(rows, split_keys(rows))
    same_name = [row("a", recording_id="r"), row("b", recording_id="r", vendor="scale")]
    with pytest.raises(GateError, match=r"recordings r \(mecka\) and r \(scale\)"):
        check_split_keys(same_name, split_keys(same_name))


def test_grouping(row):
    rows = [row("a", session="s1"), row("b", session="s1", operator="mecka/b")]
    keys = split_keys(rows)
    assert group_keys(rows, keys, group_by="session") == {"a": "s1", "b": "s1"}
    assert group_keys(rows, keys, group_by="operator") == {"a": "mecka/a", "b": "mecka/b"}
    with pytest.raises(GateError, match=r"group_by session: 1 episodes have no session \(c\)"):
        group_keys([row("c")], {"c": "c"}, group_by="session")
    alone = group_keys([*rows, row("c"), row("d", recording_id="c")], {**keys, "c": "c", "d": "c"}, group_by="session", allow_null=True)
    assert alone == {"a": "s1", "b": "s1", "c": "c", "d": "c"}
    with pytest.raises(GateError, match="s1 is the key of a recording and the name of a session"):
        group_keys([*rows, row("s1")], {**keys, "s1": "s1"}, group_by="session", allow_null=True)
    with pytest.raises(ConfigError, match="expected recording, session or operator"):
        group_keys(rows, keys, group_by="room")
