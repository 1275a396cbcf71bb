"""Quarantined rows of gold as a person may see them.

Belongs here: which values are masked. Does not: rows of bronze (pipeline/test_misplaced_texts), printing (test_cli).
"""

import json

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse_assets.decisions.personal import MASKED
from lakehouse_assets.queries.quarantine import gold_quarantine_sample
from lakehouse_assets_tests import logbook

TEXTS = pa.struct({name: pa.string() for name in ("check", "column", "severity", "value", "message")})
SCHEMA = pa.schema({"decision_id": pa.string(), "row": pa.string(), "reasons": pa.list_(TEXTS)})
REASON = {"severity": "critical", "value": None, "message": "m"}


@pytest.mark.parametrize(
    ("column", "shown"),
    [
        ("city", {"email": MASKED, "city": "Oslo"}),
        ("email", {"email": MASKED, "city": MASKED}),  # the address may be the city
        ("city, email", {"email": MASKED, "city": MASKED}),
    ],
)
def test_a_row_that_fails_a_check_of_a_personal_column_shows_no_value(settings, column, shown):
    (decision,) = logbook.write(settings, [logbook.decided(1, "gold_people")])
    row = {"decision_id": decision.decision_id, "row": json.dumps({"email": "ann@example.com", "city": "Oslo"})}
    rows = [{**row, "reasons": [{"check": "matches_it", "column": column, **REASON}]}]
    write_deltalake(settings.path("quarantine", "gold_people"), pa.Table.from_pylist(rows, SCHEMA))
    assert gold_quarantine_sample(settings, "gold_people", ["email"], 5) == [{"reasons": "matches_it: m", **shown}]
