"""A table's source columns as faults see them: their kind, their text and typed value in SQL, and their figures by window.

Belongs here: which columns can have faults, and SQL over one of them. Does not: the faults (rehearsal_faults), or copying rows
(rehearsal_copies).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lakehouse_assets.checks.sql.text import identifier, literal
from lakehouse_assets.checks.types import is_time_of_day
from lakehouse_assets.contracts.columns import Column
from lakehouse_assets.contracts.number_marks import PLAIN_MARKS, NumberMarks
from lakehouse_assets.contracts.source import safe_name
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.decisions.schema.evolution import bronze_name
from lakehouse_assets.measures.typed import has_zone

NUMBER, TEXT, MOMENT, DATE, BOOLEAN = "number", "text", "moment", "date", "boolean"
PLAIN = frozenset({NUMBER, TEXT, MOMENT, DATE, BOOLEAN})
_KINDS: dict[str, str] = dict.fromkeys(("tinyint", "smallint", "int", "bigint", "float", "double"), NUMBER)
_KINDS |= {"string": TEXT, "boolean": BOOLEAN, "date": DATE, "timestamp": MOMENT, "timestamp_ntz": MOMENT}
FIGURES = ("filled", "distinct", "spread", "quantiles", "usual", "first", "stuck")
LEVELS = (0.1, 0.5, 0.9)  # of `quantiles`


@dataclass(frozen=True)
class FaultColumn:
    """One source column. ``stored``: its name in bronze. ``index``: its number, which names its figures. ``nulls``: texts that
    mean NULL.
    """

    name: str
    column: Column
    stored: str
    index: int
    nulls: tuple[str, ...] = ()
    marks: NumberMarks = PLAIN_MARKS

    @property
    def kind(self) -> str:
        """Number, text, moment, date or boolean."""
        return _kind(self.column)

    @property
    def text(self) -> str:
        """SQL of the text as it came."""
        return identifier(self.stored)

    @property
    def filled(self) -> str:
        """SQL of the text; NULL where it means none."""
        if not self.nulls:
            return self.text
        return f"CASE WHEN {self.text} NOT IN ({', '.join(map(literal, self.nulls))}) THEN {self.text} END"

    @property
    def number(self) -> str:
        """SQL of the value as a finite DOUBLE: of a moment its seconds, of a date its days; NULL for other kinds."""
        if self.kind == MOMENT:
            return f"CAST(unix_micros({self._moment}) AS DOUBLE)"
        if self.kind == DATE:
            return f"CAST(unix_date({self._date}) AS DOUBLE)"
        if self.kind != NUMBER:
            return "CAST(NULL AS DOUBLE)"
        value = f"try_cast({self.marks.as_plain(self.filled)} AS DOUBLE)"
        return f"CASE WHEN abs({value}) < CAST('Infinity' AS DOUBLE) THEN {value} END"

    def figure(self, name: str) -> str:
        """SQL of one of `FIGURES` of the row's window."""
        return f"_rehearsal_{name}_{self.index}"

    def aggregates(self) -> dict[str, str]:
        """Return SQL of every figure over the rows of a window, by its column."""
        hashed = f"xxhash64({self.filled}, _content_hash)"
        quantiles = f"percentile_approx({self.number}, array({', '.join(map(str, LEVELS))}))"
        aggregates = {
            "filled": f"count({self.filled})",
            "distinct": f"approx_count_distinct({self.filled})",
            "spread": f"stddev_samp({self.number})",
            "quantiles": quantiles,
            "usual": f"mode({self.filled}, true)",
            "first": f"min({self.filled})",
            "stuck": f"min_by({self.text}, CASE WHEN {self.filled} IS NOT NULL THEN {hashed} END)",
        }
        return {self.figure(name): sql for name, sql in aggregates.items()}

    def quantile(self, level: float) -> str:
        """SQL of a quantile at one of `LEVELS` of the row's window."""
        return f"{self.figure('quantiles')}[{LEVELS.index(level)}]"

    def scaled(self, factor: int) -> str:
        """SQL of the number times a factor, as a text of its type; what is no number stays as it is."""
        scaled = f"try_cast({self._plain} AS DOUBLE) * {float(factor)!r}D"
        if (exact := self._exact) is not None:
            scaled = f"{exact} * CAST({factor} AS DECIMAL(7,0))"
        return self._or_as_it_is(self.marks.as_written(f"CAST({scaled} AS STRING)"))

    def moved(self, deviations: float) -> str:
        """The same of the number plus so many deviations of its window."""
        distance = f"{deviations!r}D * {self.figure('spread')}"
        moved = f"try_cast({self._plain} AS DOUBLE) + {distance}"
        if (exact := self._exact) is not None:
            moved = f"{exact} + try_cast({distance} AS DECIMAL(30,{self._scale}))"
        return self._or_as_it_is(self.marks.as_written(f"CAST({moved} AS STRING)"))

    def later(self, hours: int) -> str:
        """SQL of the moment so many hours later, or of the date one day later, in the form in which it came."""
        if self.kind == DATE:
            later, form = f"date_add({self._date}, 1)", self.column.format or "yyyy-MM-dd"
            return self._or_as_it_is(f"date_format({later}, {literal(form)})")
        later = f"({self._moment}) + make_dt_interval(0, {int(hours)})"
        if self.column.format:
            return self._or_as_it_is(f"date_format({later}, {literal(self.column.format)})")
        plain = f"""date_format({later}, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS")"""
        zoned = f"CASE WHEN {has_zone(self.text, None)} THEN concat({plain}, 'Z') ELSE {plain} END"
        return self._or_as_it_is(zoned)

    def _or_as_it_is(self, sql: str) -> str:
        return f"coalesce({sql}, {self.text})"

    @property
    def _moment(self) -> str:
        if self.column.format:
            return f"try_to_timestamp({self.filled}, {literal(self.column.format)})"
        return f"CASE WHEN {is_time_of_day(self.filled)} THEN NULL ELSE try_cast({self.filled} AS TIMESTAMP) END"

    @property
    def _date(self) -> str:
        if self.column.format:
            return f"CAST(try_to_timestamp({self.filled}, {literal(self.column.format)}) AS DATE)"
        return f"try_cast({self.filled} AS DATE)"

    @property
    def _plain(self) -> str:
        """SQL of a number's text as Spark casts it."""
        return self.marks.as_plain(self.text)

    @property
    def _scale(self) -> int:
        return int(self.column.type.rstrip(")").split(",")[1]) if self.column.type.startswith("decimal") else 0

    @property
    def _exact(self) -> str | None:
        """SQL of a whole or decimal number; None for a floating one."""
        if self.column.type in ("float", "double"):
            return None
        return f"try_cast({self._plain} AS DECIMAL(30,{self._scale}))"


def _kind(column: Column) -> str:
    return NUMBER if column.type.startswith("decimal") else _KINDS.get(column.type, "")


def fault_columns(spec: TableContract, available: Collection[str]) -> tuple[list[FaultColumn], dict[str, str]]:
    """Return the source columns that can have faults, in the declared order, and why the others cannot, by name.

    ``available``: the columns of bronze.
    """
    columns: list[FaultColumn] = []
    left_out: dict[str, str] = {}
    stored_names, lower = set[str](), {name.lower() for name in available}
    for name, column in spec.columns.items():
        stored = bronze_name(spec, name, available)
        several = [source for source in spec.source_columns(name) if safe_name(source).lower() in lower]
        if not _kind(column):
            left_out[name] = f"{'nested' if column.nested else column.type} values are left as they are"
        elif stored.lower() not in lower:
            left_out[name] = "no window has had this column"
        elif len(several) > 1:
            left_out[name] = f"its windows have different source columns: {', '.join(several)}"
        elif stored.lower() in stored_names:
            left_out[name] = "it reads the same source column as another"
        else:
            stored_names.add(stored.lower())
            columns.append(FaultColumn(name, column, stored, len(columns), spec.source.nulls, NumberMarks.of(spec.source)))
    return columns, left_out


@dataclass(frozen=True)
class RehearsalFigures:
    """What choosing a column needs of one window: rows with a value, distinct values, and the deviation of its numbers."""

    filled: int
    distinct: int
    spread: float | None

    @classmethod
    def of(cls, column: FaultColumn, row: Mapping[str, object]) -> "RehearsalFigures":
        """Read them from a row of `FaultColumn.aggregates`."""
        values = {name: row[column.figure(name)] for name in ("filled", "distinct", "spread")}
        return cls(**values)  # pyright: ignore[reportArgumentType]
