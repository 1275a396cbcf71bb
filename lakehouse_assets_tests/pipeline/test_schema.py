"""A batch's schema through the gate on real Delta: each mode for new, missing and changed columns, and that nothing is lost.

Belongs here: from a landed file to silver, and back by a rebuild. Does not: comparing schemas (decisions), Delta's rules.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.schema.gate import differences_of, is_rejected
from lakehouse_assets.operations.dry_run import try_checks
from lakehouse_assets.operations.rebuild import plan_of, rebuild
from lakehouse_assets.operations.release import release
from lakehouse_assets.operations.replay import replay
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets.queries.schema_status import read_schema_status
from lakehouse_assets.storage import delta, logs
from lakehouse_assets_tests.support import heal, land, readings, rows_of, runner, silver, window

COLUMNS = {"sensor": "string", "hour": "int", "value": "int"}


def typed(columns: dict[str, Any] | None = None, **policy: str) -> TableSpec:
    """Readings from Parquet, which says its types."""
    return readings(
        source={"kind": "files", "path": "readings/{window:%Y-%m-%d}.parquet", "format": "parquet"},
        columns=columns or COLUMNS, checks=[], last_modified=None, schema=policy,
    )  # fmt: skip


def land_typed(settings, day: int, **columns: Any) -> None:
    """One window's file: a row per value, keys of their own unless given. A column is an arrow array, or values of int32."""
    count = len(next(iter(columns.values())))
    keys = {"sensor": pa.array(["s"] * count), "hour": pa.array(range(day * 100, day * 100 + count), pa.int32())}
    cells = {n: c if isinstance(c, pa.Array) else pa.array(c, pa.int32()) for n, c in columns.items()}
    path = Path(settings.landing, "readings", f"2024-01-{day:02d}.parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table({**keys, **cells}), path)


def types_of(settings) -> dict[str, str]:
    return dict(delta.schema_types(settings.path("silver", "readings")))


def values(settings, column: str) -> list[Any]:
    return [row[column] for row in sorted(silver(settings), key=lambda row: row["hour"])]


def assert_rebuilds(spark, settings, spec, replayed: Collection[int] = range(1, 32)) -> None:
    """Laws 1 and 3: silver is what a rebuild gives, and each decision on the days ``replayed`` what deciding again gives."""
    before = types_of(settings)
    proof = rebuild(runner(spark, settings, spec))
    assert (proof.gained, proof.lost) == (0, 0)
    assert types_of(settings) == before
    for decision in logs.decisions(settings, "readings", evidence=True):
        day = decision.p_extracted_at.day
        if decision.superseded_by is None and decision.kind == "judged" and day in replayed:
            again = replay(runner(spark, settings, spec), decision)
            assert (again.verdict, again.reasons, again.evolved) == (decision.verdict, decision.reasons, decision.evolved)


def verdicts(published) -> dict[int, str]:
    return {w.start.day: d.verdict for w, d in published.current.items()}


@pytest.mark.exhaustive(seconds=45)
def test_evolve_adds_columns_at_the_end_within_a_range_of_windows(spark, settings):
    spec = typed(new_columns="evolve")
    land_typed(settings, 1, value=[1])
    land_typed(settings, 2, value=[2], note=pa.array(["x"]))
    land_typed(settings, 3, value=[3])
    land_typed(settings, 4, value=[4], at=pa.array([0], pa.timestamp("us")), note=pa.array(["y"]))
    published = heal(spark, settings, [1, 2, 3, 4], spec)
    assert list(types_of(settings))[-5:] == ["p_extracted_at", "extraction_seq", "_content_hash", "note", "at"]
    assert (types_of(settings)["note"], types_of(settings)["at"]) == ("string", "timestamp_ntz")
    assert values(settings, "note") == [None, "x", None, "y"]
    evolved = {w.start.day: d.evolved for w, d in published.current.items()}
    assert evolved == {1: {}, 2: {"note": "string"}, 3: {}, 4: {"at": "timestamp_ntz", "note": "string"}}
    assert verdicts(published) == {1: "published", **dict.fromkeys((2, 3, 4), "published_with_warnings")}
    assert [r.message for r in published.current[window(2)].reasons] == [
        "new columns note, taken over (schema.new_columns: evolve); nothing reads them yet"
    ]
    assert_rebuilds(spark, settings, spec)
    # Declared later, it is the YAML's; extracted again without it, the last column goes as it came.
    land_typed(settings, 4, value=[4], note=pa.array(["y"]))
    heal(spark, settings, [4], spec)
    assert "at" not in types_of(settings)
    declared = typed({**COLUMNS, "note": {"type": "string", "pii": True}}, new_columns="evolve")
    land_typed(settings, 5, value=[5], note=pa.array(["z"]))
    heal(spark, settings, [5], declared)
    assert list(types_of(settings))[:4] == ["sensor", "hour", "value", "note"]
    assert values(settings, "note") == [None, "x", None, "y", "z"]
    assert_rebuilds(spark, settings, declared)


def test_a_column_declared_later_gets_its_old_values(spark, settings):
    land_typed(settings, 1, value=[1], note=pa.array(["old"]))
    heal(spark, settings, [1], typed())
    assert "note" not in types_of(settings)
    land_typed(settings, 2, value=[2], note=pa.array(["new"]))
    heal(spark, settings, [2], typed(new_columns="evolve"))
    assert values(settings, "note") == ["old", "new"]
    assert_rebuilds(spark, settings, typed(new_columns="evolve"), replayed=[2])


def test_widen_accepts_a_wider_type_and_quarantines_any_other(spark, settings):
    spec = typed(type_changes="widen")
    big = 5_000_000_000
    land_typed(settings, 1, value=[1])
    land_typed(settings, 2, value=pa.array([big], pa.int64()))
    land_typed(settings, 3, value=pa.array([3], pa.int16()))
    land_typed(settings, 4, value=pa.array(["four"]))
    published = heal(spark, settings, [1, 2, 3, 4], spec)
    assert verdicts(published) == {1: "published", 2: "published_with_warnings", 3: "published", 4: "quarantined"}
    assert types_of(settings)["value"] == "bigint"
    assert values(settings, "value") == [1, big, 3]
    [difference] = differences_of(published.current[window(4)])
    assert (difference["promised"], difference["arrived"], difference["outcome"]) == ("bigint", "string", "quarantined")
    assert "declare the new type" in difference["advice"]
    assert not is_rejected(published.current[window(4)])
    assert_rebuilds(spark, settings, spec, replayed=[2, 4])


def test_a_window_that_widened_a_column_may_be_delivered_again(spark, settings):
    """Its second extraction widens nothing any more: the values of the other windows stay."""
    spec, large = typed(type_changes="widen"), 5_000_000_000
    land_typed(settings, 1, value=pa.array([1], pa.int64()))
    heal(spark, settings, [1], spec)
    land_typed(settings, 2, value=pa.array([large], pa.int64()))
    heal(spark, settings, [2], spec)
    land_typed(settings, 1, value=pa.array([7], pa.int64()))
    heal(spark, settings, [1], spec)
    assert (values(settings, "value"), types_of(settings)["value"]) == ([7, large], "bigint")
    assert_rebuilds(spark, settings, spec)


@pytest.mark.exhaustive(seconds=30)
def test_a_type_that_changes_for_a_week_and_back_heals(spark, settings):
    """By quarantine the week is held, and released when it may be cast; then each value that cannot be read holds its row."""
    strict = typed(type_changes="quarantine")
    for day in (1, 5):
        land_typed(settings, day, value=[day])
    for day in (2, 3, 4):
        land_typed(settings, day, value=pa.array([str(day), "n/a"]))
    published = heal(spark, settings, range(1, 6), strict)
    assert verdicts(published) == {1: "published", 2: "quarantined", 3: "quarantined", 4: "quarantined", 5: "published"}
    assert values(settings, "value") == [1, 5]
    assert "value is string, promised int (schema.type_changes: quarantine)" in published.current[window(2)].reasons[0].message
    for day in (2, 3, 4):
        run = runner(spark, settings, typed(type_changes="cast"))
        decision = release(run, window(day).start, None, waived=[], by="me", because="numbers as text")
        assert (decision.counts.rows_published, decision.counts.rows_quarantined) == (1, 1)
    assert values(settings, "value") == [1, 2, 3, 4, 5]
    quarantined_rows = [row for row in rows_of(settings.path("quarantine", "readings")) if row["reasons"]]
    assert {reason["check"] for row in quarantined_rows for reason in row["reasons"]} == {"cast_value"}
    assert_rebuilds(spark, settings, typed(type_changes="cast"))


@pytest.mark.parametrize(
    ("mode", "fails"),
    [
        ("quarantine", False),
        pytest.param("reject", True, marks=pytest.mark.exhaustive(seconds=30)),
    ],
)
def test_a_rejected_batch_stays_complete_and_is_released_under_a_new_contract(spark, settings, mode, fails):
    spec = typed({**COLUMNS, "more": "string"}, new_columns=mode, missing_columns=mode, type_changes=mode)
    same = {"value": [1], "more": pa.array(["m"])}
    land_typed(settings, 1, **same)
    land_typed(settings, 2, **same, extra=[1])
    land_typed(settings, 3, value=[3])
    land_typed(settings, 4, value=pa.array([2.5]), more=pa.array(["m"]))
    land_typed(settings, 5, Value=[5], more=pa.array(["m"]))
    published = heal(spark, settings, range(1, 6), spec)
    assert verdicts(published) == {1: "published", **dict.fromkeys((2, 3, 4, 5), "quarantined")}
    assert {w.start.day for w, d in published.current.items() if is_rejected(d)} == ({2, 3, 4, 5} if fails else {5})
    checks = {w.start.day: [r.check for r in d.reasons if r.effect == "batch"] for w, d in published.current.items()}
    assert checks == {
        1: [], 2: ["new_columns"], 3: ["source_columns"], 4: ["source_types", "supersede"], 5: ["source_names"],
    }  # fmt: skip
    assert "Value and value" in str(published.current[window(5)].reasons)
    assert values(settings, "value") == [1]
    assert len(rows_of(settings.path("quarantine", "readings"))) == 4
    loose = typed({**COLUMNS, "more": "string"}, new_columns="evolve", missing_columns="null", type_changes="cast")
    for day in (2, 3):
        release(runner(spark, settings, loose), window(day).start, None, waived=[], by="me", because="it is so now")
    assert values(settings, "value") == [1, 1, 3]
    assert values(settings, "extra") == [None, 1, None]
    assert_rebuilds(spark, settings, loose, replayed=range(1, 6) if fails else [4])


@pytest.mark.exhaustive(seconds=12)
def test_a_name_in_another_letter_case_needs_an_explicit_mapping(spark, settings):
    land_typed(settings, 1, value=[1])
    land_typed(settings, 2, Value=[2])
    assert verdicts(heal(spark, settings, [1, 2], typed())) == {1: "published", 2: "quarantined"}
    other = typed({**COLUMNS, "value": {"type": "int", "from": "Value"}})
    release(runner(spark, settings, other), window(2).start, None, waived=[], by="me", because="renamed at the source")
    assert values(settings, "value") == [1, 2]
    assert_rebuilds(spark, settings, other)


def test_text_that_cannot_be_cast_quarantines_its_window_in_mode_reject(spark, settings):
    """By default it quarantines its row (laws/test_laws)."""
    rows = ["a,1,10,2024-01-01T00:00:00Z", "b,1,ten,2024-01-01T00:00:00Z"]
    land(settings, 1, rows)
    land(settings, 2, ["a,2,1,2024-01-02T00:00:00Z"])
    published = heal(spark, settings, [1, 2], readings(schema={"type_changes": "reject"}))
    assert verdicts(published) == {1: "quarantined", 2: "published"}
    assert is_rejected(published.current[window(1)])
    assert "value is text, 1 no double, promised double" in str(published.current[window(1)].reasons)


@pytest.mark.exhaustive(seconds=20)
def test_nested_columns_are_read_to_any_depth_and_grow_in_their_struct(spark, settings):
    columns = {**COLUMNS, "s": "struct<a: int, b: array<date>>", "m": "map<string, int>"}
    spec = typed(columns, new_columns="evolve", type_changes="widen")
    small = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.date32()))])
    wide = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.date32())), ("c", pa.string())])
    entries = pa.map_(pa.string(), pa.int32())
    land_typed(settings, 1, value=[1], s=pa.array([{"a": 1, "b": [0, None]}], small), m=pa.array([[("k", 1)]], entries))
    land_typed(settings, 2, value=[2], s=pa.array([{"a": 2**40, "b": None, "c": "x"}], wide), m=pa.array([None], entries))
    published = heal(spark, settings, [1, 2], spec)
    assert verdicts(published) == {1: "published", 2: "published_with_warnings"}, str(published.current[window(1)].reasons)
    assert types_of(settings)["s"] == "struct<a: bigint, b: array<date>, c: string>"
    first, second = (row for row in sorted(silver(settings), key=lambda row: row["hour"]))
    assert (first["s"]["a"], len(first["s"]["b"]), first["s"]["c"]) == (1, 2, None)
    assert (second["s"], second["m"]) == ({"a": 2**40, "b": None, "c": "x"}, None)
    assert first["m"] == [("k", 1)]
    assert_rebuilds(spark, settings, spec)
    # Text that is no such JSON is a reason on its row.
    texts = ['{"a": 1, "b": ["2024-01-01"]}', '{"a": "x"}', '{"a": 1', "[1]", '1, "v": {"a": 1}']
    land_typed(settings, 3, value=[1] * 5, s=pa.array(texts), m=pa.array(['{"k": 2}'] * 5))
    cast = typed(columns, new_columns="evolve", type_changes="cast")
    counts = heal(spark, settings, [3], cast).current[window(3)].counts
    assert (counts.rows_published, counts.rows_quarantined) == (1, 4)


@pytest.mark.exhaustive(seconds=25)
def test_types_that_delta_or_json_cannot_store_stay_out_of_silver(spark, settings):
    """Keys of a map that are no text, a field's name with a space: of a new column, and of one that a batch has added."""
    spec = typed(new_columns="evolve")
    plain, odd = pa.struct([("a", pa.int32())]), pa.struct([("a", pa.int32()), ("b c", pa.int32())])
    land_typed(settings, 1, value=[1], more=pa.array([{"a": 1}], plain))
    land_typed(settings, 2, value=[2], more=pa.array([{"a": 2, "b c": 2}], odd))
    land_typed(settings, 3, value=[3], m=pa.array([[(1, 1)]], pa.map_(pa.int32(), pa.int32())))
    land_typed(settings, 4, value=[4])
    published = heal(spark, settings, [1, 2, 3, 4], spec)
    accepted = "published_with_warnings"
    assert verdicts(published) == {1: accepted, 2: "quarantined", 3: "quarantined", 4: accepted}
    assert "Delta refuses" in differences_of(published.current[window(2)])[0]["advice"]
    of_map = {d["column"]: d["advice"] for d in differences_of(published.current[window(3)])}
    assert "keys that are no text" in of_map["m"]
    for day in (2, 3):
        run = runner(spark, settings, spec)
        decision = release(run, window(day).start, None, waived=["new_columns"], by="me", because="without it")
        assert decision.counts.rows_published == 1
    assert [row["more"] for row in sorted(silver(settings), key=lambda row: row["hour"])] == [{"a": 1}, {"a": 2}, None, None]
    assert "m" not in types_of(settings)
    assert_rebuilds(spark, settings, spec)


@pytest.mark.exhaustive(seconds=30)
def test_a_contract_that_is_changed_and_changed_back_leaves_its_first_values(spark, settings):
    """Law 1 after a rebuild by the other one, and after one that was killed before it was done."""
    source = {"kind": "files", "path": "readings/{window:%Y-%m-%d}.csv", "format": "csv", "nulls": ["NA"]}
    one, other = readings(), readings(source={**source, "nulls": ["NA", "7"]})
    for day in (1, 2, 3):
        land(settings, day, [f"{day},1,7,2024-01-0{day}T00:00:00Z"])
    heal(spark, settings, [1], one)
    assert rebuild(runner(spark, settings, other)).gained == 1
    heal(spark, settings, [2], one)
    assert [row["value"] for row in silver(settings)] == [7, 7]

    def die(step: str) -> None:
        if step == "silver_rebuilt":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rebuild(runner(spark, settings, other, die))
    heal(spark, settings, [3], one)
    assert [row["value"] for row in silver(settings)] == [7, 7, 7]
    assert_rebuilds(spark, settings, one)


def test_a_run_that_is_killed_after_it_folded_silver_anew_is_completed(spark, settings):
    """The contract gives other values, so that the run folds all of silver instead of a MERGE."""
    source = {"kind": "files", "path": "readings/{window:%Y-%m-%d}.csv", "format": "csv", "nulls": ["NA", "7"]}
    steps, other = [], readings(source=source)
    for day in (1, 2):
        land(settings, day, [f"{day},1,7,2024-01-0{day}T00:00:00Z"])
    heal(spark, settings, [1], readings())

    def die(step: str) -> None:
        steps.append(step)
        if step == "silver_rebuilt":
            raise KeyboardInterrupt

    run = runner(spark, settings, other, die)
    extract(run, [window(2)])
    with pytest.raises(KeyboardInterrupt):
        publish(run, [window(2)])
    assert steps[-2:] == ["before_write", "silver_rebuilt"]
    heal(spark, settings, [2], other)
    assert [row["value"] for row in silver(settings)] == [None, None]
    assert_rebuilds(spark, settings, other, replayed=[2])


@pytest.mark.exhaustive(seconds=10)
def test_a_rebuild_after_types_were_changed_in_the_contract(spark, settings):
    land(settings, 1, ["a,1,10,2024-01-01T00:00:00Z"])
    heal(spark, settings, [1], readings())
    columns = {"sensor": "string", "hour": "struct<a: int>", "value": "string", "updated": "timestamp"}
    other = readings(columns=columns, key=["sensor"], checks=[])
    assert rebuild(runner(spark, settings, other)).rows == 1
    assert types_of(settings)["value"] == "string"
    assert values(settings, "value") == ["10"]


def test_no_check_passes_on_a_column_that_the_batch_does_not_have(spark, settings):
    checks = [
        {"check": "in_range", "column": "value", "min": 0},
        {"check": "not_null", "column": "value"},
        {"check": "not_empty"},
    ]
    land(settings, 1, ["a,1,10,2024-01-01T00:00:00Z"])
    land(settings, 2, ["b,1,2024-01-02T00:00:00Z"], header="sensor,hour,updated")
    heal(spark, settings, [1, 2], readings(checks=checks, schema={"missing_columns": "keep"}))
    by_day = {
        d.p_extracted_at.day: {c["check"]: c for c in d.checks} for d in logs.decisions(settings, "readings", evidence=True)
    }
    assert {name: by_day[1][name]["status"] for name in ("in_range_value", "not_empty")} == dict.fromkeys(
        ("in_range_value", "not_empty"), "passed"
    )
    outcome = by_day[2]["in_range_value"]
    assert (outcome["status"], outcome["message"]) == ("skipped", "not judged: the batch lacks value")
    assert (by_day[2]["not_null_value"]["status"], by_day[2]["not_empty"]["status"]) == ("failed", "passed")


@pytest.mark.exhaustive(seconds=30)
def test_nor_does_one_that_runs_later_or_alone_or_depends_on_it(spark, settings):
    """Late checks, SQL over the whole batch, a dependent; and the same checks by themselves, at each place."""
    checks = [
        {"check": "in_range", "column": "value", "min": 0},
        {"check": "in_range", "column": "hour", "min": 0, "depends_on": ["in_range_value"]},
        {"check": "unique", "columns": ["value"], "severity": "warning"},
        {"check": "no_gaps", "column": "value", "step": 1, "severity": "warning"},
        {"check": "sql", "name": "crowd", "sql": "select sensor from batch group by sensor having max(VALUE) > 10"},
        {"check": "sql", "name": "twice", "sql": "select sensor from batch group by sensor having count(*) > 9"},
    ]
    spec = readings(checks=checks, schema={"missing_columns": "keep"})
    land(settings, 1, ["a,1,10,2024-01-01T00:00:00Z"])
    land(settings, 2, ["b,1,2024-01-02T00:00:00Z"], header="sensor,hour,updated")
    heal(spark, settings, [1, 2], spec)
    by_day = {
        d.p_extracted_at.day: {c["check"]: c["status"] for c in d.checks}
        for d in logs.decisions(settings, "readings", evidence=True)
    }
    without = {"in_range_value", "in_range_hour", "unique_value", "no_gaps_value", "crowd"}
    names = [check.id for check in spec.checks]
    expected = {name: "skipped" if name in without else "passed" for name in names}
    assert {name: by_day[1][name] for name in names} == dict.fromkeys(names, "passed")
    assert {name: by_day[2][name] for name in names} == expected
    for layer in ("source", "bronze", "silver"):
        for check in spec.checks:
            (tried,) = try_checks(runner(spark, settings, spec), [check], [window(2)], layer).outcomes
            assert tried.outcome.status == expected[check.id], (layer, check.id)


@pytest.mark.exhaustive(seconds=25)
def test_replaced_rows_stay_replaced_after_a_contract_change(spark, settings):
    """One run: a window comes without a row that it had, the next has a new column, the one after it speaks of that row."""
    table = readings(schema={"new_columns": "evolve"})
    land(settings, 1, ["a,1,10,2024-01-09T00:00:00Z", "b,1,1,2024-01-01T00:00:00Z"])
    heal(spark, settings, [1], table)
    land(settings, 1, ["b,1,1,2024-01-01T00:00:00Z"])
    land(settings, 2, ["c,1,2,2024-01-02T00:00:00Z,x"], header="sensor,hour,value,updated,note")
    land(settings, 3, ["a,1,30,2024-01-03T00:00:00Z,y"], header="sensor,hour,value,updated,note")
    heal(spark, settings, [1, 2, 3], table)
    assert {row["sensor"]: row["value"] for row in silver(settings)} == {"a": 30.0, "b": 1.0, "c": 2.0}
    proof = rebuild(runner(spark, settings, table))
    assert (proof.gained, proof.lost) == (0, 0)


def test_a_renamed_column_keeps_its_earlier_values_where_both_names_are_declared(spark, settings):
    """With the new name alone, they would be NULL: the plan counts them, and names the way to keep them."""
    before = typed({**COLUMNS, "value": {"type": "int", "from": "Old"}})
    land_typed(settings, 1, Old=[1, 2])
    heal(spark, settings, [1], before)
    land_typed(settings, 2, New=[3])
    alone = typed({**COLUMNS, "value": {"type": "int", "from": "New"}})
    why = [step.why for step in plan_of(read_schema_status(settings, alone)) if step.column == "value"]
    assert why == [
        "1 accepted window(s) with 2 rows have 'Old' and no 'New': value becomes NULL there; to keep the values, declare"
        " `from: [New, Old]`"
    ]
    both = typed({**COLUMNS, "value": {"type": "int", "from": ["New", "Old"]}})
    assert [step.column for step in plan_of(read_schema_status(settings, both))] == ["*"]
    heal(spark, settings, [2], both)
    assert values(settings, "value") == [1, 2, 3]
    assert_rebuilds(spark, settings, both)
    assert plan_of(read_schema_status(settings, both)) == []
