"""A rehearsal's page and listings: what they say, and that no name is markup.

Belongs here: the wording. Does not: the sums (decisions/test_rehearsal).
"""

from dataclasses import replace
from datetime import UTC, datetime

from lakehouse_assets.decisions.rehearsal import CleanSummary, FaultSummary, Rehearsal, Unseen
from lakehouse_assets.reports.rehearsal import describe_clean, describe_rehearsal, fault_rows, rehearsal_page, unseen_rows

AT = datetime(2024, 1, 1, tzinfo=UTC)
EVIL = "<script>alert(1)</script>"
FAULTS = (
    FaultSummary("unit", "×10", 4, {"quarantined": 1, "warning": 1, "unseen": 2}, {EVIL: 2}),
    FaultSummary("duplicated_rows", "twice", 2, {"unseen": 2}, {}, harmless=2),
)
UNSEEN = tuple(Unseen("unit", size, EVIL, 1, 1, ("{check: in_range, column: a}",), "in_range") for size in ("×10", "×1000"))
REHEARSAL = Rehearsal(
    "t", 7, (AT,), CleanSummary(20, 1, 0, 2, {"drift": 3}), FAULTS, UNSEEN, 0, {"tags": "nested values are left as they are"},
    {"unit": "numbers are in another unit"},
)  # fmt: skip


def test_the_page_has_everything_and_escapes_it():
    html = rehearsal_page(REHEARSAL, AT)
    assert "<script" not in html
    assert html.count("&lt;script&gt;") >= 2
    for text in ("2 of 4 faulty copies seen (50%)", "20 clean copies: 1 quarantined", "tags", "×10, ×1000", "--seed 7"):
        assert text in html, text
    assert "All audits" not in html


def test_rows_that_the_key_removes_are_not_unseen():
    unit, twice = fault_rows(REHEARSAL)
    assert (unit["unseen"], twice["unseen"]) == (2, 0)
    assert twice["seen by (copies)"] == "harmless: the key keeps one row of each (2)"


def test_sizes_of_one_fault_share_a_row():
    (row,) = unseen_rows(REHEARSAL)
    assert (row["sizes"], row["copies"], row["what would see it"]) == ("×10, ×1000", "2 of 2", "{check: in_range, column: a}")


def test_a_rehearsal_without_anything():
    empty = Rehearsal("t", 0, (), CleanSummary(), (), (), 2, {}, {})
    assert describe_rehearsal(empty) == "no fault changed any row"
    harmless = replace(empty, faults=FAULTS[1:])
    assert describe_rehearsal(harmless) == "no fault would do harm: the key keeps one row of each"
    assert "Every fault that would do harm was seen" not in rehearsal_page(harmless, AT)
    assert describe_clean(CleanSummary(3)) == "3 clean copies: no check failed"
    assert "Every fault that would do harm was seen" not in rehearsal_page(empty, AT)
    all_seen = replace(empty, faults=(FaultSummary("unit", "×10", 1, {"warning": 1}, {"a": 1}),))
    assert "Every fault that would do harm was seen" in rehearsal_page(all_seen, AT)
