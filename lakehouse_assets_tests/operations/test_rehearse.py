"""Rehearsals: the copies and their faults, the gate's judgement of them, and that nothing is left behind.

Belongs here: copies on real Spark, and which are made. Does not: the sums (decisions/test_rehearsal), the page (reports).
"""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.operations.rehearsal_columns import FaultColumn, RehearsalFigures, fault_columns
from lakehouse_assets.operations.rehearsal_copies import (
    WindowFigures,
    make_copies,
    measure_figures,
    plan_copies,
    read_figures,
    split_copies,
)
from lakehouse_assets.operations.rehearsal_faults import FAULTS
from lakehouse_assets.operations.rehearse import RehearsalRequest, rehearse
from lakehouse_assets.reports.rehearsal import as_dict, rehearsal_page
from lakehouse_assets_tests.support import heal, land, readings, runner

AT = datetime(2024, 1, 1, tzinfo=UTC)
COLUMNS = {
    "sensor": "string", "whole": "int", "money": "decimal(9,2)", "ratio": "double", "name": "string", "flag": "boolean",
    "day": {"type": "date", "format": "dd.MM.yyyy"}, "at": "timestamp",
    "seen": {"type": "timestamp", "format": "dd.MM.yyyy HH:mm"},
    "tags": "array<string>", "raw": "binary", "gone": "int",
}  # fmt: skip
ROWS = [
    ("a", "1", "1.50", "0.5", "Ann", "true", "31.01.2024", "2024-01-01T00:00:00Z", "01.01.2024 10:00", "[]", "", "x"),
    ("b", "2", "2.25", "1.5", "Zoë", "false", "01.02.2024", "2024-01-01 12:30:00", "01.01.2024 11:00", "[]", "", "x"),
    ("c", "NA", "NA", "nonsense", "NA", "NA", "NA", "NA", "NA", "NA", "NA", "x"),
]


def table() -> TableSpec:
    return readings(columns=COLUMNS, key=["sensor"], last_modified="at", checks=[])


def bronze(spark):
    names = [name for name in COLUMNS if name != "gone"]
    rows = [(AT, 1, f"hash{i}", None, None, names, *row[:-1]) for i, row in enumerate(ROWS)]
    kinds = "p_extracted_at timestamp, extraction_seq int, _content_hash string, _source_file string, _corrupt_record string"
    schema = f"{kinds}, _columns array<string>, {', '.join(f'{name} string' for name in names)}"
    return spark.createDataFrame(rows, schema)


def figures(count: int, distinct: int = 3, spread: float | None = 1.0) -> RehearsalFigures:
    return RehearsalFigures(count, distinct, spread)


def columns_of(spec: TableSpec) -> list[FaultColumn]:
    return fault_columns(spec, [name for name in COLUMNS if name != "gone"])[0]


def test_which_columns_can_have_faults():
    columns, left_out = fault_columns(table(), [name.upper() for name in COLUMNS if name != "gone"])
    assert [c.kind for c in columns] == ["text", *["number"] * 3, "text", "boolean", "date", "moment", "moment"]
    assert left_out == {
        "tags": "nested values are left as they are",
        "raw": "binary values are left as they are",
        "gone": "no window has had this column",
    }
    twice = readings(
        columns={**COLUMNS, "again": {"type": "string", "from": "name"}}, key=["sensor"], last_modified="at", checks=[]
    )
    assert fault_columns(twice, list(COLUMNS))[1]["again"] == "it reads the same source column as another"


@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
def test_every_fault_is_complete(fault):
    assert len({size.label for size in fault.sizes}) == len(fault.sizes) >= 2
    assert bool(fault.kinds) == ("{column}" in fault.advice)
    assert sum(map(bool, (fault.text, fault.times, fault.swaps))) == 1


def test_copies_are_chosen_by_the_seed_and_take_turns():
    columns = columns_of(table())
    windows = [WindowFigures((AT.replace(day=day), 1), 10, tuple(figures(10) for _ in columns)) for day in (1, 2, 3)]
    starts = [AT.replace(day=day) for day in (1, 2)]

    def plan(seed, faults=("nulls",), most=2):
        return plan_copies(windows, starts, [FAULTS[name] for name in faults], columns, most, seed)

    copies = plan(0)
    assert [each.copy for each in copies] == [each.copy for each in plan(0)]
    assert [each.copy.column for each in copies if each.copy.size == "all rows"] == ["sensor", "whole", "money", "ratio"]
    assert {each.copy.column for each in plan(1)} != {each.copy.column for each in copies}
    assert [each.copy.window.day for each in copies if not each.fault] == [1, 2, 3]
    assert len({each.batch for each in copies}) == len(copies)
    swapped = plan(0, ["swapped_columns"], 9)
    assert {(each.copy.column, each.copy.partner) for each in swapped if each.fault} >= {("sensor", "name"), ("ratio", "whole")}
    # One boolean and one date have no partner.
    assert not {each.copy.column for each in swapped} & {"flag", "day"}
    # A column without a value has no fault, nor one whose numbers do not vary an offset.
    empty = [WindowFigures(windows[0].batch, 10, tuple(figures(0 if c.name == "name" else 10, spread=None) for c in columns))]
    names = [each.copy.column for each in plan_copies(empty, starts, list(FAULTS.values()), columns, 9, 0)]
    assert "name" not in names
    assert not [each for each in plan_copies(empty, starts, [FAULTS["offset"]], columns, 9, 0) if each.fault]


def test_copies_are_judged_in_parts():
    columns = columns_of(table())
    window = WindowFigures((AT, 1), 100, tuple(figures(10) for _ in columns))
    copies = plan_copies([window], [AT], [FAULTS["duplicated_rows"], FAULTS["missing_rows"]], columns, 1, 0)
    parts = split_copies(copies, {window.batch: 100}, 400)
    # The clean one and the double; then ten times as many by themselves; then the two that lose rows.
    assert [[each.copy.size for each in part] for part in parts] == [
        ["", "twice"],
        ["ten times"],
        ["half of the rows", "nine of ten"],
    ]
    assert [each for part in parts for each in part] == copies


@pytest.mark.exhaustive(seconds=18)
def test_faults_change_texts_as_their_source_would(spark):
    columns, rows = (
        columns_of(table().model_copy(update={"source": table().source.model_copy(update={"nulls": ("NA",)})})),
        bronze(spark),
    )
    frame = measure_figures(rows, columns)
    copies = plan_copies(read_figures(frame, columns), [AT], list(FAULTS.values()), columns, 9, 0)
    copied_rows = make_copies(rows, frame, copies, columns, 0).collect()
    by_copy = {each.batch[1]: each.copy for each in copies}
    texts: dict[tuple, list] = {}
    for row in sorted(copied_rows, key=lambda row: row["sensor"] or ""):
        copy = by_copy[row["extraction_seq"]]
        texts.setdefault((copy.fault, copy.size, copy.column), []).append(row[copy.column] if copy.column else row["sensor"])
    assert texts["", "", ""] == ["a", "b", "c"]
    assert texts["unit", "×10 in all rows", "whole"] == ["10", "20", "NA"]
    assert texts["unit", "×1000 in all rows", "money"] == ["1500.00", "2250.00", "NA"]
    assert texts["unit", "×10 in all rows", "ratio"] == ["5.0", "15.0", "nonsense"]
    higher = texts["offset", "by two deviations", "ratio"]
    assert (list(map(float, higher[:2])), higher[2]) == (pytest.approx([0.5 + 2**0.5, 1.5 + 2**0.5]), "nonsense")
    assert texts["upper_case", "all rows", "name"] == ["ANN", "ZOË", "NA"]
    assert texts["encoding", "all rows", "name"] == ["\ufffdAnn", "ZoÃ«", "NA"]
    assert texts["nulls", "all rows", "flag"] == [None, None, "NA"]
    assert texts["swapped_columns", "all rows", "whole"] == ["1.50", "2.25", "NA"]
    assert texts["time_zone", "five hours", "at"] == ["2024-01-01T05:00:00.000000Z", "2024-01-01T17:30:00.000000", "NA"]
    assert texts["time_zone", "one hour", "seen"] == ["01.01.2024 11:00", "01.01.2024 12:00", "NA"]
    assert set(texts["stuck_value", "all rows", "flag"]) in ({"true", "NA"}, {"false", "NA"})
    assert texts["duplicated_rows", "twice", ""] == ["a", "a", "b", "b", "c", "c"]
    assert texts["lowest_values_only", "the lower half", "whole"] == ["1"]
    assert texts["highest_values_only", "the highest tenth", "day"] == ["01.02.2024"]
    assert texts["lost_group", "the first by name", "name"] == ["Zoë", "NA"]
    letters = {
        size: texts[f"{how}_characters", "50 % of rows", "name"]
        for size, how in ((0, "replaced"), (1, "inserted"), (-1, "deleted"))
    }
    for size, changed in letters.items():
        assert {len(text) for text in changed[:2]} <= {3, 3 + size}
        assert changed[2] == "NA"


def files(root: str) -> dict[str, int]:
    """Every file below a folder, with the time of its last change."""
    return {str(f): f.stat().st_mtime_ns for f in Path(root).rglob("*") if f.is_file() and "_locks" not in f.parts}


def test_a_rehearsal_judges_by_the_real_gate_and_writes_nothing(spark, settings):
    columns = {name: column.model_dump(exclude_unset=True) for name, column in readings().columns.items()}
    # Its query by window must see each copy of a window apart.
    distinct = {"check": "distinct_count", "columns": ["hour"], "min": 20}
    spec = readings(columns={**columns, "who": {"type": "string", "pii": True}}, checks=[distinct])
    for day in (1, 2):
        lines = [f"s{n},{n},{10 + n % 7},2024-01-{day:02d}T00:00:00Z,SECRET{n}" for n in range(30)]
        land(settings, day, lines, header="sensor,hour,value,updated,who")
    heal(spark, settings, [1, 2], spec)
    before = files(settings.root)
    names = ("nulls", "duplicated_rows", "missing_rows")
    result = rehearse(runner(spark, settings, spec), RehearsalRequest(1, 2, 1, 4, names))
    assert files(settings.root) == before
    levels = {(each.fault, each.size): dict(each.levels) for each in result.faults}
    # No rule is of who.
    assert levels["nulls", "all rows"] == {"unseen": 1}
    assert levels["missing_rows", "nine of ten"] == {"quarantined": 1}
    assert [each.harmless for each in result.faults if each.fault == "duplicated_rows"] == [1, 1]
    assert {(each.fault, each.column) for each in result.unseen} == {("nulls", "who")}
    assert (result.clean.windows, result.clean.by) == (2, {})
    assert "SECRET" not in json.dumps(as_dict(result)) + rehearsal_page(result, AT)


def test_what_cannot_be_rehearsed_is_refused(spark, settings):
    with pytest.raises(RefusedError, match="no such fault; there are swapped_columns, unit"):
        rehearse(runner(spark, settings), RehearsalRequest(faults=["typo"]))
    with pytest.raises(RefusedError, match="no accepted window has rows"):
        rehearse(runner(spark, settings), RehearsalRequest())
