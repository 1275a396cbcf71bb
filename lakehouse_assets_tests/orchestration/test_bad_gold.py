"""Gold that is wrong, in its SQL or in the `defs.yaml`: one ConfigError that names the file, the line and the key.

Belongs here: what a person sees who mistypes. Does not: the table above it (test_bad_config), or deriving gold (pipeline).
"""

import pytest

from lakehouse_assets.contracts.gold_rules import personal_columns
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError
from lakehouse_assets_tests.orchestration.table_text import GOOD, names, refused

GOLD = GOOD + "  gold:\n    - {name: means, sql: means.sql, key: [sensor]}\n"


def test_golds_checks_name_columns_of_its_sql(load):
    text = GOLD.replace("key: [sensor]}", "key: [sensor], checks: [{check: not_null, column: nope}]}")
    with pytest.raises(ConfigError) as caught:
        load(text, means="select sensor, avg(value) as mean from silver_readings group by sensor")
    assert names(str(caught.value), 15), caught.value
    assert "the SELECT in means.sql has no column nope; it has sensor, mean" in str(caught.value)


def test_sql_checks_of_gold_name_columns_of_its_sql(load):
    check = "{check: sql, name: s, sql: select avg(maen) as m from batch}"
    text = GOLD.replace("key: [sensor]}", f"key: [sensor], checks: [{check}]}}")
    with pytest.raises(ConfigError) as caught:
        load(text, means="select sensor, avg(value) as mean from silver_readings group by sensor")
    assert names(str(caught.value), 15), caught.value
    assert "the SELECT in means.sql has no column maen; it has sensor, mean" in str(caught.value)


@pytest.mark.parametrize("sql", ["select Sensor as who", "select SENSOR as WHO", "select upper(sEnsor) as Who"])
def test_personal_columns_of_gold_match_in_any_spelling(load, sql):
    text = GOLD.replace("    sensor: string", "    Sensor: {type: string, pii: true}").replace(
        "key: [sensor]", "key: [Sensor]", 1
    )
    (table,), _ = load(text.replace("key: [sensor]", "key: [who]"), means=f"{sql}, value from silver_readings")
    query = table.query_of(table.spec.gold[0], [])
    assert personal_columns(query, [table.spec]) == {"who"}


@pytest.mark.parametrize(
    ("select", "grain", "refused"),
    [
        ("sensor as who", "{column: who, inputs: {silver_readings: sensor}}", True),
        ("'all' as who", "{column: who, inputs: {silver_readings: 'left(SENSOR, 1)'}}", True),
        ("'all' as who", "{column: who, inputs: {silver_readings: 'int(value)'}}", False),
    ],
)
def test_a_grain_of_a_personal_column_is_refused(load, select, grain, refused):
    """Its values stand in each decision, and are shown."""
    text = GOLD.replace("    sensor: string", "    sensor: {type: string, pii: true}")
    text = text.replace("key: [sensor]}", f"key: [who], grain: {grain}}}")
    if not refused:
        load(text, means=f"select {select}, value from silver_readings")
        return
    with pytest.raises(ConfigError) as caught:
        load(text, means=f"select {select}, value from silver_readings")
    assert names(str(caught.value), 15), caught.value
    assert "gold.means.grain: its values are kept with each decision and shown" in str(caught.value)


def test_a_layout_that_gold_cannot_have(load):
    text = GOLD.replace("key: [sensor]}", "key: [sensor], layout: {partition_by: [sensor, mean]}}")
    with pytest.raises(ConfigError) as caught:
        load(text, means="select sensor, avg(value) as mean from silver_readings group by sensor")
    assert names(str(caught.value), 15), caught.value
    assert "gold.means.layout.partition_by.1: mean is double, whose values make no folders" in str(caught.value)


def test_a_type_of_golds_that_spark_refuses(load):
    text = GOLD.replace("key: [sensor]}", "key: [sensor], checks: [{check: in_range, column: mean, min: 2024-01-01}]}")
    with pytest.raises(ConfigError) as caught:
        load(text, means="select sensor, avg(value) as mean from silver_readings group by sensor")
    assert names(str(caught.value), 15), caught.value
    assert "mean is double, which Spark does not compare with a date (as means.sql computes it)" in str(caught.value)


def means(load, sql: str | None):
    (table,), file = load(GOLD, **({"means": sql} if sql is not None else {}))
    specs: list[TableSpec] = [table.spec]
    return table.query_of(table.spec.gold[0], specs), file


def test_gold_that_is_right(load):
    query, _ = means(load, "select sensor, avg(value) as mean\nfrom silver_readings\ngroup by sensor\n")
    assert query.inputs == ("silver_readings",)
    assert query.lineage["mean"] == {("silver_readings", "value")}


@pytest.mark.parametrize(
    ("sql", "where", "expected"),
    [
        ("select sensor,\n  avg(valeu) as mean\nfrom silver_readings group by sensor", "means.sql:2", "valeu"),
        ("select sensor\nfrom silver_readins", "means.sql:2", "no such table; there are silver_readings"),
        ("select sensor\nfrom other.silver_readings", "means.sql:2", "no such table"),
        ("select 1 as sensor", "means.sql:1", "reads no table of this lakehouse"),
        ("select sensor\nfrom silver_readings\nwhere (", "means.sql:3", ""),
        ("drop table silver_readings", "means.sql:1", "exactly one SELECT"),
        ("select sensor from silver_readings; select 1", "means.sql:1", "exactly one SELECT"),
        ("", "means.sql:1", "exactly one SELECT"),
        ("select transform(sensor) using 'touch /tmp/x' as (sensor) from silver_readings", "means.sql:1", "runs a command"),
        ("select reflect('java.lang.System', 'exit', 1) as sensor from silver_readings", "means.sql:1", "function reflect"),
        ("select sensor, rand() as r from silver_readings", "means.sql:1", "another answer each time"),
        ("select sensor, current_date as d from silver_readings", "means.sql:1", "another answer each time"),
        ("select sensor, '${env:HOME}' as home from silver_readings", "means.sql:1", "a setting in its place"),
        ("select sensor,\n  lenght(sensor) as n from silver_readings", "means.sql:2", "Spark has no function lenght"),
        ("select sensor from csv.`/etc/passwd`", "means.sql:1", "no such table"),
        ("select sensor from silver_readings where 'it''s' = sensor", "means.sql:1", "two strings side by side"),
        ("select " + "(" * 3000 + "1" + ")" * 3000 + " as sensor from silver_readings", "means.sql:1", "cannot be parsed: "),
        ("select value from silver_readings", "defs.yaml", "gold.means.key: the SELECT in means.sql has no column sensor"),
        (None, "defs.yaml", "gold.means.sql: there is no means.sql beside defs.yaml"),
    ],
)
def test_gold_sql(load, sql, where, expected):
    with pytest.raises(ConfigError) as caught:
        means(load, sql)
    assert f"tables/readings/{where}:" in str(caught.value)
    assert expected in str(caught.value)


def test_gold_sql_outside_the_tables_folder(load):
    message = refused(load, GOLD.replace("means.sql", "../means.sql"))
    assert names(message, 15)
    assert "beside defs.yaml" in message
