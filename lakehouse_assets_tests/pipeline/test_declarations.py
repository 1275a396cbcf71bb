"""Column comments, table properties and constraints of the YAML on silver and gold, and what others have set there.

Belongs here: how they come, change and go, on real Delta tables. Does not: which names there are (contracts).
"""

import pytest

from lakehouse_assets.errors import RefusedError
from lakehouse_assets.operations.rebuild import migrate, plan_of, rebuild
from lakehouse_assets.operations.release import release
from lakehouse_assets.queries.schema_status import read_schema_status
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.silver_contract import apply_declarations
from lakehouse_assets_tests.support import copy_lake, heal, lake_settings, land, readings, rows_of, runner, silver, window

COLUMNS = {
    "sensor": {"type": "string", "description": 'Its name: ${x}, it\'s \\ "q".'},
    "hour": "int",
    "value": {"type": "double", "unit": "kPa", "description": "Net."},
    "updated": "timestamp",
}
COMMENTS = {"sensor": 'Its name: ${x}, it\'s \\ "q".', "value": "Net. [kPa]"}


def declared(**changes):
    properties, constraints = {"team": "weather's"}, {"warm": "value > 5"}
    return readings(**{"columns": COLUMNS, "properties": properties, "constraints": constraints, **changes})


def constraints(path):
    return {n.rpartition(".")[2]: text for n, text in delta.properties(path).items() if n.startswith("delta.constraints.")}


@pytest.fixture(scope="module")
def template(spark, tmp_path_factory):
    """A day in silver, by a YAML with comments, a property and a constraint."""
    settings = lake_settings(tmp_path_factory.mktemp("declared") / "lake")
    land(settings, 1, ["a,1,10,2024-01-01T00:00:00Z", "b,1,,2024-01-01T00:00:00Z", "c,1,1,2024-01-01T00:00:00Z"])
    heal(spark, settings, [1], declared())
    return settings


@pytest.fixture
def settings(template, tmp_path):
    return copy_lake(template, tmp_path)


@pytest.fixture
def path(settings):
    return settings.path("silver", "readings")


def test_they_are_on_a_new_table_and_a_row_that_a_constraint_refuses_is_quarantined(spark, settings, path):
    assert delta.column_comments(path) == COMMENTS
    assert delta.properties(path)["team"] == "weather's"
    assert list(constraints(path)) == ["warm"]
    assert sorted(row["sensor"] for row in silver(settings)) == ["a", "b"], "NULL passes"
    [row] = rows_of(settings.path("quarantine", "readings"), ["sensor", "reasons"])
    assert (row["sensor"], row["reasons"][0]["check"]) == ("c", "constraint_warm")
    with pytest.raises(RefusedError, match="constraint_warm cannot be overridden"):
        release(runner(spark, settings, declared()), window(1).start, None, waived=["constraint_warm"], by="me", because="x")
    before = delta.version(path)
    heal(spark, settings, [1], declared())
    assert (delta.version(path), migrate(runner(spark, settings, declared()))) == (before, [])
    # Readers without Spark open the table: its reader version is Delta's first.
    assert delta.open_table(path).protocol().min_reader_version == 1


CHANGED = {**COLUMNS, "sensor": "string", "value": {"type": "double", "unit": "hPa"}}


def set_by_hand(spark, path):
    table = f"ALTER TABLE delta.`{path}`"
    spark.sql(f"{table} ALTER COLUMN hour COMMENT 'by hand'")
    spark.sql(f"{table} SET TBLPROPERTIES ('theirs' = '1', 'delta.logRetentionDuration' = 'interval 9 days')")
    spark.sql(f"{table} ADD CONSTRAINT their_own CHECK (hour >= 0)")


def keeps_what_is_by_hand(path):
    properties = delta.properties(path)
    logs_kept = properties.get("delta.logRetentionDuration")
    by_hand = (delta.column_comments(path).get("hour"), properties.get("theirs"), logs_kept, "their_own" in constraints(path))
    return by_hand == ("by hand", "1", "interval 9 days", True)


def test_a_migration_applies_changes_of_the_yaml_and_keeps_what_is_by_hand(spark, settings, path):
    set_by_hand(spark, path)
    changed = declared(columns=CHANGED, properties={"tier": 1}, constraints={"warm": "value > 6", "early": "hour < 24"})
    status = read_schema_status(settings, changed)
    assert not status.matches
    assert [(step.column, step.rewrites) for step in plan_of(status)] == [
        ("comments.value", False), ("comments.sensor", False), ("properties.tier", False), ("properties.team", False),
        ("constraints.warm", False), ("constraints.early", False),
    ]  # fmt: skip
    rows = silver(settings)
    migrate(runner(spark, settings, changed))
    assert read_schema_status(settings, changed).matches
    assert delta.column_comments(path) == {"value": "[hPa]", "hour": "by hand"}
    properties = delta.properties(path)
    assert (properties.get("team"), properties["tier"], set(constraints(path))) == (None, "1", {"warm", "early", "their_own"})
    assert "6" in constraints(path)["warm"]
    assert keeps_what_is_by_hand(path)
    assert silver(settings) == rows


@pytest.mark.exhaustive(seconds=30)
def test_silver_made_anew_keeps_what_is_by_hand_and_the_next_run_removes_the_rest(spark, settings, path):
    set_by_hand(spark, path)
    wider = {**CHANGED, "hour": "bigint"}
    migrate(runner(spark, settings, declared(columns=wider, properties={})))
    assert keeps_what_is_by_hand(path) and set(constraints(path)) == {"warm", "their_own"}
    assert delta.column_comments(path) == {"value": "[hPa]", "hour": "by hand"}
    land(settings, 2, ["a,2,3,2024-01-02T00:00:00Z"])
    undeclared = readings(columns={**wider, "value": "double"})
    heal(spark, settings, [2], undeclared)
    assert (delta.column_comments(path), len(silver(settings))) == ({"hour": "by hand"}, 3)
    rebuild(runner(spark, settings, undeclared))
    assert keeps_what_is_by_hand(path) and set(constraints(path)) == {"their_own"}


@pytest.mark.exhaustive(seconds=30)
@pytest.mark.parametrize("statement", range(1, 7))
def test_a_change_that_is_interrupted_is_completed_by_the_next_run(spark, settings, path, monkeypatch, statement):
    set_by_hand(spark, path)
    changed = declared(columns=CHANGED, properties={"tier": 1}, constraints={"hot": "value > 7", "early": "hour < 24"})
    sql, calls = spark.sql, []

    def interrupted(text):
        calls.append(text)
        if len(calls) == statement:
            raise KeyboardInterrupt
        return sql(text)

    monkeypatch.setattr(spark, "sql", interrupted)
    with pytest.raises(KeyboardInterrupt):
        apply_declarations(spark, path, changed)
    monkeypatch.undo()
    heal(spark, settings, [1], changed)
    assert read_schema_status(settings, changed).matches
    assert set(constraints(path)) == {"hot", "early", "their_own"}
    assert (delta.properties(path)["tier"], "team" in delta.properties(path)) == ("1", False)
    assert keeps_what_is_by_hand(path)


def test_a_constraint_that_rows_violate_changes_nothing(spark, settings, path):
    before = delta.version(path)
    strict = declared(properties={"team": "other"}, constraints={"warm": "value > 5", "hot": "value > 50"})
    land(settings, 2, ["a,2,60,2024-01-02T00:00:00Z"])
    message = r"constraints\.hot: 1 row\(s\) of silver violate it; nothing was changed.*--rejudge.*or remove the constraint"
    for change in (lambda: heal(spark, settings, [2], strict), lambda: migrate(runner(spark, settings, strict))):
        with pytest.raises(RefusedError, match=message):
            change()
        assert (delta.version(path), len(silver(settings))) == (before, 2)
    heal(spark, settings, [2], declared())
    assert len(silver(settings)) == 3


@pytest.mark.exhaustive(seconds=15)
def test_a_constraint_of_somebody_else_is_not_taken_over_and_stops_rows_with_a_clear_error(spark, settings, path):
    spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT cold CHECK (value < 100 OR value IS NULL)")
    with pytest.raises(RefusedError, match=r"constraints\.cold: silver has a constraint of this name that somebody else"):
        heal(spark, settings, [1], declared(constraints={"cold": "value < 90"}))
    land(settings, 2, ["a,2,150,2024-01-02T00:00:00Z"])
    spec = declared(checks=[])
    with pytest.raises(RefusedError, match="violate silver's constraint cold") as error:
        heal(spark, settings, [2], spec)
    assert "150" not in str(error.value)
    spark.sql(f"ALTER TABLE delta.`{path}` DROP CONSTRAINT cold")
    heal(spark, settings, [2], spec)
    assert len(silver(settings)) == 3
