"""What batches make of a contract, pure: plans, what accepted decisions add up to, what the gate says, and who reads a column.

Belongs here: records and decisions made by hand. Does not: comparing types (test_schema), or real batches (layers).
"""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from lakehouse_assets.contracts.decision import Counts, ExtractionRecord
from lakehouse_assets.contracts.lineage import read_gold
from lakehouse_assets.contracts.references import readers_of
from lakehouse_assets.decisions.schema.evolution import count_batches_together, effective_table, plan, staged_table
from lakehouse_assets.decisions.schema.gate import columns_not_among, schema_outcomes
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.support import readings, window

NOW = datetime(2024, 6, 1, tzinfo=UTC)
BASE = {"sensor": "string", "hour": "int", "value": "int", "updated": "timestamp"}
EVOLVE = {"new_columns": "evolve", "type_changes": "widen"}
EVOLVES = readings(columns=BASE, schema={"new_columns": "evolve", "type_changes": "widen"})


def batch(day: int, types: dict[str, str] | None = None, names=(), lacking=(), respelled=None, rows=3) -> ExtractionRecord:
    types = {**BASE, **(types or {})} if types is not None else {}
    columns = tuple(dict.fromkeys([*BASE, *types, *names]))
    columns = tuple(name for name in columns if name not in lacking)
    record = ExtractionRecord("readings", window(day).start, 1, "print", rows, columns, 0, "run", NOW, (), types)
    return replace(record, respelled=respelled or {})


def decided(number: int, evolved: dict[str, str], **more):
    return logbook.decided(number, evolved=evolved, **more)


def types(spec):
    return {name: column.type for name, column in spec.columns.items()}


def outcomes(spec, record, ever=(), casts=None, readers=None):
    results = schema_outcomes(spec, record, plan(spec, record, readers), {*record.columns, *ever}, casts)
    return {outcome.check: outcome for outcome in results}


def test_ignored_columns_are_named_by_a_check_that_passes():
    spec = effective_table(readings(), [])
    note = outcomes(spec, batch(1, names=("my_x20_note", "Tariff")))["new_columns"]
    assert (note.status, note.effect, note.failed_rows) == ("passed", "none", 0)
    assert note.message == "not declared, left in bronze: my note, Tariff"
    assert outcomes(spec, batch(1)) == {}
    personal = {
        "columns": {**{name: kind for name, kind in BASE.items() if name != "value"}, "value": {"type": "double", "pii": True}}
    }
    assert outcomes(effective_table(readings(**personal), []), batch(1, names=("Tariff",))) == {}


def test_ignored_columns_are_not_named_beside_new_columns_that_fail(monkeypatch):
    spec, record = effective_table(readings(), []), batch(1, names=("note", "tariff"))
    planned = plan(spec, record)
    first, *others = planned.comparison.differences
    mixed = replace(planned.comparison, differences=(replace(first, outcome="quarantined"), *others))
    (outcome,) = schema_outcomes(spec, record, replace(planned, comparison=mixed), record.columns)
    assert (outcome.check, outcome.status) == ("new_columns", "failed")


def test_a_plan_has_the_next_contract_and_the_columns_to_record():
    result = plan(EVOLVES, batch(1, {"value": "bigint", "my_x20_note": "date"}))
    assert types(result.after) == {**BASE, "value": "bigint", "my_x20_note": "date"}
    assert result.after.columns["my_x20_note"].source_name == "my note"
    assert result.evolved == {"my_x20_note": "date", "value": "bigint"}
    assert result.changes
    assert result.after.evolved_columns == ("my_x20_note",)
    # Its rules, and what its values follow from, are those that were declared.
    assert (result.after.ruleset(), result.after.meaning) == (EVOLVES.ruleset(), EVOLVES.meaning)
    # A batch that brings it again changes nothing, and keeps that it had it.
    again = plan(result.after, batch(2, {"value": "int", "my_x20_note": "date"}))
    assert (again.changes, again.evolved) == (False, {"my_x20_note": "date"})


@pytest.mark.parametrize(
    ("wider", "arrives"),
    [({"value": "bigint"}, {"value": "bigint"}), ({"value": "struct<a: int, b: int>"}, {"value": "struct<a: int, b: int>"})],
    ids=["type", "field"],
)
def test_a_wider_type_stays_while_any_batch_that_has_it_is_accepted(wider, arrives):
    """The batch that brought it first may be delivered or judged again, and then says nothing of it."""
    declared = {**BASE, "value": "int" if wider["value"] == "bigint" else "struct<a: int>"}
    spec = readings(columns=declared, checks=[], schema=EVOLVE)
    first = plan(spec, batch(1, arrives))
    assert (first.changes, first.evolved) == (True, wider)
    second = plan(effective_table(spec, [decided(1, first.evolved)]), batch(2, arrives))
    assert (second.changes, second.evolved) == (False, wider)
    # A batch of the declared type needs none of it.
    assert plan(second.after, batch(3, {name: column.type for name, column in spec.columns.items()})).evolved == {}
    # Nor does one of a type that is narrower, or refused.
    for arrived in ("smallint", "string"):
        assert plan(second.after, batch(3, {"value": arrived})).evolved == {}
    again = decided(3, {}, p_extracted_at=window(1).start)
    now = effective_table(spec, [decided(1, first.evolved), decided(2, second.evolved), again])
    assert types(now)["value"] == wider["value"]


@pytest.mark.parametrize("policy", [{}, {"new_columns": "ignore"}, {"new_columns": "quarantine", "type_changes": "reject"}])
def test_without_evolve_and_widen_a_batch_makes_nothing_of_the_contract(policy):
    result = plan(readings(columns=BASE, schema=policy), batch(1, {"value": "bigint", "note": "date"}))
    assert (types(result.after), result.evolved, result.changes) == (BASE, {}, False)


def test_the_effective_contract_adds_the_accepted_decisions():
    first, wider = decided(1, {"note": "int"}), decided(2, {"note": "bigint", "value": "bigint"})
    assert types(effective_table(EVOLVES, [wider, first])) == {**BASE, "value": "bigint", "note": "bigint"}
    quarantined = replace(wider, verdict="quarantined")
    assert types(effective_table(EVOLVES, [first, quarantined])) == {**BASE, "note": "int"}
    superseded = replace(first, number=3, counts=Counts(3, 0, 3), superseded_by="later", evolved={})
    assert types(effective_table(EVOLVES, [first, superseded])) == BASE
    partly = replace(superseded, counts=Counts(3, 1, 2))  # a row of it is published still
    later = decided(2, {})
    assert types(
        effective_table(EVOLVES, [first, replace(later, p_extracted_at=first.p_extracted_at, extraction_seq=2), partly])
    ) == {
        **BASE,
        "note": "int",
    }
    # What is declared by now goes first: a column of that name, and a type that the recorded one is no widening of.
    declared = readings(columns={**BASE, "value": "string", "note": "string"}, schema={"new_columns": "evolve"})
    assert types(effective_table(declared, [first, wider])) == {**BASE, "value": "string", "note": "string"}


def test_a_batch_that_changes_the_contract_is_judged_alone():
    plain, more = batch(1, {}), batch(2, {"note": "date"})
    same, last = batch(3, {}), batch(4, {})
    assert count_batches_together(EVOLVES, [], [plain, more, same, last]) == 1
    assert count_batches_together(EVOLVES, [], [more, same, last]) == 1
    assert count_batches_together(EVOLVES, [decided(1, {"note": "date"})], [more, same, last]) == 3
    assert types(staged_table(EVOLVES, [], [more])) == {**BASE, "note": "date"}


def test_a_new_column_with_the_name_of_another_is_quarantined():
    spec = readings(columns={**BASE, "amount": {"type": "int", "from": "sum"}}, schema={"new_columns": "evolve"})
    result = plan(spec, batch(1, names=("sum", "amount")))
    assert [(d.path, d.outcome) for d in result.comparison.differences] == [("amount", "quarantined")]
    assert "under a name of its own" in result.comparison.differences[0].advice
    assert result.evolved == {}


@pytest.mark.parametrize("promised", [{}, {"more": "struct<a: int>"}])
def test_fields_that_delta_refuses_are_always_quarantined(promised):
    spec = readings(columns={**BASE, **promised}, schema={"new_columns": "evolve"})
    result = plan(spec, batch(1, {"more": "struct<a: int, `b c`: int>"}))
    assert [(d.column, d.outcome) for d in result.comparison.differences] == [("more", "quarantined")]
    assert "Delta refuses" in result.comparison.differences[0].advice
    assert (types(result.after), result.evolved) == ({**BASE, **promised}, {})
    with pytest.raises(ValidationError, match="Delta refuses"):
        readings(columns={**BASE, "more": "struct<`b c`: int>"})


@pytest.mark.parametrize(
    ("promised", "arrived"),
    [({}, "variant"), ({}, "interval day to second"), ({}, "string collate utf8_lcase"), ({}, "struct<>"), ({}, "time(6)"),
     ({}, "array<struct<a: geometry(ogc:crs84, any)>>"), ({"more": "struct<a: int>"}, "struct<a: int, b: variant>")],
)  # fmt: skip
def test_a_type_that_silver_cannot_have_is_always_quarantined(promised, arrived):
    spec = readings(columns={**BASE, **promised}, schema=EVOLVE)
    result = plan(spec, batch(1, {"more": arrived}))
    assert [(d.column, d.outcome) for d in result.comparison.differences] == [("more", "quarantined")]
    assert "silver has no such type" in result.comparison.differences[0].advice
    assert (types(result.after), result.evolved) == ({**BASE, **promised}, {})


@pytest.mark.parametrize("text", ["struct<first name:string>", "struct<a:string,A:string>", "map<string>"])
@pytest.mark.parametrize("policy", ["evolve", "ignore", "quarantine"])
def test_a_recorded_type_that_cannot_be_read_is_an_unknown_one(text, policy):
    """Records of earlier versions have such texts."""
    spec = readings(columns=BASE, schema={"new_columns": policy})
    result = plan(spec, batch(1, {"more": text}))
    assert [(d.column, d.arrived) for d in result.comparison.differences] == [("more", "untyped")]
    assert result.evolved == ({"more": "string"} if policy == "evolve" else {})


@pytest.mark.parametrize(
    ("layout", "outcome"),
    [({"partition_by": ["hour"]}, "quarantined"),
     ({"partition_by": ["part"], "derived": {"part": {"type": "int", "expr": "hour % 4"}}}, "quarantined"),
     ({"cluster_by": ["hour"]}, "widened"), (None, "widened")],
)  # fmt: skip
def test_a_partition_column_keeps_a_type_that_makes_folders(layout, outcome):
    spec = readings(columns=BASE, schema=EVOLVE, **({"layout": layout} if layout else {}))
    result = plan(spec, batch(1, {"hour": "double"}))
    assert [(d.column, d.outcome) for d in result.comparison.differences] == [("hour", outcome)]
    assert result.after.columns["hour"].type == ("int" if outcome == "quarantined" else "double")
    assert ("layout: partition_by" in result.comparison.differences[0].advice) == (outcome == "quarantined")
    # Another type that makes folders is taken.
    assert plan(spec, batch(1, {"hour": "bigint"})).evolved == {"hour": "bigint"}


def test_a_null_column_is_added_when_it_has_a_type():
    result = plan(EVOLVES, batch(1, {"note": "void", "more": "struct<a: void, b: array<void>>"}))
    assert result.evolved == {"more": "struct<a: string, b: array<string>>"}
    assert plan(EVOLVES, batch(2, {"note": "date"})).evolved == {"note": "date"}


def test_text_columns_are_quarantined_by_their_values_in_strict_modes():
    casts = {"value": 2}
    assert outcomes(EVOLVES, batch(1), casts=casts) == {}
    strict = readings(columns=BASE, schema={"type_changes": "reject"})
    result = outcomes(strict, batch(1), casts=casts)["source_types"]
    assert (result.effect, result.observed["rejected"]) == ("batch", True)
    assert "value is text, 2 no int, promised int" in result.message
    # Of a source that says its types, what matters is these.
    assert outcomes(strict, batch(1, {}), casts=casts) == {}


def test_a_column_with_a_format_expects_text():
    columns = {**BASE, "value": {"type": "date", "format": "dd.MM.yyyy"}}
    spec = readings(columns=columns, checks=[], schema={"type_changes": "reject"})
    assert outcomes(spec, batch(1, {"value": "string"})) == {}


@pytest.mark.parametrize(
    ("mode", "effect", "rejects"), [("keep", "report", False), ("quarantine", "batch", False), ("reject", "batch", True)]
)
def test_a_column_that_lacks(mode, effect, rejects):
    spec = readings(columns=BASE, schema={"missing_columns": mode})
    readers = {"value": ["check in_range_value", "gold_means.mean"]}
    result = outcomes(spec, batch(1, lacking=["value"]), ever=["value"], readers=readers)["source_columns"]
    assert (result.effect, result.observed["rejected"]) == (effect, rejects)
    assert "read by check in_range_value, gold_means.mean" in result.message
    assert result.message.startswith("this batch lacks value")
    renamed = outcomes(spec, batch(1, lacking=["value"], names=["new_x20_value"]), ever=["value"])["source_columns"]
    assert "undeclared columns: new value" in renamed.message
    personal = readings(columns={**BASE, "sensor": {"type": "string", "pii": True}}, schema={"missing_columns": mode})
    masked = outcomes(personal, batch(1, lacking=["value"], names=["ann@example.com"]), ever=["value"])["source_columns"]
    assert "ann" not in masked.message, "without a header, names are values"
    # Of several files only some lack it.
    in_part = replace(batch(1), lacking=("value",))
    result = outcomes(spec, in_part, ever=["value"])["source_columns"]
    assert (result.effect, result.message[:33]) == (effect, "a part of this batch lacks value ")
    # What batches have added may lack: nobody has declared it.
    added = effective_table(readings(columns=BASE, schema={"missing_columns": mode}), [decided(1, {"note": "date"})])
    assert outcomes(added, batch(2), ever=["note"])["source_columns"].effect == "report"


@pytest.mark.parametrize(
    ("column", "source", "cause"),
    [("sensor_x3b_hour", {}, 'is `source.delimiter` ";"?'), ("sensor_x09_hour", {}, r'is `source.delimiter` "\t"?'),
     ("sensor,hour", {"delimiter": ";"}, 'is `source.delimiter` ","?'), ("sensor|hour", {"delimiter": "|"}, "Mend `from:`"),
     ("unnamed_1", {}, "It has one column: is `source.delimiter` right?"), ("unnamed_1", {"format": "json"}, "Mend `from:`"),
     ("sensors", {}, "Mend `from:`"), ("a|b", {"format": "parquet"}, "Mend `from:`")],
)  # fmt: skip
def test_a_header_that_is_not_split_has_a_likely_cause(column, source, cause):
    files = {"kind": "files", "path": "readings/{window:%Y-%m-%d}.csv", "format": "csv"}
    spec = readings(columns=BASE, source=files | source)
    result = outcomes(spec, replace(batch(1), columns=(column,)))["source_columns"]
    assert cause in result.message
    # The columns of the batches before are no other cause.
    text = outcomes(spec, replace(batch(1), columns=(column,)), ever=BASE)["source_columns"].message
    assert text.startswith("this batch lacks sensor") and ("Mend" in cause or text.endswith(cause))
    assert ("source.delimiter" in text) == ("source.delimiter" in cause)
    # With one of the columns there, something else is wrong.
    assert "Mend `from:`" in outcomes(spec, replace(batch(1), columns=(column, "value")))["source_columns"].message


def test_a_name_in_another_letter_case_is_rejected_where_it_matters():
    spec = readings(columns=BASE)
    result = outcomes(spec, batch(1, respelled={"value": "Value"}))
    assert list(result) == ["source_names"]
    assert result["source_names"].observed["rejected"]
    assert "Value and value" in result["source_names"].message
    assert outcomes(spec, batch(1, names=["Note"], respelled={"Note": "note"})).keys() == {"new_columns"}
    assert list(outcomes(EVOLVES, batch(1, names=["Note"], respelled={"Note": "note"})))[-1] == "source_names"
    explicit = readings(columns={**BASE, "value": {"type": "int", "from": "Value"}})
    assert outcomes(explicit, batch(1, respelled={"value": "Value"})) == {}


def test_an_empty_batch_has_no_schema_differences():
    assert outcomes(readings(columns=BASE), batch(1, lacking=["value"], rows=0)) == {}
    assert plan(EVOLVES, batch(1, {"note": "date"}, rows=0)).evolved == {}


def test_readers_of_a_column_are_listed():
    sql = "select sensor, avg(value) as mean from silver_readings group by sensor"
    spec = readings(
        columns=BASE, drift={"features": ["value"]},
        checks=[{"check": "in_range", "column": "value", "min": 0}],
        extraction={"cadence": "daily", "start": NOW, "delete_when": "hour = -1"},
    )  # fmt: skip
    result = readers_of(spec, {"means": read_gold(sql, "means.sql", {"silver_readings": BASE})})
    assert result["value"] == ("check in_range_value", "drift feature value", "gold_means.mean")
    assert result["hour"] == ("key", "extraction.delete_when")
    assert result["sensor"] == ("key", "gold_means.sensor")
    assert result["updated"] == ("last_modified",)


@pytest.mark.parametrize(
    ("column", "message"),
    [("struct<a: varchar>", "unknown type 'varchar'"), ("array<>", "is no type"), ("struct<>", "needs at least one field"),
     ("struct<a: int, A: int>", "letter case apart"), ("map<string>", "is missing")],
)  # fmt: skip
def test_a_nested_type_that_cannot_be_is_refused(column, message):
    with pytest.raises(ValidationError, match=message):
        readings(columns={**BASE, "more": column})


def test_a_nested_column_is_no_key():
    with pytest.raises(ValidationError, match=r"key: hour is struct<a: int>, which has no order"):
        readings(columns={**BASE, "hour": "struct<a: int>"})


RENAMED = readings(
    columns={**BASE, "status": {"type": "string", "from": ["State", "Status"]}},
    schema={**EVOLVE, "missing_columns": "quarantine"},
)


@pytest.mark.parametrize(
    ("names", "lacking"),
    [(["State"], []), (["Status"], []), (["State", "Status"], []), ([], ["State"])],
    ids=["new name", "old name", "both", "neither"],
)
def test_a_column_with_several_names_is_missing_only_where_the_batch_has_none_of_them(names, lacking):
    record = batch(1, names=names)
    result = plan(RENAMED, record)
    assert [d.column for d in result.comparison.differences] == lacking
    assert (result.evolved, types(result.after)) == ({}, types(RENAMED))
    assert result.after.columns["status"].source_name == ("State", "Status")
    assert list(outcomes(RENAMED, record, ever=["Status"])) == (["source_columns"] if lacking else [])
    assert columns_not_among(RENAMED, record.columns) == (["status"] if lacking else [])


@pytest.mark.parametrize(
    ("lacking", "effects"),
    [
        (("State",), {}),
        (("Status",), {}),
        (("State", "Status"), {"source_columns": "batch"}),
        (("value",), {"source_columns": "batch"}),
    ],
    ids=["old name in all files", "new name in all files", "each in some files", "another column"],
)
def test_a_batch_with_both_names_is_quarantined_where_no_name_is_in_all_files(lacking, effects):
    record = replace(batch(1, names=["State", "Status"]), lacking=lacking)
    assert {check: outcome.effect for check, outcome in outcomes(RENAMED, record).items()} == effects


@pytest.mark.parametrize("mode", ["keep", "null", "quarantine", "reject"])
def test_columns_whose_names_are_each_in_some_files_only(mode):
    spec = readings(
        columns={**BASE, "status": {"type": "string", "from": ["State", "Status"]}}, schema={"missing_columns": mode}
    )
    record = replace(batch(1, names=["State", "Status"]), lacking=("Status", "State"))
    outcome = outcomes(spec, record)["source_columns"]
    mixed = "each of these names is in some files only, and a file with none of them is not noticed: 'State' or 'Status'"
    part = f"a part of this batch lacks %s (schema.missing_columns: {mode})"
    way = f"; {mixed}; if every file has one of them, release with --override source_columns"
    holds = mode in ("quarantine", "reject")
    assert (outcome.effect, outcome.message) == (("batch", part % "status" + way) if holds else ("report", mixed))
    assert [d["path"] for d in outcome.observed["differences"]] == (["State"] if holds else [])
    message = outcomes(spec, replace(record, lacking=("State", "Status", "value")))["source_columns"].message
    assert message == (part % "value, status" + way if holds else part % "value")


def test_the_message_about_a_column_that_never_came_lists_all_its_names():
    assert "status (from 'State' or 'Status')" in outcomes(RENAMED, batch(1))["source_columns"].message


def test_the_type_of_the_name_that_came_widens_a_column_with_several():
    spec = readings(columns={**BASE, "level": {"type": "int", "from": ["new level", "old level"]}}, schema=EVOLVE)
    result = plan(spec, batch(1, {"old_x20_level": "bigint"}))
    assert (types(result.after)["level"], result.evolved) == ("bigint", {"old_x20_level": "bigint"})
    assert types(effective_table(spec, [decided(1, result.evolved)]))["level"] == "bigint"


def test_all_names_of_a_personal_column_are_personal():
    columns = {**BASE, "name": {"type": "string", "from": ["Name", "FullName"], "pii": True}}
    spec = readings(columns={**columns, "initials": {"type": "string", "from": "fullname"}})
    assert {"name", "initials"} <= spec.pii_columns


@pytest.mark.parametrize(("names", "message"), [([], "empty list"), (["State", "state"], "listed twice")])
def test_names_of_a_source_column_are_different(names, message):
    with pytest.raises(ValidationError, match=message):
        readings(columns={**BASE, "status": {"type": "string", "from": names}})
