"""Faulty copies of windows, as one frame of bronze rows: which faults in which columns, and the rows of every copy.

Belongs here: choosing columns by the seed, and the frame. Does not: the faults (rehearsal_faults), or judging it (rehearse).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window as W

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.batch import BATCH_COLUMNS, CONTENT_HASH, ROW_COLUMNS, SEQUENCE, WINDOW, Batch, start_of
from lakehouse_assets.decisions.rehearsal import Copy
from lakehouse_assets.measures.frames import MOMENT, local_frame, moment
from lakehouse_assets.operations.rehearsal_columns import FaultColumn, RehearsalFigures
from lakehouse_assets.operations.rehearsal_faults import CHOICE, DRAW, NO_SIZE, Fault, Size

# A copy is an extraction of its window, with a number that no real one has.
FIRST_SEQUENCE = 1_000_000_000
_RESOLUTION = 1_000_003


@dataclass(frozen=True)
class WindowFigures:
    """What choosing faults needs of one accepted window: its batch, its rows, and its columns' figures in their order."""

    batch: Batch
    rows: int
    columns: tuple[RehearsalFigures, ...]


@dataclass(frozen=True)
class FaultyCopy:
    """A copy, and how it is made. ``of``: the batch that is copied. ``fault``: None for the clean copy."""

    copy: Copy
    of: Batch
    fault: Fault | None = None
    size: Size = NO_SIZE
    column: FaultColumn | None = None
    partner: FaultColumn | None = None

    @property
    def batch(self) -> Batch:
        """The batch that the gate judges."""
        return (self.of[0], FIRST_SEQUENCE + self.copy.number)

    @property
    def recipe(self) -> tuple[str, str, str, str]:
        """What is equal in copies of several windows that are made alike."""
        return (self.copy.fault, self.copy.size, self.copy.column, self.copy.partner)


def measure_figures(rows: DataFrame, columns: Sequence[FaultColumn]) -> DataFrame:
    """Return one row per batch: its rows, and every figure of these columns."""
    aggregates = [F.count(F.lit(1)).alias("_rehearsal_rows")]
    aggregates += [F.expr(sql).alias(name) for column in columns for name, sql in column.aggregates().items()]
    return rows.groupBy(*BATCH_COLUMNS).agg(*aggregates)


def read_figures(figures: DataFrame, columns: Sequence[FaultColumn]) -> list[WindowFigures]:
    """Return the figures of each batch, oldest first. Collects a few numbers per batch and column, and no value of a row."""
    names = [column.figure(name) for column in columns for name in ("filled", "distinct", "spread")]
    chosen = figures.select(F.unix_micros(WINDOW).alias("_at"), SEQUENCE, "_rehearsal_rows", *names)
    read = []
    for row in chosen.collect():
        own = tuple(RehearsalFigures.of(column, row.asDict()) for column in columns)
        read.append(WindowFigures((moment(row["_at"]), row[SEQUENCE]), row["_rehearsal_rows"], own))
    return sorted(read, key=lambda each: start_of(each.batch))


def plan_copies(
    windows: Sequence[WindowFigures],
    faulty: Iterable[datetime],
    faults: Sequence[Fault],
    columns: Sequence[FaultColumn],
    most_columns: int,
    seed: int,
) -> list[FaultyCopy]:
    """Return the copies of these windows: a clean one of each, and of the windows ``faulty`` one for each fault and size. A
    fault is in at most ``most_columns`` of the columns that can have it. Each window takes the columns after those of the one
    before.
    """
    copies: list[FaultyCopy] = []
    wanted = {start: index for index, start in enumerate(sorted(faulty))}
    for window in windows:
        start = start_of(window.batch)
        copies.append(FaultyCopy(Copy(start, 0), window.batch))
        if start in wanted:
            turn = seed + wanted[start] * most_columns
            chosen = [each for fault in faults for each in _fault_targets(fault, window, columns, most_columns, turn)]
            for number, (fault, size, column, partner) in enumerate(chosen, start=1):
                names = (column.name if column else "", partner.name if partner else "")
                copy = Copy(start, number, fault.name, size.label, *names)
                copies.append(FaultyCopy(copy, window.batch, fault, size, column, partner))
    return copies


FaultTarget = tuple[Fault, Size, FaultColumn | None, FaultColumn | None]


def _fault_targets(
    fault: Fault, window: WindowFigures, columns: Sequence[FaultColumn], most: int, turn: int
) -> list[FaultTarget]:
    if not fault.kinds:
        return [(fault, size, None, None) for size in fault.sizes]
    fitting = [c for c, figures in zip(columns, window.columns, strict=True) if fault.can_be_in(c, figures)]
    kinds = Counter(column.kind for column in fitting)
    fitting = [column for column in fitting if not fault.swaps or kinds[column.kind] > 1]
    targets: list[FaultTarget] = []
    for index in range(min(most, len(fitting))):
        column = fitting[(turn + index) % len(fitting)]
        alike = [other for other in fitting if other.kind == column.kind]
        partner = alike[(alike.index(column) + 1) % len(alike)] if fault.swaps else None
        targets += [(fault, size, column, partner) for size in fault.sizes]
    return targets


def split_copies(copies: Sequence[FaultyCopy], rows_of: Mapping[Batch, int], most_rows: int) -> list[list[FaultyCopy]]:
    """Return the copies in groups of about ``most_rows`` rows at most, or of one copy each."""
    groups: list[list[FaultyCopy]] = [[]]
    rows = 0.0
    for each in copies:
        own = rows_of[each.of] * (each.fault.most(each.size) if each.fault else 1)
        if groups[-1] and rows + own > most_rows:
            groups.append([])
            rows = 0.0
        groups[-1].append(each)
        rows += own
    return groups


def make_copies(
    bronze: DataFrame, figures: DataFrame, copies: Sequence[FaultyCopy], columns: Sequence[FaultColumn], seed: int
) -> DataFrame:
    """Return the rows of all copies as bronze has them, with `_rehearsal_changed`: whether a fault changed a value. One scan of
    the windows' rows, which nothing shuffles but the numbering of equal rows. Which rows change follows from the seed, the copy
    and the row's content.
    """
    recipes = {recipe: index for index, recipe in enumerate(dict.fromkeys(each.recipe for each in copies))}
    by_recipe = {recipes[each.recipe]: each for each in copies}
    table = [(start_of(each.of), each.of[1], each.batch[1], recipes[each.recipe]) for each in copies]
    kinds = [
        (WINDOW, MOMENT),
        ("_rehearsal_of", pa.int32()),
        ("_rehearsal_copy", pa.int32()),
        ("_rehearsal_recipe", pa.int32()),
    ]
    of_window = local_frame(bronze.sparkSession, kinds, table)
    nth = F.row_number().over(W.partitionBy(*ROW_COLUMNS).orderBy(F.lit(1)))
    rows = bronze.withColumn("_rehearsal_nth", nth).join(F.broadcast(figures), list(BATCH_COLUMNS))
    rows = rows.withColumnRenamed(SEQUENCE, "_rehearsal_of").join(F.broadcast(of_window), [WINDOW, "_rehearsal_of"])
    rows = rows.withColumn(
        CHOICE, F.abs(F.xxhash64(F.lit(seed), "_rehearsal_copy", CONTENT_HASH, "_rehearsal_nth") % F.lit(2**62))
    )
    rows = rows.withColumn(DRAW, (F.col(CHOICE) % _RESOLUTION) / F.lit(float(_RESOLUTION)))
    # A draw and a choice of the same number would go together.
    rows = rows.withColumn(CHOICE, F.expr(f"{CHOICE} div {_RESOLUTION}"))
    changes = {column: _changed_text(column, by_recipe) for column in columns}
    rows = rows.select("*", *[value.alias(f"_rehearsal_new_{c.index}") for c, value in changes.items() if value is not None])
    rows = rows.withColumn("_rehearsal_times", _times(by_recipe)).where("_rehearsal_times > 0")
    rows = rows.withColumn("_rehearsal_again", F.explode(F.sequence(F.lit(1), "_rehearsal_times")))
    differs = [f"NOT ({c.text} <=> _rehearsal_new_{c.index})" for c, value in changes.items() if value is not None]
    changed = F.expr(" OR ".join(differs) or "FALSE")
    new_texts = {c.stored.lower(): F.col(f"_rehearsal_new_{c.index}") for c, value in changes.items() if value is not None}
    cells: dict[str, Column] = {name: new_texts.get(name.lower(), F.col(identifier(name))) for name in bronze.columns}
    cells[SEQUENCE] = F.col("_rehearsal_copy").cast("int")
    hashed = F.md5(F.concat(F.col(CONTENT_HASH), F.lit("|"), F.col("_rehearsal_copy").cast("string")))
    cells[CONTENT_HASH] = F.when(changed, hashed).otherwise(F.col(CONTENT_HASH))
    return rows.select(*[cell.alias(name) for name, cell in cells.items()], changed.alias("_rehearsal_changed"))


def _changed_text(column: FaultColumn, by_recipe: Mapping[int, FaultyCopy]) -> Column | None:
    """Return the column's text with the faults that change it; None where no copy has one."""
    branches = []
    for index, each in by_recipe.items():
        texts = each.fault.texts(each.column, each.partner, each.size) if each.fault and each.column else {}
        if sql := texts.get(column.stored):
            filled = " AND ".join(f"({one.filled}) IS NOT NULL" for one in (each.column, each.partner) if one)
            chosen = f"_rehearsal_recipe = {index} AND {DRAW} < {each.size.share!r}D AND {filled}"
            branches.append(f"WHEN {chosen} THEN {sql}")
    return F.expr(f"CASE {' '.join(branches)} ELSE {column.text} END") if branches else None


def _times(by_recipe: Mapping[int, FaultyCopy]) -> Column:
    """Return how many times a row is in its copy."""
    branches = []
    for index, each in by_recipe.items():
        if each.fault and each.fault.times:
            branches.append(f"WHEN _rehearsal_recipe = {index} THEN ({each.fault.times(each.column, each.size)})")
    return F.expr(f"CASE {' '.join(branches)} ELSE 1 END" if branches else "1")


def count_changes(copied: DataFrame) -> dict[Batch, tuple[int, int]]:
    """Return by copy its rows, and those with a changed value. Collects a row per copy."""
    counts = copied.groupBy(F.unix_micros(WINDOW).alias("_at"), SEQUENCE).agg(
        F.count(F.lit(1)).alias("rows"), F.count_if("_rehearsal_changed").alias("changed")
    )
    return {(moment(row["_at"]), row[SEQUENCE]): (row["rows"], row["changed"]) for row in counts.collect()}
