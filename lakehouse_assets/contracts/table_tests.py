"""Tests of a table's own rules and SQL, as a `tests.yaml` beside its `defs.yaml` declares them.

Belongs here: their shape, and mistakes that the table's contract shows. Does not: reading the file (table_tests_file), or
running a test (testing).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

from pydantic import Field

from lakehouse_assets.checks.strict_model import StrictModel
from lakehouse_assets.contracts.expected_rows import expected_value
from lakehouse_assets.contracts.gold_rules import inputs_of
from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.contracts.mistakes import Keys
from lakehouse_assets.contracts.silver import silver_types
from lakehouse_assets.contracts.source import safe_name
from lakehouse_assets.contracts.table import TableSpec

Verdict = Literal["published", "published_with_warnings", "quarantined"]
Row = dict[str, str | None]
BUILT_IN = ("readable_row", "key_not_null", "delete_when", "supersede")
BUILT_IN += ("source_columns", "new_columns", "source_types", "source_names")
OF_GOLD = ("key", "grain", "calendar", "schema_matches_contract")


class GivenBatch(StrictModel):
    """The rows of one window, and what the gate should make of them."""

    window: str | None = None
    """Its key. By default the table's first window, then the one after the window before."""
    rows: tuple[Row | str, ...]
    """Rows as the source has them: `column: value`, by the source's names. A column that a row does not list is NULL. A text
    instead is a record that cannot be read."""
    missing_columns: tuple[str, ...] = ()
    """Declared columns that the batch lacks, by the source's names."""
    new_columns: tuple[str, ...] = ()
    """Undeclared columns that the batch has."""
    control: dict[str, float | None] | None = None
    """The totals that the source reports, for `control_total`."""
    verdict: Verdict | None = None
    """The batch's verdict."""
    reasons: tuple[str, ...] | None = None
    """The checks that do not pass, all of them, in any order."""
    failing_rows: dict[int, tuple[str, ...]] | None = None
    """`number of the row: [checks]`, from 1: the row checks that each row fails. Rows that are not listed fail none."""


class ExpectedGold(StrictModel):
    """What a gold table should be, derived from the silver of the test."""

    verdict: Verdict | None = None
    """Its verdict."""
    reasons: tuple[str, ...] | None = None
    """The checks that do not pass, all of them, in any order."""
    rows: tuple[Row, ...] | None = None
    """All its rows, in any order. Of each row, the listed columns are compared."""


class TableTest(StrictModel):
    """Given rows, and the expected verdicts, reasons, silver and gold. What is left out is not compared."""

    name: str = Field(min_length=1)
    """Unique in the file."""
    table: str | None = None
    """The table, if the folder has several."""
    description: str = ""
    """For people."""
    batches: tuple[GivenBatch, ...] = Field(min_length=1)
    """The batches, oldest window first. Each window has one batch."""
    tables: dict[str, tuple[Row, ...]] = {}
    """`table: rows` of other tables that checks or gold read: their silver, by silver's names."""
    silver: tuple[Row, ...] | None = None
    """All rows of silver after these batches, in any order. Of each row, the listed columns are compared."""
    gold: dict[str, ExpectedGold] = {}
    """`gold table: what is expected of it`."""

    @property
    def expects_something(self) -> bool:
        """Whether there is anything to compare."""
        of_batches = any((b.verdict, b.reasons, b.failing_rows) != (None, None, None) for b in self.batches)
        of_gold = any((g.verdict, g.reasons, g.rows) != (None, None, None) for g in self.gold.values())
        return of_batches or of_gold or self.silver is not None


class TableTestsFile(StrictModel):
    """A `tests.yaml`."""

    tests: tuple[TableTest, ...] = Field(min_length=1)
    """The tests."""


def window_keys(test: TableTest, spec: TableSpec) -> list[str]:
    """Return each batch's window key: the stated one, or the one after the batch before."""
    keys: list[str] = []
    window = spec.extraction.first
    for batch in test.batches:
        if batch.window is not None:
            window = spec.extraction.window(batch.window)
        elif keys:
            window = spec.extraction.window_at(window.end)
        keys.append(window.key)
    return keys


def mistakes_of_test(
    test: TableTest, spec: TableSpec, others: Mapping[str, TableSpec], queries: Mapping[str, GoldQuery]
) -> Iterator[tuple[Keys, str]]:
    """Yield the keys below a test and the text of each mistake. ``others``: all tables. ``queries``: of the table's gold."""
    if not test.expects_something:
        yield (), "nothing is expected; add verdict, reasons, failing_rows, silver or gold"
    yield from _window_mistakes(test, spec)
    for index, batch in enumerate(test.batches):
        yield from (((("batches", index, *keys)), text) for keys, text in _batch_mistakes(batch, spec))
    evolves = spec.schema_policy.new_columns == "evolve"
    added = {safe_name(name): "string" for batch in test.batches for name in batch.new_columns if evolves}
    yield from _row_mistakes(("silver",), test.silver or (), silver_types(spec) | added, "silver")
    for name, rows in test.tables.items():
        if name not in others or name == spec.name:
            listed = ", ".join(sorted(set(others) - {spec.name})) or "none"
            yield ("tables", name), f"there is no other table {name!r}; there are {listed}"
        else:
            yield from _row_mistakes(("tables", name), rows, silver_types(others[name]), name)
    for name, expected in test.gold.items():
        yield from _gold_mistakes(name, expected, test, spec, queries)


def _window_mistakes(test: TableTest, spec: TableSpec) -> Iterator[tuple[Keys, str]]:
    for index, batch in enumerate(test.batches):
        try:
            keys = window_keys(test.model_copy(update={"batches": test.batches[: index + 1]}), spec)
        except ValueError as error:
            yield ("batches", index, "window"), str(error)
            return
        starts = [spec.extraction.window(key).start for key in keys]
        if index and starts[-1] <= starts[-2]:
            yield ("batches", index, "window"), f"{keys[-1]} does not come after {keys[-2]}, the window of the batch before"
        if not batch.rows and batch.window is None:
            yield ("batches", index, "rows"), "no rows; for a batch without rows, state its `window:`, too"


def _batch_mistakes(batch: GivenBatch, spec: TableSpec) -> Iterator[tuple[Keys, str]]:
    declared = spec.all_source_columns
    for index, name in enumerate(batch.missing_columns):
        if name not in declared:
            yield ("missing_columns", index), f"no column {name!r} is declared; the source's names are {', '.join(declared)}"
    for index, name in enumerate(batch.new_columns):
        if name in declared:
            yield ("new_columns", index), f"the column {name!r} is declared"
    present = [name for name in declared if name not in batch.missing_columns] + list(batch.new_columns)
    for index, row in enumerate(batch.rows):
        for name in row if isinstance(row, dict) else ():
            if name not in present:
                advice = "list one that is not declared under new_columns"
                yield ("rows", index, name), f"the batch has no column {name!r}; it has {', '.join(present)}; {advice}"
    checks = _check_names(spec)
    yield from _unknown_checks(("reasons",), batch.reasons or (), checks)
    for number, names in (batch.failing_rows or {}).items():
        if not 1 <= number <= len(batch.rows):
            yield ("failing_rows", str(number)), f"there is no row {number}; rows are counted from 1 to {len(batch.rows)}"
        yield from _unknown_checks(("failing_rows", str(number)), names, checks)


def _check_names(spec: TableSpec) -> list[str]:
    return [*(check.id for check in spec.checks), *BUILT_IN, *(f"cast_{name}" for name in spec.columns)]


def _unknown_checks(keys: Keys, names: Sequence[str], checks: Sequence[str]) -> Iterator[tuple[Keys, str]]:
    for index, name in enumerate(names):
        if name not in checks:
            yield (*keys, index), f"there is no check {name!r}; there are {', '.join(checks)}"


def _row_mistakes(keys: Keys, rows: Sequence[Row], types: Mapping[str, str], of: str) -> Iterator[tuple[Keys, str]]:
    for index, row in enumerate(rows):
        for name, text in row.items():
            if name not in types:
                yield (*keys, index, name), f"{of} has no column {name!r}; it has {', '.join(types)}"
                continue
            try:
                expected_value(text, types[name])
            except ValueError:
                yield (*keys, index, name), f"{text!r} is no {types[name]}"


def _gold_mistakes(
    name: str, expected: ExpectedGold, test: TableTest, spec: TableSpec, queries: Mapping[str, GoldQuery]
) -> Iterator[tuple[Keys, str]]:
    gold = next((each for each in spec.gold if each.name == name), None)
    if gold is None or name not in queries:
        listed = ", ".join(queries) or "none"
        yield ("gold", name), f"{spec.name} has no gold table {name!r}; there are {listed}"
        return
    readable = {f"silver_{spec.name}", *(f"silver_{table}" for table in test.tables)}
    for table in inputs_of(gold, queries[name]):
        if table in gold.reads:
            yield ("gold", name), f"it reads {table}, a table of another asset, which a test cannot give; test it by a run"
        elif table not in readable:
            other = table.removeprefix("silver_")
            yield ("gold", name), f"it reads {table}: give its rows under `tables:` of the test (`{other}: []` for none)"
    yield from _unknown_checks(("gold", name, "reasons"), expected.reasons or (), [*(c.id for c in gold.checks), *OF_GOLD])
    yield from _row_mistakes(("gold", name, "rows"), expected.rows or (), queries[name].types, f"gold_{name}")


def refuse_namesakes(names: Collection[str]) -> Iterator[tuple[int, str]]:
    """Yield the index and name of each test whose name an earlier one has."""
    earlier: set[str] = set()
    for index, name in enumerate(names):
        if name in earlier:
            yield index, name
        earlier.add(name)
