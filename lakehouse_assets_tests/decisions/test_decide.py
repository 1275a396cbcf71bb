"""Deciding on a batch of silver: a function of its arguments.

Belongs here: what `decide` reads and returns as a whole. Does not: any check's judgement (test_gate_pii, drift, schema).
"""

from datetime import UTC, datetime

from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.decisions.decide import BatchEvidence, JudgementRequest, Knowledge, decide
from lakehouse_assets.decisions.history import History
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets_tests.support import readings

AT = datetime(2024, 1, 1, tzinfo=UTC)
SPEC = readings(checks=[{"check": "not_empty", "name": "filled"}])


def test_deciding_changes_nothing_that_it_is_given():
    record = ExtractionRecord("readings", AT, 1, "f", 4, tuple(SPEC.columns), 1, "run", AT)
    evidence = BatchEvidence(BatchNumbers(rows_in=4, newest=4, metrics={"filled": {"rows": 4}}))
    knowledge = Knowledge([], tuple(SPEC.columns), history=History())
    first, again = (decide(SPEC, record, evidence, knowledge, JudgementRequest(), run_id="run", at=AT) for _ in range(2))
    assert first == again
    assert [(d.verdict, d.number) for d in first.decisions] == [("published", 1)]
    assert knowledge.decisions == []
    knowledge.learn(first, evidence)
    assert knowledge.decisions == first.decisions
    later = decide(SPEC, record, evidence, knowledge, JudgementRequest("rejudged"), run_id="run", at=AT)
    assert [d.number for d in later.decisions] == [2]
