"""`defaults.yaml` and `packs.yaml` beside the tables: they load, and a mistake is reported where it is written.

Belongs here: files, lines and keys. Does not: how the parts are put together (test_sharing).
"""

import re

import pytest

from lakehouse_assets.contracts import document
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.orchestration.assets.project_tables import load_tables
from lakehouse_assets.orchestration.validate import text_ranges, unmatched_patterns, unused_packs

TABLE = """\
type: lakehouse_assets.LakehouseTable
attributes:
  name: {name}
  source: {{kind: files, path: "{name}/{{window:%Y-%m-%d}}.csv", format: csv}}
  extraction: {{cadence: daily, start: 2024-01-01}}
  key: [id]
  columns:
    id: string
    value: double
  packs:
    - checked
    - {{pack: bounded, with: {{column_name: value}}}}
  checks:
    - {{check: not_empty}}
    - {{check: in_range, column: value, name: positive, min: 0}}
"""
PACKS = """\
checked:
  description: What everybody promises.
  checks:
    - {check: not_null, column: "${column}", for_columns: "v*"}
bounded:
  parameters: {column_name: , most: "${MOST}"}
  checks:
    - check: in_range
      column: ${column_name}
      name: bounded
      max: ${most}
"""
DEFAULTS = """\
tables:
  owners: ["team:all"]
checks:
  not_empty: {severity: warning}
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Load tables from texts."""
    monkeypatch.setenv("LAKEHOUSE_VAR_MOST", "10")

    def loaded(table=TABLE.format(name="first"), packs=PACKS, defaults=DEFAULTS, sql=None, **others):
        folder = tmp_path / "tables"
        for name, text in {"first": table, **others}.items():
            (folder / name).mkdir(parents=True, exist_ok=True)
            (folder / name / "defs.yaml").write_text(text)
            if sql:
                (folder / name / "means.sql").write_text(sql)
        (folder / "__init__.py").touch()
        (folder / "packs.yaml").write_text(packs)
        (folder / "defaults.yaml").write_text(defaults)
        return load_tables(folder)

    return loaded


def test_several_tables_in_one_file_share_packs_and_defaults(load):
    both = TABLE.format(name="first") + "---\n" + TABLE.format(name="second").replace("min: 0", "min: 1")
    first, second = load(both)
    assert (first.spec.name, second.spec.name) == ("first", "second")
    assert [c.id for c in first.spec.checks] == ["not_null_value", "bounded", "not_empty", "positive"]
    assert [c.severity for c in first.spec.checks] == ["critical", "critical", "warning", "critical"]
    assert first.spec.checks[1].model_dump(exclude_defaults=True)["max"] == 10
    assert first.spec.owners == ("team:all",)
    locations = [
        re.sub(".*/tables/", "", table.source_map.at(("checks", n))) for table in (first, second) for n in (0, 1, 2, 3)
    ]
    assert locations == [
        "packs.yaml:4", "packs.yaml:8", "first/defs.yaml:14", "first/defs.yaml:15",
        "packs.yaml:4", "packs.yaml:8", "first/defs.yaml:30", "first/defs.yaml:31",
    ]  # fmt: skip
    assert re.sub(".*/tables/", "", first.source_map.at(("owners",))) == "defaults.yaml:2"


def refused(load, **texts) -> str:
    with pytest.raises(ConfigError) as caught:
        load(**texts)
    return re.sub(r"\S*/tables/", "", str(caught.value))


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        ("packs", "description:", "descripton:", "packs.yaml:2: checked.descripton: not known here"),
        ("packs", "checked:", "Checked:", "packs.yaml:1: Checked: a pack's name"),
        ("packs", "  checks:\n    - {check: not_null", "  check:\n    - {check: not_null", "checked.check: not known here"),
        ("packs", "column_name: ,", "Column: ,", "packs.yaml:6: bounded.parameters: 'Column'"),
        ("packs", "- check: in_range", "- check: in_rang", "defs.yaml:12: packs.1: check 0 of pack bounded (in_rang)"),
        ("packs", "max: ${most}", "max: 1\n      least: 3", "pack bounded (in_range): least: not known"),
        ("packs", "name: bounded", "name: positive", "another is called 'positive'"),
        ("packs", "column: ${column_name}", "column: valeu", "there are id, value (in table first)"),
        ("packs", "max: ${most}", "max: ${LEAST}", "${LEAST} is no parameter of the pack"),
        ("packs", "checked:", "checked: &x", "packs.yaml:1: anchor &x is not allowed"),
        ("packs", "checked:", "bounded:", "packs.yaml:5: key 'bounded' is given twice"),
        ("defaults", "not_empty", "not_emty", "defaults.yaml:3: checks: 'not_emty': there is no such kind"),
        ("defaults", "severity: warning", "severty: warning", "checks: not_empty: there is no parameter severty"),
        ("defaults", "tables:", "table:", "defaults.yaml:1: table: not known here"),
        ("defaults", "owners", "ownrs", "defaults.yaml:2: tables.ownrs: not known here"),
        ("defaults", '["team:all"]', "7", "defaults.yaml:2: tables.owners: a list is wanted: [a, b]"),
        ("defaults", "severity: warning", "severity: grave", "defaults.yaml:4: checks.not_empty.severity: Input"),
        ("table", "check: not_empty", "check: not_empty, severity: grave", "defs.yaml:14: checks.0.not_empty.severity: Input"),
        ("table", "- checked", "- cheked", "defs.yaml:11: packs.0: there is no pack 'cheked'; there are checked, bounded"),
        ("table", "column_name: value", "column_nam: value", "defs.yaml:12: packs.1.with: pack bounded has no"),
        ("table", "name: positive, min: 0", "name: positive", "defs.yaml:15: checks.1.in_range: in_range needs"),
        ("table", "column: value, name", "column: vlaue, name", "defs.yaml:15: checks.1 (positive): no column 'vlaue'"),
        ("table", "id: string", "id: ${TYPE}", "defs.yaml:8: columns.id: the environment has no LAKEHOUSE_VAR_TYPE"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_where_it_is_written(load, file, old, new, expected):
    texts = {"table": TABLE.format(name="first"), "packs": PACKS, "defaults": DEFAULTS}
    assert old in texts[file]
    message = refused(load, **{**texts, file: texts[file].replace(old, new, 1)})
    assert expected in message, message


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("{sevrity: info}", "defs.yaml:13: packs.1.override.bounded.sevrity: not known here"),
        ("{severity: grave}", "defs.yaml:13: packs.1.override.bounded.severity: Input should be 'critical'"),
        ("{min: 20}", "defs.yaml:13: packs.1.override.bounded: min 20 is above max 10"),
        ("{where: rand() > 1}", "defs.yaml:13: packs.1.override.bounded.where: where: "),
        ("{column: valeu}", "defs.yaml:13: packs.1.override.bounded (bounded): no column 'valeu' is declared"),
        ("{where: valeu > 1}", "defs.yaml:13: packs.1.override.bounded (bounded): no column 'valeu' is declared"),
        ("{name: positive}", "defs.yaml:17: checks.1: another is called 'positive'"),
        ("{name: not_null_value}", "defs.yaml:13: packs.1.override.bounded: another is called 'not_null_value'"),
        ("{depends_on: [nope]}", "defs.yaml:13: packs.1.override.bounded.depends_on: there is no check 'nope'"),
    ],
)
def test_a_mistake_in_an_override_is_reported_there(load, override, expected):
    use = f"    - pack: bounded\n      override: {{bounded: {override}}}\n      with: {{column_name: value}}\n"
    table = TABLE.format(name="first").replace("    - {pack: bounded, with: {column_name: value}}\n", use)
    message = refused(load, table=table)
    assert expected in message, message
    assert "(in table first)" not in message


def test_a_mistake_of_the_pack_stays_there_whatever_is_overridden(load):
    table = TABLE.format(name="first").replace("with: {column_name: value}", "with: {}, override: {bounded: {severity: info}}")
    message = refused(load, table=table, packs=PACKS.replace("{column_name: ,", "{column_name: valeu,"))
    assert "packs.yaml:8: bounded.checks.0 (bounded): no column 'valeu' is declared" in message, message
    assert "(in table first)" in message


def test_golds_override_too(load):
    gold = """\
  gold:
    - name: means
      sql: means.sql
      key: [id]
      packs:
        - pack: bounded
          with: {column_name: mean}
          override: {bounded: {where: maen > 1}}
"""
    with pytest.raises(ConfigError) as caught:
        load(table=TABLE.format(name="first") + gold, sql="select id, avg(value) as mean from silver_first group by id")
    assert re.search(
        r"first/defs\.yaml:23: gold\.means\.checks \(bounded\): the SELECT .* has no column maen", str(caught.value)
    )


def test_files_that_are_shared_are_read_once(load, monkeypatch):
    read = []
    strict = document._Strict

    def counted(text):
        read.append(text)
        return strict(text)

    monkeypatch.setattr(document, "_Strict", counted)
    packs = PACKS + "# of this test\n"
    three = "---\n".join(TABLE.format(name=name) for name in ("first", "second", "third"))
    assert len(load(table=three, packs=packs, defaults=DEFAULTS + "# of this test\n")) == 3
    assert [sum(text.startswith(start) for text in read) for start in ("checked:", "tables:", "type:")] == [1, 1, 1]


def test_patterns_that_fit_no_column(load):
    times = '    - {check: not_null, column: "${column}", name: "at_${column}", for_columns: "*_at"}\n'
    packs = PACKS.replace("bounded:\n", times + "bounded:\n", 1)
    first = TABLE.format(name="first")
    tables = load(packs=packs)
    mistakes, notes = unmatched_patterns(tables)
    assert [re.sub(".*/tables/", "", line) for line in mistakes] == [
        "packs.yaml:5: checked.checks.1.for_columns: '*_at' fits no column of any table that uses this pack"
    ]
    assert notes == []
    second = TABLE.format(name="second").replace("    value: double", "    value: double\n    made_at: timestamp")
    mistakes, notes = unmatched_patterns(load(table=first + "---\n" + second, packs=packs))
    assert mistakes == []
    assert [re.sub(r"\S*/tables/", "", line) for line in notes] == [
        "first/defs.yaml:10: packs: '*_at' (checked.checks.1.for_columns) fits no column here"
    ]
    # What a table does not want did fit.
    unwanted = second.replace("    - checked\n", "    - {pack: checked, without: [at_made_at]}\n")
    assert unmatched_patterns(load(table=unwanted, packs=packs)) == ([], [])
    assert unmatched_patterns(load()) == ([], [])


def test_a_pack_that_nobody_uses(load):
    tables = load(packs=PACKS + "idle:\n  checks: [{check: not_empty}]\n")
    assert [re.sub(".*/tables/", "", line) for line in unused_packs(tables)] == ["packs.yaml:12: idle: no table uses this pack"]
    assert unused_packs(load()) == []


def test_a_range_of_a_text_column_is_a_note(load):
    assert text_ranges(load()) == []
    lines = text_ranges(load(table=TABLE.format(name="first").replace("value: double", "value: string")))
    why = "value is string: the first text that is no number puts the check in error; declare the column's type"
    assert [re.sub(r"\S*/tables/", "", line) for line in lines] == [
        f"packs.yaml:8: bounded.checks.0: bounded: {why}",
        f"first/defs.yaml:15: checks.1: positive: {why}",
    ]
