"""A `defs.yaml` that is wrong: one ConfigError that names the file, the line and the key.

Belongs here: what a person sees who mistypes. Does not: gold (test_bad_gold), expressions (test_bad_expressions), or which
values a check or a source refuses (their own tests).
"""

import pytest

from lakehouse_assets_tests.orchestration.table_text import GOOD, names, refused

ATTRIBUTES = 3  # a missing key is reported with the line of `attributes:`


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
        (
            "value: double",
            "value: {type: double, pii: yes}",
            10,
            "columns.value.pii",
            "'yes' is no boolean; write true or false",
        ),
        ("value: double", "value: {type: double, pii: 'on'}", 10, "columns.value.pii", "'on' is no boolean"),
        ("value: double", "value: {type: double, pii: 1}", 10, "columns.value.pii", "1 is no boolean; write true or false"),
        ("format: csv", "format: csv, multiline: off", 5, "source.multiline", "'off' is no boolean; write true or false"),
        ("  checks:", "  drift: {features: [value], relations: no}\n  checks:", 11, "drift.relations", "'no' is no boolean"),
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


def test_columns_that_do_not_exist_are_all_named_at_once(load):
    checks = """
    - {check: in_range, column: valeu, min: 0}
    - {check: expression, name: s, expr: vale > 0 AND sensr <> ''}
    - {check: not_null, column: sensor, where: vlue > 1}
    - {check: in_range, column: value, min: 2024-01-01}
"""
    text = GOOD.partition("    - {check")[0].rstrip() + checks
    text = text.replace("key: [sensor]", "key: [snsor]\n  drift: {features: [valu]}")
    lines = refused(load, text).splitlines()
    expected = [
        (7, "snsor"), (8, "valu"), (13, "valeu"), (14, "sensr"), (14, "vale"), (15, "vlue"), (16, "value"),
    ]  # fmt: skip
    assert len(lines) == len(expected), lines
    for line, name in expected:
        assert any(names(each, line) and (f"'{name}'" in each or name == "value") for each in lines), (line, name, lines)


@pytest.mark.parametrize(
    "bad", ["{check: in_range, column: value, maximum: 1}", "{check: in_rnge}", "5", "{check: expression, expr: (}"]
)
def test_a_check_that_cannot_be_read_hides_no_mistake_of_the_others(load, bad):
    checks = f"""
    - {bad}
    - {{check: not_null, column: valeu}}
    - {{check: not_null, column: value, name: last, depends_on: [in_range_value, first]}}
"""
    text = GOOD.partition("    - {check")[0].rstrip() + checks
    lines = refused(load, text).splitlines()
    assert [number for number in (12, 13, 14) if any(names(each, number) for each in lines)] == [12, 13], lines
    assert any("no column 'valeu'" in line for line in lines)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("value: double", "value: duoble"),
        ("value: double", "value: {type: double, unti: m}"),
        ("  key: [sensor]", "  owners: me\n  key: [sensor]"),
        ("  key: [sensor]", "  maintenance: {vacuum_days: -1, quarantine_days: -1}\n  key: [sensor]"),
        ("  key: [sensor]", "  nowhere_near: 1\n  key: [sensor]"),
    ],
)
def test_a_column_or_a_key_that_cannot_be_read_hides_no_mistake_between_others(load, old, new):
    checks = """
    - {check: not_null, column: snsor}
    - {check: in_range, column: value, min: 2024-01-01}
"""
    assert old in GOOD
    text = GOOD.partition("    - {check")[0].rstrip().replace(old, new) + checks
    lines = refused(load, text).splitlines()
    assert any("no column 'snsor'" in line for line in lines), lines
    of_value = [line for line in lines if "(in_range_value)" in line]
    assert len(of_value) == (0 if "value" in new else 1), "what may follow from the column's own mistake is left out"
    assert len(lines) == 1 + len(of_value) + max(1, new.count("-1")), lines


def test_a_misspelled_key_hides_what_may_follow_from_it(load):
    (line,) = refused(load, GOOD.replace("  key: [sensor]", "  kye: [snsor]")).splitlines()
    assert "did you mean key?" in line


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
