"""Pseudonyms of categories and strata: no name of a table with personal columns, and the distances of the names themselves.

Belongs here: the pure rules. Does not: what a lake stores of them (pipeline/test_misplaced_texts).
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_assets.decisions.drift.categories import compare_categories, read_categories
from lakehouse_assets.decisions.drift.excess import find_category
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets.decisions.drift.pseudonyms import NameMask, is_pseudonym, name_mask, pseudonym
from lakehouse_assets.decisions.drift.relations import Relations
from lakehouse_assets_tests.support import readings

NAMES = ("ann@example.com", "Bonn", "Köln", "", "#0123", "#zzzzzzzzzzzzzzzz", "\ud800")
COUNTS = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 50), min_size=1)
MASK = NameMask({}, {})


def profile(counts, stratum=None):
    return Profile("city", stratum, sum(counts.values()), kind="category", counts=tuple(counts.items()))


def categories(counts, masked):
    one = profile(counts)
    return read_categories(MASK.measurement(one) if masked else one)


@settings(max_examples=100, deadline=None)
@given(COUNTS, COUNTS, COUNTS, st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_distances_are_those_of_the_plain_names_whichever_side_is_masked(batch, one, other, masked):
    plain = [categories(counts, False) for counts in (batch, one, other)]
    mixed = [categories(counts, is_masked) for counts, is_masked in zip((batch, one, other), masked, strict=True)]
    expected = compare_categories(plain[0], plain[1].plus(plain[2]))
    result = compare_categories(mixed[0], mixed[1].plus(mixed[2]))
    assert (result.g, result.tail) == pytest.approx((expected.g, expected.tail), abs=1e-8)
    assert (len(result.new), len(result.vanished)) == (len(expected.new), len(expected.vanished))
    assert {pseudonym(name) for name in result.new} == {pseudonym(name) for name in expected.new}


@pytest.mark.parametrize("masked", [(False, False), (True, False), (False, True), (True, True)])
def test_the_category_with_too_many_rows_is_the_same_whichever_side_is_masked(masked):
    """A usual one is not taken for a new one."""
    before, now = {"Bonn": 900, "Rome": 600, "Oslo": 30}, {"Bonn": 55, "Rome": 40, "Oslo": 25}
    batch, baseline = (categories(counts, is_masked) for counts, is_masked in zip((now, before), masked, strict=True))
    excess = find_category(batch, baseline)
    assert (excess.rows, excess.usual) == (25, pytest.approx(30 * 120 / 1530, abs=1e-3))
    assert pseudonym(excess.category) == pseudonym("Oslo")
    assert is_pseudonym(excess.category) is any(masked)


@given(st.text())
def test_a_pseudonym_is_its_own_and_never_the_name(name):
    assert is_pseudonym(pseudonym(name))
    assert pseudonym(pseudonym(name)) == pseudonym(name)
    assert pseudonym(name) == name or name not in pseudonym(name) or len(name) < 3


def people(**city_check):
    return readings(
        columns={"sensor": {"type": "string", "pii": True}, "hour": "int", "value": "double", "city": "string"},
        key=["sensor"],
        last_modified="hour",
        checks=[{"check": "in_set", "column": "city", "values": ["Bonn", "Köln"], **city_check}],
        drift={
            "features": [
                *("value", "city"),
                {"name": "by_city", "expr": "value", "by": "city"},
                {"name": "day", "expr": "value", "by": "hour"},
            ]
        },
    )


def test_names_that_the_contract_lists_stay_readable_and_no_others():
    mask = name_mask(people(severity="warning"))
    shown = mask.measurement(profile({"Bonn": 3, "ann@example.com": 1, "true": 1}))
    assert dict(shown.counts) == {"Bonn": 3, pseudonym("ann@example.com"): 1, "true": 1}
    assert mask.key(("by_city", "Köln")) == ("by_city", "Köln")
    assert mask.key(("by_city", pseudonym("Köln"))) == ("by_city", "Köln"), "it was not listed when that was recorded"
    assert mask.key(("by_city", "ann")) == ("by_city", pseudonym("ann"))
    assert mask.key(("day", "7")) == ("day", "7"), "an hour is no text"
    assert mask.key(("by_city", None)) == ("by_city", None)
    relations = Relations("city", "ann", ("by_city", "value"), 2, (1.0, 2.0), (1.0, 0.0, 1.0))
    assert mask.measurement(relations).stratum == pseudonym("ann")


def test_a_table_without_personal_columns_has_no_mask():
    assert name_mask(readings(drift={"features": ["sensor"]})) is None
