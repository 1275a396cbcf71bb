"""A mapping that grows, against a dict: its content, its order, its copies and what has changed between them."""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_assets.decisions import growing_map
from lakehouse_assets.decisions.growing_map import GrowingMap, find_changed_keys, find_missing

KEYS = st.integers(0, 6)
STEPS = st.one_of(
    st.tuples(st.just("put"), KEYS, st.integers(0, 3)), st.tuples(st.just("remove"), KEYS), st.tuples(st.just("copy"))
)


@pytest.fixture(autouse=True)
def few_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing_map, "MOST_CHANGES", 3)


def play(steps: list[tuple[Any, ...]]) -> Iterator[tuple[GrowingMap[int, int], dict[int, int]]]:
    """The mapping and a dict after each copy, each of them changed no more."""
    grown, plain = GrowingMap({1: 1, 2: 2}), {1: 1, 2: 2}
    for step, *values in steps:
        if step == "put":
            grown[values[0]] = plain[values[0]] = values[1]
        elif step == "remove":
            assert grown.pop(values[0], None) == plain.pop(values[0], None)
        else:
            yield grown, dict(plain)
            grown = grown.copy()
    yield grown, plain


@given(st.lists(STEPS, max_size=30))
def test_it_is_a_dict_and_its_copies_are_left_alone(steps):
    versions = [*play(steps)]
    for grown, plain in versions:
        assert [*grown.items()] == [*plain.items()] == [*zip(grown, grown.values(), strict=True)]
        assert (len(grown), grown == plain, {key: grown.get(key) for key in range(8)}) == (
            len(plain), True, {key: plain.get(key) for key in range(8)},
        )  # fmt: skip
    for before, earlier in versions:
        for now, later in versions:
            assert find_changed_keys(before, now) == find_changed_keys(earlier, later)


@given(st.lists(STEPS, max_size=30), st.lists(STEPS, max_size=30))
def test_what_is_missing_is_the_same_by_what_was_missing_before(wanted, present):
    before = None
    for (some, plain), (others, _) in zip(play(wanted), play(present), strict=False):
        before = find_missing(some, others, before)
        assert before.keys == plain.keys() - set(others)


def test_whoever_reads_while_another_thread_copies_sees_all_of_it():
    interval, count = sys.getswitchinterval(), 5_000
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(50):
            mapping = GrowingMap({n: n for n in range(count)}).copy()
            for n in range(count, count + 10):
                mapping[n] = n
            del mapping[0]
            with ThreadPoolExecutor() as threads:
                copied = threads.submit(mapping.copy)
                sizes = {len([*mapping]) for _ in range(3)} | {len(mapping.items()), len(mapping)}
                assert {*sizes, len(copied.result())} == {count + 9}
    finally:
        sys.setswitchinterval(interval)


def test_only_changes_are_looked_at(monkeypatch):
    first = GrowingMap(dict.fromkeys(range(1_000)))
    later = first.copy()
    later[1_000] = None
    before = find_missing(first, GrowingMap(dict.fromkeys(range(999))))
    monkeypatch.setattr(GrowingMap, "__iter__", None)
    assert later.find_changed(first) == {1_000} == find_changed_keys(first, later) - {0}
    assert find_missing(later, before.present, before).keys == {999, 1_000}
