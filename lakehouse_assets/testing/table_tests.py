"""Tests of a table's own rules and SQL (`tests.yaml`): finding them, running them without a lake, and their differences.

Belongs here: declared test → differences. Does not: what a test may declare (contracts), or the gate's steps on given rows
(given_rows).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.expected_rows import row_differences
from lakehouse_assets.contracts.gold_rules import inputs_of, personal_columns, reads_personal
from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.table_tests import ExpectedGold, GivenBatch, Row, TableTest, window_keys
from lakehouse_assets.contracts.table_tests_file import TESTS_FILE, read_tests
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import ConfigError, LakehouseError
from lakehouse_assets.frames.session import copy_session
from lakehouse_assets.measures.error_text import error_text
from lakehouse_assets.measures.frames import micros
from lakehouse_assets.orchestration.assets.project_tables import load_tables
from lakehouse_assets.orchestration.assets.written_table import WrittenTable
from lakehouse_assets.pipeline.gate import Target, complete, deferred_outcomes, measure, run_steps, stage
from lakehouse_assets.pipeline.gold_inputs import GoldInputs
from lakehouse_assets.pipeline.run import GoldRun, Run
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.testing.given_rows import (
    GivenBatches,
    GivenGold,
    given_bronze,
    given_records,
    given_silver,
    given_tables,
)
from lakehouse_assets.testing.promise import require
from lakehouse_assets.testing.row_texts import texts_of

# Of a few rows it takes longer to compile a query, and to plan it again on its way, than to run it.
FOR_FEW_ROWS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}


@dataclass(frozen=True)
class DeclaredTest:
    """A test with the contracts that it is judged by. ``location``: ``file:line``. ``others``: all tables. ``queries``: of the
    table's gold.
    """

    test: TableTest
    location: str
    spec: TableSpec
    others: Mapping[str, TableSpec]
    queries: Mapping[str, GoldQuery]

    def __str__(self) -> str:
        return f"{self.spec.name}: {self.test.name}"

    @property
    def windows(self) -> list[Window]:
        """The window of each batch."""
        return [self.spec.extraction.window(key) for key in window_keys(self.test, self.spec)]


def find_table_tests(folder: Path | None = None, tables: Collection[str] = ()) -> list[DeclaredTest]:
    """Return the tests of these tables (default: all) below a folder (default: the project's tables), by table, in the order of
    the files. Raises ConfigError: one line per mistake, with file, line and key.
    """
    return declared_tests(load_tables(folder), tables)


def declared_tests(components: Sequence[WrittenTable], tables: Collection[str] = ()) -> list[DeclaredTest]:
    """Return the tests of these tables among all (``components``). Raises as `find_table_tests`."""
    specs = {component.spec.name: component.spec for component in components}
    folders: dict[Path, dict[str, WrittenTable]] = {}
    for component in components:
        folders.setdefault(component.folder, {})[component.spec.name] = component
    declared: list[DeclaredTest] = []
    mistakes: list[str] = []
    for folder, own in folders.items():
        if not (folder / TESTS_FILE).is_file() or (tables and not own.keys() & set(tables)):
            continue
        queries = {
            name: {gold.name: component.query_of(gold, list(specs.values())) for gold in component.spec.gold}
            for name, component in own.items()
        }
        try:
            read = read_tests(folder / TESTS_FILE, {name: specs[name] for name in own}, specs, queries)
        except ConfigError as error:
            mistakes.append(str(error))
            continue
        declared += [
            DeclaredTest(test, location, specs[name], specs, queries[name])
            for name, test, location in read
            if not tables or name in tables
        ]
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return declared


def verify_table_test(spark: SparkSession, declared: DeclaredTest) -> None:
    """Verify one test of a table. Raises AssertionError, which lists the differences."""
    differences = run_table_test(spark, declared)
    require(not differences, "\n".join([f"{declared.location}: {declared}", *differences]))


def run_table_test(spark: SparkSession, declared: DeclaredTest) -> list[str]:
    """Judge the given rows as a run would, and return a line for each difference from what is expected. Nothing is written."""
    session = copy_session(spark)
    for key, value in FOR_FEW_ROWS.items():
        session.conf.set(key, value)
    with TemporaryDirectory() as home:
        settings = Settings(root=f"{home}/lake", landing=home, dagster_home=Path(home))
        # Without a history there is nothing to compare distributions with.
        spec = declared.spec.model_copy(update={"drift": None})
        return _differences(declared, Run(settings, spec, lambda: session, "test"))


def _differences(declared: DeclaredTest, run: Run) -> list[str]:
    test, spec, windows = declared.test, declared.spec, declared.windows
    others = {name: given_silver(run.spark, declared.others[name], rows) for name, rows in test.tables.items()}
    bronze = given_bronze(run.spark, spec, windows, test.batches)
    records = given_records(spec, windows, test.batches, run)
    batches = GivenBatches(run, records=records, rows=bronze, tables=given_tables(others, run.spec))
    _judge(batches)
    lines = _batch_differences(batches, windows, test.batches)
    if test.silver is None and not test.gold:
        return lines
    silver = batches.published_rows()
    if test.silver is not None:
        lines += [f"silver: {line}" for line in _frame_differences(test.silver, silver)]
    for name, expected in test.gold.items():
        differences = _gold_differences(declared, run, name, expected, {**others, spec.name: silver})
        lines += [f"gold {name}: {line}" for line in differences]
    return lines


def _judge(target: Target) -> None:
    """Run the gate's judging steps, and the checks that a run defers until it has published. Samples of failing values, which
    the step `decide` collects for people, are left out.
    """
    run_steps(target, (stage, measure))
    target.decisions = target.decide()
    target.log = [*target.log, *target.decisions]
    complete(target, deferred_outcomes(target))


def _batch_differences(target: GivenBatches, windows: Sequence[Window], batches: Sequence[GivenBatch]) -> list[str]:
    decisions = {decision.p_extracted_at: decision for decision in target.own}
    numbers: dict[tuple[int, str], list[int]] = {}
    failing: Mapping[tuple, tuple[str, ...]] = {}
    if any(batch.failing_rows is not None for batch in batches):
        failing = target.failing_checks()
        for row in target.rows.selectExpr("unix_micros(p_extracted_at) AS at", "_content_hash", "_source_file").collect():
            numbers.setdefault((row["at"], row["_content_hash"]), []).append(int(row["_source_file"]))
    lines = []
    for index, (window, batch) in enumerate(zip(windows, batches, strict=True), 1):
        where = f"batch {index} ({window.key})"
        lines += [f"{where}: {line}" for line in _decision_differences(decisions[window.start], batch)]
        if batch.failing_rows is not None:
            checks = _by_number(failing, numbers, window.start)
            lines += [f"{where}, {line}" for line in _row_differences(batch.failing_rows, checks)]
    return lines


def _by_number(
    failing: Mapping[tuple, tuple[str, ...]], numbers: Mapping[tuple[int, str], Sequence[int]], start: datetime
) -> dict[int, tuple[str, ...]]:
    """Return the checks that each row of a window fails, by the row's number."""
    own = {key: checks for key, checks in failing.items() if key[0] == micros(start)}
    return {number: checks for key, checks in own.items() for number in numbers[key]}


def _row_differences(expected: Mapping[int, Sequence[str]], actual: Mapping[int, Sequence[str]]) -> list[str]:
    return [
        f"row {number}: fails {_listed(actual.get(number, ()))}; expected {_listed(expected.get(number, ()))}"
        for number in sorted({*expected, *actual})
        if set(expected.get(number, ())) != set(actual.get(number, ()))
    ]


def _decision_differences(decision: Decision, expected: GivenBatch | ExpectedGold) -> list[str]:
    lines, messages = [], "; ".join(f"{reason.check}: {reason.message}" for reason in decision.reasons)
    if expected.verdict is not None and decision.verdict != expected.verdict:
        lines.append(f"the verdict is {decision.verdict}, expected {expected.verdict}" + (f" ({messages})" if messages else ""))
    checks = {reason.check for reason in decision.reasons}
    if expected.reasons is not None and checks != set(expected.reasons):
        lines.append(f"the reasons are {_listed(sorted(checks))}; expected {_listed(expected.reasons)}")
    return lines


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


def _gold_differences(
    declared: DeclaredTest, run: Run, name: str, expected: ExpectedGold, silver: Mapping[str, DataFrame]
) -> list[str]:
    gold, query = next(each for each in declared.spec.gold if each.name == name), declared.queries[name]
    specs = list(declared.others.values())
    pii, is_personal = personal_columns(query, specs), reads_personal(query, specs)
    values = {"settings": run.settings, "session": run.session, "run_id": run.run_id, "pii": pii, "reads_personal": is_personal}
    inputs = GoldInputs(dict.fromkeys(inputs_of(gold, query), 1))
    frames = {table: frame for table, frame in silver.items() if f"silver_{table}" in inputs.versions}
    target = GivenGold(GoldRun(spec=gold, query=query, **values), inputs=inputs, at=run.clock(), number=1, frames=frames)
    try:
        _judge(target)
        (decision,) = target.own
        lines = _decision_differences(decision, expected)
        if expected.rows is not None:
            lines += _frame_differences(expected.rows, target.published_rows(decision))
        return lines
    except SCAN_ERRORS as error:
        return [f"its SQL fails: {error_text(error, is_personal)}"]
    except LakehouseError as error:
        return [str(error)]


def _frame_differences(expected: Sequence[Row], frame: DataFrame) -> list[str]:
    return row_differences(expected, texts_of(frame), dict(frame.dtypes))
