"""Quarantined rows of gold as a person may see them.

Belongs here: which values are masked. Does not: rows of bronze (pipeline/test_misplaced_texts), printing (test_cli).
"""

import json

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse_assets.contracts.decision import Counts
from lakehouse_assets.decisions.personal import MASKED
from lakehouse_assets.queries.quarantine import decision_sample, gold_quarantine_sample
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.support import readings

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
    assert decision_sample(settings, decision, ["email"], (), 5) == [{"reasons": "matches_it: m", **shown}]


@pytest.mark.parametrize(
    ("rows", "shown"),
    [
        ([{"email": "ann@a.no", "city": "Oslo", "note": "n"}], [{"email": MASKED, "city": "Oslo", "note": "n"}]),
        ([{"city": "Oslo", "contact": "ann@a.no"}], [{"city": "Oslo", "contact": MASKED}]),
        # A row's JSON leaves NULL out: the other row shows that the column is there.
        ([{"note": "n"}, {"EMAIL": "ann@a.no"}], [{"note": "n"}, {"EMAIL": MASKED}]),
    ],
)
def test_where_a_personal_column_is_absent_only_declared_columns_are_shown(settings, rows, shown):
    decision = logbook.decided(1, "orders", counts=Counts(2, 0, 0, 2, 0))
    write_rows(settings, decision, rows)
    sample = decision_sample(settings, decision, ["email"], ["email", "City"], 5)
    assert sample == [{"reasons": "", **each} for each in shown]


STAYS = {"name": "stays", "key": ["id"], "last_modified": "id", "checks": []}
GUEST, PERSON = ({name: {"type": "string", "pii": True}} for name in ("guest", "person"))
SQL = "SELECT id, guest AS visitor, count(*) AS n FROM silver_stays GROUP BY ALL"


@pytest.mark.parametrize(
    ("columns", "sql", "shown"),
    [
        (GUEST, SQL, {"id": 1, "visitor": MASKED}),
        (GUEST, "SELECT nothing", {"id": MASKED, "visitor": MASKED}),
        ({"guest": "string", **PERSON}, SQL, {"id": 1, "visitor": "Ann"}),
        (PERSON, SQL, {"id": MASKED, "visitor": MASKED}),  # the contract has no such column now
        ({"person": "string"}, SQL, {"id": 1, "visitor": "Ann"}),  # nor any personal one
    ],
)
def test_a_row_of_gold_is_masked_by_the_sql_that_made_it(settings, columns, sql, shown):
    """The SQL of today may not have its columns any more."""
    spec = readings(**STAYS, columns={"id": "bigint", **columns})
    (decision,) = logbook.write(settings, [logbook.decided(1, "gold_guests", ruleset=json.dumps({"sql": sql}))])
    write_rows(settings, decision, [{"id": 1, "visitor": "Ann"}])
    assert gold_quarantine_sample(settings, "gold_guests", [spec], 5) == [{"reasons": "", **shown}]


EMAIL, PHONE = ({name: {"type": "string", "pii": True}} for name in ("email", "phone"))
STAR = "SELECT * EXCEPT (p_extracted_at) FROM silver_stays"


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        ({**EMAIL, **PHONE}, {"ID": 1, "email": MASKED, "phone": MASKED}),
        (EMAIL, {"ID": 1, "email": MASKED, "phone": MASKED}),
        ({**EMAIL, "phone": "string"}, {"ID": 1, "email": MASKED, "phone": "99"}),
        ({}, {"ID": 1, "email": "ann@a.no", "phone": "99"}),
    ],
)
def test_a_column_of_a_star_that_the_contract_has_dropped_is_masked(settings, columns, shown):
    """Nobody knows any more whether it was a personal one."""
    spec = readings(**STAYS, columns={"id": "bigint", **columns})
    (decision,) = logbook.write(settings, [logbook.decided(1, "gold_guests", ruleset=json.dumps({"sql": STAR}))])
    write_rows(settings, decision, [{"ID": 1, "email": "ann@a.no", "phone": "99"}])
    assert gold_quarantine_sample(settings, "gold_guests", [spec], 5) == [{"reasons": "", **shown}]


def write_rows(settings, decision, rows) -> None:
    texts = [{"decision_id": decision.decision_id, "row": json.dumps(row), "reasons": []} for row in rows]
    write_deltalake(settings.path("quarantine", decision.table), pa.Table.from_pylist(texts, SCHEMA))
