"""A declared surrogate key, pure: what is refused, and what follows for silver, gold, other tables and personal data."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.gold_rules import personal_columns, silver_schemas
from lakehouse_assets.contracts.lineage import read_gold
from lakehouse_assets.contracts.references import readers_of, reference_mistakes
from lakehouse_assets.contracts.silver import silver_columns, silver_types
from lakehouse_assets.contracts.table import EffectiveTable, TableSpec
from lakehouse_assets.decisions.schema.evolution import plan
from lakehouse_assets.orchestration.assets.metadata import gold_lineage, silver_schema
from lakehouse_assets_tests.support import PROJECT_ROOT, readings, window

KEY = {"name": "reading_sk", "from": ["sensor", "hour"]}
PERSONAL = {"sensor": {"type": "string", "pii": True}, "hour": "int", "value": "int", "updated": "timestamp"}


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ({"name": "Sensor", "from": ["hour"]}, "surrogate_key.name: a column is called 'sensor' too; choose another name"),
        ({"name": "_sk", "from": ["hour"]}, "column '_sk': p_extracted_at, extraction_seq and names that begin with _"),
        ({"name": "a b", "from": ["hour"]}, "Delta refuses spaces"),
        ({"name": "sk", "from": []}, "at least 1 item"),
        ({"name": "sk", "from": ["hour", "hour"]}, "'hour' is listed twice"),
        ({"name": "sk", "from": ["hours"]}, "surrogate_key.from.0: no column 'hours' is declared; there are sensor, hour"),
        ({"name": "sk", "from": ["hour", "value"]}, "surrogate_key.from.1: value is double, whose values have no one text"),
        ({"name": "sk"}, "Field required"),
    ],
    ids=str,
)
def test_what_is_refused(key, message):
    with pytest.raises(ValidationError, match=message):
        readings(surrogate_key=key)


def test_a_check_that_names_it_gets_the_columns_to_name():
    with pytest.raises(
        ValidationError, match="'reading_sk' is the surrogate key, computed after all checks; name sensor, hour"
    ):
        readings(surrogate_key=KEY, checks=[{"check": "unique", "columns": ["reading_sk"]}])


def test_silver_has_it_after_the_declared_columns_and_before_added_ones():
    spec = EffectiveTable.of(readings(surrogate_key=KEY), {**readings().columns, "note": readings().columns["sensor"]})
    tail = ["reading_sk", "p_extracted_at", "extraction_seq", "_content_hash", "note"]
    assert silver_columns(spec)[4:] == tail
    assert silver_types(spec)["reading_sk"] == "string"
    shown = {column.name: column.description for column in silver_schema(spec).columns}
    assert shown["reading_sk"] == "SHA-256 of sensor, hour"
    assert readers_of(spec.origin)["hour"] == ("key", "surrogate_key")


def test_it_is_part_of_the_rules_and_of_the_meaning_where_it_is_declared():
    spec = readings(surrogate_key=KEY)
    assert TableSpec.from_ruleset(spec.ruleset()).surrogate_key == spec.surrogate_key
    assert "surrogate_key" not in readings().ruleset()
    swapped = readings(surrogate_key={**KEY, "from": ["hour", "sensor"]})
    assert len({spec.meaning, readings().meaning, swapped.meaning}) == 3


def test_gold_reads_it_and_its_lineage_names_it():
    spec = readings(surrogate_key=KEY, columns=PERSONAL, checks=[])
    query = read_gold("select reading_sk as id, hour from silver_readings", "days.sql", silver_schemas([spec]))
    assert query.types["id"] == "string"
    lineage = gold_lineage(GoldSpec(name="days", sql="days.sql", key=("id",)), query)
    assert [each.column_name for each in lineage.deps_by_column["id"]] == ["reading_sk"]
    # A hash of a personal value is a pseudonym of it: who guesses the value confirms it.
    assert (spec.pii_columns, personal_columns(query, [spec])) == ({"sensor", "reading_sk"}, {"id"})
    assert readings(surrogate_key=KEY).pii_columns == frozenset()


def test_another_table_may_refer_to_it():
    target = readings(name="sensors", surrogate_key=KEY)
    check = {"check": "foreign_key", "columns": ["sensor"], "table": "sensors", "to": ["reading_sk"]}
    spec = readings(checks=[check])
    assert list(reference_mistakes(spec, {"readings": spec, "sensors": target})) == []


@pytest.mark.parametrize(
    ("types", "change"),
    [
        ({"hour": "bigint"}, "widened"),
        ({"hour": "decimal(12,2)"}, "widened"),
        ({"hour": "double"}, "quarantined"),
        ({"value": "double"}, "widened"),
        ({"Reading_SK": "string"}, "quarantined"),
    ],
    ids=str,
)
def test_a_batch_cannot_change_it_by_a_type_nor_bring_a_column_of_its_name(types, change):
    columns = {"sensor": "string", "hour": "int", "value": "int", "updated": "timestamp"}
    spec = readings(surrogate_key=KEY, columns=columns, checks=[], schema={"type_changes": "widen", "new_columns": "evolve"})
    arrived = {**columns, **types}
    record = ExtractionRecord(
        "readings", window(1).start, 1, "print", 3, tuple(arrived), 0, "run", datetime(2024, 6, 1, tzinfo=UTC), (), arrived
    )
    planned = plan(EffectiveTable.of(spec), record)
    [difference] = planned.comparison.differences
    assert difference.outcome == change
    assert planned.changes == (change == "widened")


def test_the_page_states_the_hash_of_its_example():
    section = (PROJECT_ROOT / "docs" / "tables.md").read_text(encoding="utf-8").partition("## Surrogate keys")[2]
    exec(section.partition("```python\n")[2].partition("```")[0], {})
