"""Counters, mappings and rate limits: what each operation does, in one process and with a full store."""

import random

import pytest

import syncless
from syncless.shared import (
    Counter,
    InvalidName,
    Mapping,
    RateLimit,
    StoreFull,
    TooLarge,
    UnfitValue,
    figures,
)


def test_counter_adds_and_is_cleared():
    hits = Counter("hits")
    assert (hits.get(), hits.add(), hits.add(5), hits.add(-7)) == (0, 1, 6, -1)
    assert Counter("hits").get() == -1 and Counter("other").get() == 0
    assert (hits.clear(), hits.get(), hits.clear()) == (-1, 0, 0)


def test_counter_beyond_64_bits_raises_and_keeps_its_value():
    hits = Counter("hits")
    hits.add(2**63 - 1)
    with pytest.raises(OverflowError):
        hits.add()
    with pytest.raises(OverflowError):
        hits.add(2**70)
    assert hits.get() == 2**63 - 1


TEXTS = ["", "m\xf6we", "x" * 20_000]
VALUES = [b"", b"\0\xff" * 40, *TEXTS, None, True, 1.5, [1, [2]], {"b": [], "a": "\u20ac"}]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_value_comes_back_as_it_was_set(value):
    values = Mapping("values")
    values.set("k", "before")
    values.set("k", value)
    found = values.get("k")
    assert found == value and type(found) is type(value)
    assert values.pop("k") == value and values.get("k", "none") == "none" and values.pop("k", 1) == 1
    assert figures()["entries"] == 0 and figures()["used_bytes"] == 0


def test_add_and_compare_and_set_change_only_what_they_expect():
    values = Mapping("values")
    assert not values.compare_and_set("k", None, 1)
    assert values.add("k", 1) and not values.add("k", 2)
    assert not values.compare_and_set("k", "1", 3)  # which is a str
    assert values.compare_and_set("k", 1, {"a": 1, "b": 2})
    assert values.compare_and_set("k", {"b": 2, "a": 1}, "new") and values.get("k") == "new"
    assert Mapping("value").get("sk") is None  # a name and a key are not one text


@pytest.mark.virtual_time
def test_value_is_gone_after_its_time():
    values = Mapping("values")
    values.set("short", 1, ttl=1)
    values.set("long", 2, ttl=100)
    syncless.sleep(1.5)
    assert values.get("short") is None and values.add("short", 3) and values.get("long") == 2


@pytest.mark.parametrize("ttl", [0, -1, 1e10, float("nan")])
def test_time_that_is_none_is_refused(ttl):
    with pytest.raises(ValueError, match="ttl must be positive"):
        Mapping("values").set("k", 1, ttl=ttl)


@pytest.mark.parametrize("value", [object(), {1, 2}, {"a": b"x"}, float("nan"), "\ud800", {("a",): 1}])
def test_value_that_json_cannot_carry_is_refused_by_name(value):
    with pytest.raises(UnfitValue, match="neither bytes, str nor fit for JSON"):
        Mapping("values").set("k", value)
    nested = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(UnfitValue):
        Mapping("values").set("k", nested)


@pytest.mark.parametrize("name", ["", "x" * 251, "\ud800", b"bytes", None])
def test_name_that_cannot_be_one_is_refused(name):
    for make in (Counter, Mapping, Mapping("values").get, lambda name: RateLimit(name, "1/second")):
        with pytest.raises(InvalidName):
            make(name)


@pytest.mark.parametrize("name", ["x" * 250, "\0", " ", "a/b*c\n", "\u20ac" * 83])
def test_odd_name_is_a_name(name):
    assert Counter(name).add() == 1
    Mapping(name).set(name, name)
    assert Mapping(name).get(name) == name


def test_full_store_drops_what_has_expired_then_what_was_not_used_for_longest():
    values = Mapping("values")
    Counter("hits").add(3)
    for number in range(999):
        values.set(f"{number}", number, ttl=1e-9 if number == 500 else None)
    assert figures()["entries"] == 1000 and figures()["evicted"] == 0
    values.get("0")
    for number in range(400):
        values.set(f"new {number}", number)
    assert (figures()["expired"], figures()["evicted"]) == (1, 399)
    assert values.get("0") == 0 and values.get("1") is None and values.get("399") is None
    assert values.get("450") == 450 and Counter("hits").get() == 3


def test_store_full_of_counters_raises_and_goes_on_when_there_is_room():
    for number in range(1000):
        Counter(f"{number}").add()
    with pytest.raises(StoreFull, match="shared_value_bytes"):
        Counter("one more").add()
    with pytest.raises(StoreFull):
        Mapping("values").set("k", 1)
    assert Counter("7").add() == 2
    Counter("8").clear()
    assert Counter("one more").add() == 1


def test_value_larger_than_a_quarter_of_the_store_is_refused():
    with pytest.raises(TooLarge, match="shared_value_bytes"):
        Mapping("values").set("k", bytes(32_001))
    Mapping("values").set("k", bytes(32_000))


def test_random_operations_leave_what_a_dict_has(region):
    chance, values, expected = random.Random(1), Mapping("values"), {}
    for _ in range(5000):
        key = f"{chance.randrange(30)}"
        if chance.random() < 0.3:
            assert values.pop(key) == expected.pop(key, None)
        else:
            expected[key] = bytes(chance.randrange(1000))
            values.set(key, expected[key])
        assert figures()["entries"] == len(expected)
    assert {key: values.get(key) for key in expected} == expected and figures()["evicted"] == 0
    for key in expected:
        values.pop(key)
    assert figures()["used_bytes"] == 0


@pytest.mark.virtual_time
def test_rate_gives_its_turns_at_once_and_then_one_by_one():
    limit = RateLimit("logins", "10/second")
    assert [limit.allow() for _ in range(12)] == [True] * 10 + [False] * 2
    assert 0 < limit.take() <= 0.1
    syncless.sleep(0.25)
    assert [limit.allow() for _ in range(3)] == [True, True, False]
    syncless.sleep(5)
    assert limit.take(10) == 0 and limit.take(3) > 0.2
    assert RateLimit("others", "100/15 minutes").take(100) == 0


@pytest.mark.parametrize(
    "rate", ["", "10", "0/second", "10/week", "-1/second", "10/0 seconds", "9/999999999 days"]
)
def test_rate_that_is_none_is_refused(rate):
    with pytest.raises(InvalidName):
        RateLimit("logins", rate)
    with pytest.raises(ValueError, match="from 1 to 3 turns"):
        RateLimit("logins", "3/second").take(4)
