"""With which shape gold's rows are compared, by its log: the table's own, unless other SQL may have written the table.

Belongs here: `shape_of` without Spark. Does not: what follows from a difference (test_gold_schema).
"""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.spark_types import parse_type
from lakehouse_assets.pipeline import gold_rows
from lakehouse_assets.pipeline.gold_rows import shape_of
from lakehouse_assets_tests.logbook import DECIDED, decided

SPEC = GoldSpec.model_validate({"name": "days", "sql": "days.sql", "key": ["day"]})
RUN = SimpleNamespace(published_path="gold/days", spec=SPEC, query=SimpleNamespace(sql="today", types={}))


def gold_log(*decisions: tuple[str, bool]):
    """Decisions by this SQL, applied or not."""
    rulesets = [json.dumps({"sql": sql, "types": {}}) for sql, _ in decisions]
    log = [decided(number, "gold_days", ruleset=each) for number, each in enumerate(rulesets, 1)]
    return [replace(d, applied_at=DECIDED) if applied else d for d, (_, applied) in zip(log, decisions, strict=True)]


@pytest.mark.parametrize(
    ("decisions", "is_compared"),
    [
        ([], False),
        ([("today", True)], True),
        ([("today", True), ("today", False)], True),
        ([("other", True), ("today", True)], True),
        ([("other", False), ("today", True)], True),
        ([("other", True)], False),
        # Killed after the write, and given up: the table is the other SQL's.
        ([("today", True), ("other", False)], False),
        ([("today", True), ("other", False), ("today", False)], False),
        # Killed before the write: the table is still the other SQL's.
        ([("other", True), ("today", False)], False),
    ],
)
def test_rows_are_compared_with_a_table_that_the_same_sql_wrote(monkeypatch, decisions, is_compared):
    table = SimpleNamespace(exists=lambda _: True, schema_types=lambda _: [("day", "date"), ("n", "string")])
    monkeypatch.setattr(gold_rows, "delta", table)
    monkeypatch.setattr(gold_rows, "selected_columns", lambda _: {"day": parse_type("date"), "n": parse_type("bigint")})
    comparison = shape_of(RUN, None, gold_log(*decisions)).comparison
    assert (comparison is not None) == is_compared
