"""Deliveries that are still arriving wait; the cursor is small and may be lost."""

import json

import pytest

from egodata.errors import InputError
from pipelines.deliveries import Delivery
from pipelines.units import Unit
from pipelines.uploads import LONGEST_REST_S, SETTLE_VARIABLE, rest_left_s, rested, settle_s, settled

MONDAY, TUESDAY = Delivery("mecka", "/monday"), Delivery("mecka", "/tuesday")


def unit(key: str, version: str, delivery: Delivery = MONDAY) -> Unit:
    return Unit(key, delivery, (key,), version)


def keys(found) -> list[str]:
    return [one.key for one in found.ready]


def test_a_delivery_counts_once_it_stayed_the_same_for_long_enough() -> None:
    half, whole = [unit("a", "1")], [unit("a", "1"), unit("b", "1")]
    first = settled(None, half, now_s=100, wait_s=30, limit=500)
    assert (keys(first), first.waiting) == ([], (MONDAY,))
    grown = settled(first.cursor, whole, now_s=131, wait_s=30, limit=500)
    assert keys(grown) == []  # it grew, so it waits again, although the first recording stayed as it was
    soon = settled(grown.cursor, whole, now_s=160, wait_s=30, limit=500)
    assert keys(soon) == []
    done = settled(soon.cursor, whole, now_s=161, wait_s=30, limit=500)
    assert keys(done) == ["a", "b"]
    assert json.loads(done.cursor) == {}


def test_one_delivery_that_arrives_does_not_hold_up_another() -> None:
    both = [unit("a", "1"), unit("x", "1", TUESDAY)]
    first = settled(None, both, now_s=0, wait_s=0, limit=500)
    second = settled(first.cursor, [unit("a", "1"), unit("x", "2", TUESDAY)], now_s=1, wait_s=0, limit=500)
    assert keys(second) == ["a"]
    assert second.waiting == (TUESDAY,)


def test_more_news_than_fit_follow_without_waiting_again_and_nothing_is_lost() -> None:
    news = [unit(f"{number:04d}", "1") for number in range(1200)]
    cursor = settled(None, news, now_s=0, wait_s=60, limit=500).cursor
    seen: list[str] = []
    for _ in range(3):
        left = [one for one in news if one.key not in seen]
        look = settled(cursor, left, now_s=61, wait_s=60, limit=500)
        assert len(look.ready) <= 500
        seen += keys(look)
        cursor = look.cursor
    assert seen == [one.key for one in news]


def test_the_cursor_is_small_whatever_the_delivery_is() -> None:
    look = settled(None, [unit(f"{number:06d}", "1") for number in range(20_000)], now_s=0, wait_s=30, limit=500)
    assert len(look.cursor) < 200


@pytest.mark.parametrize("cursor", [None, "", "{", "[]", '{"a": 1}', '{"a": ["b", "c"]}'])
def test_a_lost_cursor_costs_one_more_look(cursor: str | None) -> None:
    news = [unit("a", "1")]
    look = settled(cursor, news, now_s=0, wait_s=0, limit=500)
    assert keys(look) == []
    assert keys(settled(look.cursor, news, now_s=1, wait_s=0, limit=500)) == ["a"]


@pytest.mark.parametrize("text", ["-1", "soon", "nan-1"])
def test_a_senseless_wait_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(SETTLE_VARIABLE, text)
    with pytest.raises(InputError, match=SETTLE_VARIABLE):
        settle_s()


def test_a_look_that_takes_long_is_followed_by_a_rest() -> None:
    look = settled(None, [unit("a", "1")], now_s=100, wait_s=30, limit=500)
    cursor = rested(look.cursor, begun_s=100, ended_s=112)
    assert rest_left_s(cursor, now_s=131) == pytest.approx(101)
    assert rest_left_s(cursor, now_s=232) == 0
    assert keys(settled(cursor, [unit("a", "1")], now_s=232, wait_s=30, limit=500)) == ["a"]  # what it waits for is remembered beside it
    assert rested(look.cursor, begun_s=100, ended_s=102.9) == look.cursor
    assert rest_left_s(rested(look.cursor, begun_s=0, ended_s=10_000), now_s=10_000) == LONGEST_REST_S


@pytest.mark.parametrize("cursor", [None, "", "{}", "[]", "no", '{"rest": "soon"}', '{"rest": 5000}'])
def test_without_a_rest_that_makes_sense_the_look_is_due(cursor: str | None) -> None:
    assert rest_left_s(cursor, now_s=100) == 0
