"""Checks proposed from figures: which check, with which bounds, and what is said of past windows.

Belongs here: pure decisions, and the shapes of texts. Does not: the figures of real tables (operations/test_dry_run).
"""

import random
import re

import pytest
import yaml

from lakehouse_assets.checks.patterns import refusal
from lakehouse_assets.contracts.columns import Column
from lakehouse_assets.decisions.proposals import (
    Proposal,
    bounds,
    count_together,
    extremes,
    propose_for_column,
    propose_for_rows,
)
from lakehouse_assets.decisions.shapes import FROM, TO, pattern_of


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (12.94, 100.0, (0, 120)), (0, 1, (0, 1.2)), (5, 5, (4, 6)), (0, 0, (0, 1)), (-3, -1, (-3.4, -0.6)),
        (-1, 100, (-30, 130)), (1e6, 2e6, (8e5, 2.2e6)), (0.001, 0.002, (0.0008, 0.0022)), (-5, 0, (-6, 0)),
        (123456789, 123456999, (123456740, 123457050)), (1000000.123, 1000000.456, (1000000.05, 1000000.53)),
        (-1.7e300, 1.7e300, (-2.4e300, 2.4e300)),
    ],
)  # fmt: skip
def test_round_bounds(low, high, expected):
    rounded = bounds(low, high)
    assert rounded == pytest.approx(expected)
    assert rounded[0] <= low
    assert rounded[1] >= high


def shape(text: str) -> str:
    return text.translate(str.maketrans(FROM, TO))


@pytest.mark.parametrize(
    ("texts", "pattern"),
    [
        (["JFK", "LGA"], "^[A-Z]{3}$"),
        (["N12345", "N1AA"], "^(?:[A-Z][0-9]{5}|[A-Z][0-9][A-Z]{2})$"),
        (["A-1", "AB-12"], "^[A-Z]{1,4}-[0-9]{1,4}$"),
        (["a.b", "c.d"], r"^[a-z]\.[a-z]$"),
        (["(1)", "[2]"], r"^(?:\([0-9]\)|\[[0-9]\])$"),
        (["ü1", "ü2"], "^ü[0-9]$"),
        (["", "A"], None),
        ([], None),
        (["A", "1", "-", "b"], None),
        (["a b c d e"], None),
    ],
)
def test_a_pattern_follows_from_the_shapes(texts, pattern):
    proposed = pattern_of(sorted(set(map(shape, texts))))
    assert proposed == pattern
    if proposed:
        assert refusal(proposed) is None
        assert all(re.search(proposed, text) for text in texts)


def test_every_pattern_matches_the_texts_that_it_is_made_of():
    rng = random.Random(24)
    for _ in range(500):
        form = rng.choices("Aa9-._ $[é", k=rng.randint(1, 6))
        texts = [
            "".join(rng.choice({"A": "QXZ", "a": "mnü", "9": "07"}.get(letter, letter)) for letter in form) for _ in range(9)
        ]
        pattern = pattern_of(sorted(set(map(shape, texts))))
        assert pattern is None or all(re.search(pattern, text) for text in texts), (pattern, texts)


def figures(**changes):
    return {"nulls": 0, "low": None, "high": None, **changes}


def proposals(kind, is_key=False, **changes):
    """The last proposal for a column of a thousand rows."""
    every = propose_for_column(Column(type=kind), "c", 1000, figures(**changes), is_key=is_key)
    return [proposal.check for proposal in every][-1:]


def test_the_worst_window_decides_how_many_nulls_of_a_text_are_usual():
    share = {"check": "null_share", "column": "c", "severity": "warning"}
    assert proposals("string", nulls=10, worst=0.02) == [{**share, "max": 0.024}]
    assert proposals("string", nulls=10, worst=0.4) == [{**share, "max": 0.48}]
    # A window without any text: no share says more.
    assert proposals("string", nulls=10, worst=1.0) == []
    assert proposals("string", is_key=True) == []
    assert proposals("string") == [{"check": "not_null", "column": "c"}]


def test_texts_have_a_list_or_a_pattern_or_lengths():
    assert proposals("string", low=1, high=2, values=["a", "bb"], pattern="^x$")[0]["check"] == "in_set"
    warning = {"column": "c", "severity": "warning"}
    assert proposals("string", low=1, high=2, pattern="^x$") == [{"check": "matches", "pattern": "^x$", **warning}]
    assert proposals("string", low=4, high=4) == [{"check": "length", "column": "c", "min": 4, "max": 4}]
    assert proposals("string", low=1, high=20) == [{"check": "length", "min": 1, "max": 25, **warning}]
    assert proposals("string", low=0, high=20) == [{"check": "length", "min": 0, "max": 25, **warning}]
    assert proposals("string", low=0, high=0) == [{"check": "not_null", "column": "c"}]


def test_the_number_of_rows():
    assert propose_for_rows([10, 12, 11, 10]) == []
    assert propose_for_rows([0, 12, 11, 10, 10]) == []
    (proposal,) = propose_for_rows([10, 12, 11, 10, 20])
    assert proposal.check == {"check": "row_count_ratio", "min": 0.7, "max": 2.2, "severity": "warning"}


def test_what_past_windows_would_have_been():
    one = Proposal({"check": "not_null", "column": "a"}, "no NULL in 10 rows")
    assert one.reason == "no NULL in 10 rows"
    assert not one.flags_too_many
    assert one.tried(60, 3).reason == "no NULL in 10 rows; 3 of 60 past windows quarantined, or rows of them"
    assert (one.tried(60, 3).flags_too_many, one.tried(60, 4).flags_too_many) == (False, True)
    warning = Proposal({"check": "in_range", "column": "a", "severity": "warning"}, "seen")
    assert warning.tried(60, 0).reason == "seen; 0 of 60 past windows warned of"


def of_windows(windows):
    """Figures of a column, of windows with (rows, nulls, least, greatest)."""
    worst = sorted(((nulls / rows, rows) for rows, nulls, _, _ in windows), reverse=True)[:2]
    low, high = sorted(w[2] for w in windows)[:2], sorted((w[3] for w in windows), reverse=True)[:2]
    rows, nulls = (sum(w[index] for w in windows) for index in (0, 1))
    return {"rows": rows, "nulls": nulls, "windows": len(windows), **extremes(worst, low, high)}


def flagged(proposed, window):
    """How many of a column's checks a window fails."""
    rows, nulls, low, high = window
    failures = 0
    for check in (each.check for each in proposed):
        failures += check["check"] == "not_null" and nulls > 0
        failures += check["check"] == "null_share" and nulls / rows > check["max"]
        failures += check["check"] in ("in_range", "length") and (low < check["min"] or high > check["max"])
    return failures


@pytest.mark.parametrize("kind", ["double", "string"])
def test_a_proposal_counts_the_windows_that_fail_what_the_others_propose(kind):
    """Each window is left out, and judged by what the others propose: never more fail than is said, and seldom fewer."""
    rng, stated_counts, true_counts = random.Random(24), [], []
    for _ in range(400):
        share = rng.choice([0.0, 0.0005, 0.01, 0.3])
        windows = []
        for _ in range(rng.randint(3, 12)):
            rows = rng.randint(20, 200)
            low, high = rng.randint(1, 9), round(10 * rng.paretovariate(rng.choice([2, 20])))
            windows.append((rows, sum(rng.random() < share for _ in range(rows)), low, high))

        def propose(chosen):
            return propose_for_column(Column(type=kind), "c", 0, of_windows(chosen), is_key=False)

        stated_counts.append(sum(proposal.lone for proposal in propose(windows)))
        others = [(propose(windows[:i] + windows[i + 1 :]), window) for i, window in enumerate(windows)]
        true_counts.append(sum(flagged(proposed, window) for proposed, window in others))
    assert all(stated_count >= count for stated_count, count in zip(stated_counts, true_counts, strict=True))
    assert 100 < sum(true_counts) <= sum(stated_counts) < 1.2 * sum(true_counts)


def test_numbers_of_rows_that_the_other_windows_did_not_let_expect_are_counted():
    assert [propose_for_rows(counts)[0].lone for counts in ([10] * 9, [10] * 9 + [20], [1] + [10] * 9 + [20])] == [0, 1, 2]


def test_together_no_more_windows_are_flagged_than_there_are():
    one = Proposal({"check": "not_null", "column": "a"}, "", lone=1).tried(20, 0)
    assert count_together([one, one]) == (2, 20)
    assert count_together([one] * 30) == (20, 20)
    assert count_together([]) == (0, 0)
    assert one.reason == "; 1 of 20 past windows quarantined, or rows of them, by what the others had"


def test_a_text_that_looks_like_a_variable_is_no_variable():
    proposal = Proposal({"check": "in_set", "column": "a", "values": ["${X}"]}, "")
    assert proposal.yaml == "{check: in_set, column: a, values: ['$${X}']}"


@pytest.mark.parametrize("text", ["a\nb", "a\n", "\r", "two\n\n      lines", "\x85 \u2028", "a: #b"])
def test_a_check_is_one_line_whatever_its_texts_are(text):
    """Also as a comment, where a second line would be none."""
    check = {"check": "in_set", "column": "a", "values": [text, "z" * 20_000]}
    proposal = Proposal(check, "")
    assert len(proposal.yaml.split("\n")) == 1
    assert yaml.safe_load(f"- {proposal.yaml}") == [check]


def test_a_list_whose_texts_come_and_go_flags_the_windows_with_texts_of_their_own():
    texts = figures(low=1, high=1, values=["a", "b"], lone=4)
    (_, proposal) = propose_for_column(Column(type="string"), "c", 1000, texts, is_key=False)
    assert proposal.tried(60, 0).flagged == 4
    assert proposal.tried(60, 0).flags_too_many
    assert proposal.tried(60, 9).flagged == 9
