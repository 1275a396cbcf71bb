"""A `defs.yaml` or gold SQL that is wrong: one ConfigError that names the file, the line and the key.

Belongs here: what a person sees who mistypes. Does not: which values a check or a source refuses (their own tests).
"""

import re

import pytest

from lakehouse_assets.contracts.gold_rules import personal_columns
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.orchestration.assets.component import load_tables

GOOD = """\
type: lakehouse_assets.LakehouseTable

attributes:
  name: readings
  source: {kind: files, path: "readings/{window:%Y-%m-%d}.csv", format: csv}
  extraction: {cadence: daily, start: 2024-01-01, mode: upsert}
  key: [sensor]
  columns:
    sensor: string
    value: double
  checks:
    - {check: not_empty}
    - {check: in_range, column: value, min: 0, max: 10}
"""
GOLD = GOOD + "  gold:\n    - {name: means, sql: means.sql, key: [sensor]}\n"
ATTRIBUTES = 3  # a missing key is reported with the line of `attributes:`


@pytest.fixture
def load(tmp_path):
    """Load one table from text."""

    def loaded(text: str | bytes, **files: str):
        folder = tmp_path / "tables" / "readings"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "defs.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        for name, content in files.items():
            (folder / f"{name}.sql").write_text(content)
        return load_tables(folder.parent), folder / "defs.yaml"

    return loaded


def refused(load, text: str | bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert caught.value.exit_code == 2
    return str(caught.value)


def names(message: str, *lines: int) -> bool:
    return any(re.search(rf"tables/readings/defs\.yaml:{line}(?!\d)", message) for line in lines)


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


@pytest.mark.parametrize(
    ("layout", "line", "message"),
    [
        ("{partition_by: [sensr]}", 11, "layout.partition_by.0: there is no column 'sensr'; there are sensor, value"),
        ("{partition_by: [value]}", 11, "layout.partition_by.0: value is double, whose values make no folders"),
        ("{partition_by: [sensor], cluster_by: [value]}", 11, "layout: state either partition_by or cluster_by; it has both"),
        ("{cluster_by: [a, b, c, d, e]}", 11, "layout.cluster_by: Tuple should have at most 4 items"),
        (
            "\n      partition_by: [v]\n      derived: {v: {type: int, expr: int(value)}}",
            12,
            "layout.partition_by.0: v does not follow from the key (sensor), because of value",
        ),
        ("\n      partition_by: [v]\n      derived: {v: {type: int, expr: int(vlue)}}", 13, "no column 'vlue' is declared"),
    ],
)
def test_a_layout_that_silver_cannot_have(load, layout, line, message):
    text = refused(load, GOOD.replace("  checks:", f"  layout: {layout}\n  checks:"))
    assert names(text, line), text
    assert message in text


def test_a_layout_that_gold_cannot_have(load):
    text = GOLD.replace("key: [sensor]}", "key: [sensor], layout: {partition_by: [sensor, mean]}}")
    with pytest.raises(ConfigError) as caught:
        load(text, means="select sensor, avg(value) as mean from silver_readings group by sensor")
    assert names(str(caught.value), 15), caught.value
    assert "gold.means.layout.partition_by.1: mean is double, whose values make no folders" in str(caught.value)


def test_the_unmodified_table_loads(load):
    (table,), file = load(GOOD)
    assert (table.spec.name, table.folder) == ("readings", file.parent)


@pytest.mark.parametrize(
    ("old", "new", "line", "expected"),
    [
        ("key: [sensor]", "key: [sensor", 8, "expected ',' or ']'"),
        ("    sensor: string", "\tsensor: string", 9, "found character '\\t'"),
        ("  key: [sensor]\n", "  key: [sensor]\n  key: [value]\n", 8, "key 'key' is given twice"),
        ("    value: double", "    value: double\n    value: string", 11, "key 'value' is given twice"),
        ("max: 10", "max: 10, max: 11", 13, "key 'max' is given twice"),
        ("key: [sensor]", "key: &k [sensor]\n  owners: *k", 7, "anchor &k is not allowed"),
        ("key: [sensor]", "key: !!python/object/apply:os.system [ls]", 7, "python/object/apply:os.system"),
        ("key: [sensor]", "key: !env KEY", 7, "tag !env is not allowed"),
        ("    value: double", "    ? [a]\n    : string", 10, "unhashable key"),
    ],
)
def test_yaml_itself(load, old, new, line, expected):
    message = refused(load, GOOD.replace(old, new, 1))
    assert names(message, line), message
    assert expected in message


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "expected"),
    [
        ("  key:", "  keys:", 7, "keys", "not known here; did you mean key? There are name, description"),
        ("format: csv", "format: csv, glob: x", 5, "source.glob", "not known here; there are kind, path, format"),
        ("max: 10", "maximum: 10", 13, "checks.1.in_range.maximum", "not known here; did you mean max? There are"),
        ("not_empty", "not_emty", 12, "checks.0", "'not_emty'"),
        ("not_empty", "not_emty", 12, "checks.0", "not_null"),
        ("name: readings", "name: Readings", 4, "name", "is not a table name"),
        ("name: readings", "name: gold_readings", 4, "name", "are reserved"),
        ("value: double", "value: duoble", 10, "columns.value.type", "unknown type 'duoble'"),
        ("value: double", "wind speed: double", 8, "columns", "use `from:` for the source's"),
        ("value: double", "_value: double", 8, "columns", "are reserved"),
        ("cadence: daily", "cadence: dayly", 6, "extraction.cadence", "'hourly', 'daily'"),
        ("{window:%Y-%m-%d}", "data", 5, "source.path", "has no {window:...} placeholder"),
        ("{window:%Y-%m-%d}", "{window:%B}", 5, "source.path", "cannot be read back"),
        ("readings/{", "/data/{", 5, "source.path", "relative to the landing folder"),
        ("readings/{", "../{", 5, "source.path", "leaves the landing folder"),
        ("min: 0, max: 10", "min: 10, max: 0", 13, "checks.1.in_range", "min 10 is above max 0"),
        ("min: 0, max: 10", "severity: info", 13, "checks.1.in_range", "needs min, max or both"),
        ("min: 0, max: 10", "min: true", 13, "checks.1.in_range.min", "true is no number"),
        ("{check: not_empty}", "{check: row_count, min: true}", 12, "checks.0.row_count.min", "true is no number"),
        ("cadence: daily", "cadence: daily, lookback: false", 6, "extraction.lookback", "false is no number"),
        (
            "{check: not_empty}",
            "{check: foreign_key, columns: [sensor, sensor], table: planes}",
            12,
            "checks.0.foreign_key",
            "columns: a column is listed twice: sensor, sensor",
        ),
        (
            "{check: not_empty}",
            "{check: foreign_key, columns: [sensor, value], to: [a, a], table: planes}",
            12,
            "checks.0.foreign_key",
            "to: a column is listed twice: a, a",
        ),
        ("mode: upsert", "mode: upsert, end: 2023-01-01", 6, "extraction.end", "2023-01-01 is not after start"),
        ("max: 10", "max: 10, where: value > 1; drop table x", 13, "checks.1.in_range.where", "not allowed"),
        ("name: readings", "description: none", ATTRIBUTES, "name", "Field required"),
    ],
)
def test_a_key_or_its_value(load, old, new, line, key, expected):
    message = refused(load, GOOD.replace(old, new, 1))
    assert names(message, line), message
    assert f":{line}: {key}: " in message
    assert expected in message


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "expected"),
    [
        ("column: value", "column: valeu", 13, "checks.1 (in_range_valeu)", "no column 'valeu'"),
        ("max: 10", "max: 10, where: valeu > 1", 13, "checks.1 (in_range_value)", "no column 'valeu'"),
        (
            "- {check: not_empty}",
            "- {check: not_empty}\n    - {check: sql, name: s, sql: select avg(valeu) a from batch}",
            13,
            "checks.1 (s)",
            "no column 'valeu'",
        ),
        ("key: [sensor]", "key: [sensr]", 7, "key", "no column 'sensr'"),
        ("  key:", "  last_modified: updated\n  key:", 7, "last_modified", "no column 'updated'"),
        ("  checks:", "  drift: {features: [valeu]}\n  checks:", 11, "drift.features.0 (valeu)", "no column 'valeu'"),
        (
            "  checks:",
            "  drift: {features: [{name: d, expr: value - valeu}]}\n  checks:",
            11,
            "drift.features.0 (d)",
            "no column 'valeu'",
        ),
        (
            "  checks:",
            "  drift: {features: [{name: value, by: sit}]}\n  checks:",
            11,
            "drift.features.0 (value)",
            "no column 'sit'",
        ),
        ("mode: upsert", "mode: upsert, delete_when: op = 'D'", 6, "extraction.delete_when", "no column 'op'"),
        ("  key: [sensor]\n", "", 6, "extraction.mode", "key is needed in upsert mode"),
        ("mode: upsert", "mode: append", 7, "key", "does not apply in append mode"),
        ("- {check: not_empty}", "- {check: not_empty}\n    - {check: not_empty}", 13, "checks.1", "called 'not_empty'"),
        ("%Y-%m-%d", "%Y-%m", 5, "source.path", "has no %d or %j, so that daily windows would share their files"),
    ],
)
def test_two_keys_that_contradict_each_other(load, old, new, line, key, expected):
    message = refused(load, GOOD.replace(old, new, 1))
    assert names(message, line), message
    assert key in message
    assert expected in message
    if "no column" in expected:
        assert "there are sensor, value" in message


@pytest.mark.parametrize(
    ("old", "new", "line", "expected"),
    [
        ("max: 10", "max: 10, where: lenght(sensor) > 1", 13, "Spark has no function lenght"),
        ("value: double", "value: {type: double, expr: rond(value)}", 10, "Spark has no function rond"),
        ("  checks:", "  drift: {features: [{name: d, expr: absolute(value)}]}\n  checks:", 11, "no function absolute"),
        ("mode: upsert", "mode: upsert, delete_when: isnul(value)", 6, "Spark has no function isnul"),
        ("not_empty}", 'sql, name: s, sql: "select median2(value) m from batch"}', 12, "no function median2"),
        ("not_empty}", "metric, name: m, sql: sum(to_numbr(value)), max: 1}", 12, "no function to_numbr"),
    ],
)
def test_a_function_that_spark_has_not(load, old, new, line, expected):
    message = refused(load, GOOD.replace(old, new, 1))
    assert names(message, line), message
    assert expected in message


@pytest.mark.parametrize(
    ("kind", "check", "expected"),
    [
        ("boolean", "{check: in_range, column: value, min: 0}", "value is boolean, which Spark does not compare with a number"),
        ("date", "{check: in_range, column: value, max: 10}", "value is date, which Spark does not compare with a number"),
        ("double", "{check: in_range, column: value, min: 2024-01-01}", "does not compare with a date"),
        ("timestamp", "{check: in_set, column: value, values: [1, 2]}", "does not compare with a number"),
        ("binary", "{check: latitude, column: value}", "does not compare with a number"),
        ("boolean", "{check: in_past, column: value}", "value is boolean, of which Spark makes no timestamp"),
        ("date", "{check: statistic, column: value, of: mean, min: 0}", "value is date, of which Spark makes no number"),
        ("boolean", '{check: compare, column: updated, operator: "<", other: value}', "updated is timestamp, which Spark"),
    ],
)
def test_a_type_that_spark_refuses(load, kind, check, expected):
    text = GOOD.replace("value: double", f"value: {kind}\n    updated: timestamp")
    message = refused(load, text.replace("{check: in_range, column: value, min: 0, max: 10}", check))
    assert names(message, 14), message
    assert "checks.1 (" in message
    assert expected in message


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("{check: expression, name: c, expr: value}", "'value' is double, and no condition"),
        ("{check: expression, name: c, expr: value + 1}", "'value + 1' is arithmetic, and no condition"),
        ("{check: expression, name: c, expr: (updated)}", "'(updated)' is timestamp, and no condition"),
        ("{check: conditional, name: c, when: value, then: sensor is null}", "'value' is double, and no condition"),
        ("{check: conditional, name: c, when: sensor is null, then: value * 2}", "'value * 2' is arithmetic"),
        ("{check: sql, name: c, sql: select * from batch where value}", "'value' is double, and no condition"),
        ("{check: not_null, name: c, column: sensor, where: value % 2}", "'value % 2' is arithmetic, and no condition"),
        ("{check: metric, name: c, sql: max(sum(value)), max: 1}", "an aggregate of an aggregate"),
        ("{check: unique, name: c, columns: [sensor, value, Sensor]}", "Sensor is listed twice"),
        ("{check: exactly_one_of, name: c, columns: [sensor, sensor]}", "sensor is listed twice"),
    ],
)
def test_checks_that_can_never_be_judged_are_refused(load, check, expected):
    text = GOOD.replace("value: double", "value: double\n    updated: timestamp")
    message = refused(load, text.replace("{check: in_range, column: value, min: 0, max: 10}", check))
    assert names(message, 14), message
    assert expected in message


def test_a_type_of_golds_that_spark_refuses(load):
    text = GOLD.replace("key: [sensor]}", "key: [sensor], checks: [{check: in_range, column: mean, min: 2024-01-01}]}")
    with pytest.raises(ConfigError) as caught:
        load(text, means="select sensor, avg(value) as mean from silver_readings group by sensor")
    assert names(str(caught.value), 15), caught.value
    assert "mean is double, which Spark does not compare with a date (as means.sql computes it)" in str(caught.value)


@pytest.mark.parametrize("new", ["key: &anchor [sensor]", "key: !!seq [sensor]"])
def test_an_anchor_or_a_tag_that_does_no_harm(load, new):
    assert names(refused(load, GOOD.replace("key: [sensor]", new)), 7)


def test_several_mistakes_are_reported_at_once(load):
    message = refused(load, GOOD.replace("value: double", "value: duoble").replace("max: 10", "maximum: 10"))
    assert names(message, 10)
    assert names(message, 13)


def test_a_file_that_is_not_utf_8(load):
    message = refused(load, GOOD.encode("utf-16"))
    assert names(message, 1)
    assert "not UTF-8" in message


def test_an_unknown_key_beside_attributes(load):
    message = refused(load, GOOD + "extra: 1\n")
    assert names(message, 14)
    assert "extra: not known here" in message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("type: lakehouse_assets.LakehouseTable\n", "attributes are missing"),
        ("type: lakehouse_assets.LakehouseTable\nattributes:\n", "attributes are missing"),
        (GOOD.replace("LakehouseTable", "LakehouseTabel"), "LakehouseTabel"),
        ("type: lakehouse_assets.LakehouseTable\nattributes: " + "[" * 3000, ""),
    ],
    ids=["empty", "no attributes", "null attributes", "wrong type", "deep nesting"],
)
def test_no_table_at_all(load, text, expected):
    message = refused(load, text)
    assert "defs.yaml" in message
    assert expected in message


def test_one_name_declared_twice_is_refused(load):
    message = refused(load, GOOD + "---\n" + GOOD)
    assert "'readings' is already described in" in message
    assert "tables/readings" in message


def test_a_plain_word_is_the_text_that_it_looks_like(load):
    (table,), _ = load(GOOD + "    - {check: in_set, column: sensor, values: [NO, 010, 12:30:45]}\n")
    assert table.spec.checks[-1].values == ("NO", "010", "12:30:45")


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
