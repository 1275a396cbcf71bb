"""What `lakehouse run` says of the windows that it ran: their verdicts, and where to read why.

Belongs here: counting and printing. Does not: running (test_gap_runs).
"""

from collections import Counter
from dataclasses import replace

import pytest

from lakehouse_assets.cli import _print_outcome
from lakehouse_assets.orchestration.healing.foreground import RunReport, count_verdicts
from lakehouse_assets_tests import logbook


def test_a_windows_verdict_is_that_of_its_newest_extraction():
    first, second, third = (logbook.decided(number, verdict="published") for number in (1, 2, 3))
    again = replace(first, number=4, extraction_seq=2, verdict="quarantined")
    # The first extraction's decision is written once more where it is superseded.
    superseded = replace(first, number=5, superseded_by=again.decision_id)
    starts = [decision.p_extracted_at for decision in (first, second)]
    assert count_verdicts([first, second, third, again, superseded], starts) == {"quarantined": 1, "published": 1}


@pytest.mark.parametrize(
    ("verdicts", "printed"),
    [
        (
            {"orders": Counter(published=2), "gold_days": Counter(["quarantined"])},
            [
                "orders: a to b, 2 window(s) in one run",
                "gold_days: not rewritten",
                "orders: 2 published",
                "gold_days: 1 quarantined",
                "why: `lakehouse verdicts`, `lakehouse quarantine list`",
            ],
        ),
        (
            {"orders": Counter(published=2), "gold_days": Counter(["published"])},
            [
                "orders: a to b, 2 window(s) in one run",
                "gold_days: rewritten",
                "orders: 2 published",
                "gold_days: 1 published",
            ],
        ),
    ],
    ids=["quarantined", "published"],
)
def test_the_outcome_is_printed(verdicts, printed, capsys):
    _print_outcome(RunReport(ranges=[("orders", "a", "b", 2)], gold=["gold_days"], verdicts=verdicts))
    assert capsys.readouterr().out.splitlines() == printed
