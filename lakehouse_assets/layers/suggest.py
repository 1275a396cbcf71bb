"""Checks that published rows would bear: proposed from drift's profiles and one look at silver, for a person to read and paste.

Belongs here: profiles and silver → figures of each column → proposals. Does not: trying them (trial), or writing any YAML file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import ceil, floor, log10
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql_text import identifier
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.layers.run import Run
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.seen import Seen, seen_by_window

FEW = 20  # different texts up to which a list of them is proposed
ENOUGH = 100  # rows below which nothing is known
WINDOWS = 5  # windows below which nothing is known of a window's rows
NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


@dataclass(frozen=True)
class Proposal:
    """A check as YAML's values, and what it was seen in."""

    check: dict[str, Any]
    because: str


def suggest(run: Run) -> list[Proposal]:
    """Proposals for what is not declared yet. Two aggregations over silver; collects one row, and at most 20 texts a column.

    Where drift has stored a profile of a column in every accepted window, these tell, and silver is not asked: they know each
    window as it was judged, and silver only what later windows left of it. No value of a `pii` column is looked at. Raises
    RefusedError where silver has fewer than 100 rows.
    """
    spec, path = run.spec, run.path("silver")
    if not delta.exists(path):
        raise RefusedError(f"{spec.name} has no silver table yet; `lakehouse run` first")
    silver = run.spark.read.format("delta").load(path)
    known = logs.decisions(run.settings, spec.name, evidence=False)
    stored = seen_by_window(run.settings, spec, known)
    profiled = {name: windows for name, windows in stored.items() if spec.columns[name].type.startswith(NUMBERS)}
    figures = _figures(silver, spec, profiled)
    if figures["rows"] < ENOUGH:
        raise RefusedError(f"silver {spec.name} has {figures['rows']} rows; at least {ENOUGH} are wanted")
    lists = _lists(silver, spec, figures)
    declared = {(check.check, *check.own_columns) for check in spec.checks}
    found = [p for name in spec.columns for p in _of_column(spec, name, figures, lists.get(name))]
    found += _of_rows(known)
    return [p for p in found if (p.check["check"], *_columns(p.check)) not in declared]


def _columns(check: dict[str, Any]) -> tuple[str, ...]:
    return (check["column"],) if "column" in check else ()


def _figures(silver: DataFrame, spec: TableSpec, profiled: Mapping[str, Sequence[Seen]]) -> dict[str, Any]:
    wanted = [F.count(F.lit(1)).alias("rows")]
    for place, (name, column) in enumerate(spec.columns.items()):
        if name in profiled:
            continue
        value = F.col(identifier(name))
        wanted.append(F.count_if(value.isNull()).alias(f"nulls_{place}"))
        if column.pii:
            continue
        if column.type == "string":
            size = F.length(value)
            wanted += [F.min(size).alias(f"low_{place}"), F.max(size).alias(f"high_{place}")]
            wanted.append(F.approx_count_distinct(value).alias(f"distinct_{place}"))
        elif column.type.startswith(NUMBERS):
            number = value.cast("double")
            finite = F.when(~F.isnan(number) & (F.abs(number) != float("inf")), number)
            wanted += [F.min(finite).alias(f"low_{place}"), F.max(finite).alias(f"high_{place}")]
    figures = silver.agg(*wanted).collect()[0].asDict()  # one row
    for place, name in enumerate(spec.columns):
        if name in profiled:
            figures |= {f"{figure}_{place}": value for figure, value in _of_profiles(profiled[name]).items()}
    return figures


def _lists(silver: DataFrame, spec: TableSpec, figures: dict[str, Any]) -> dict[str, list[str]]:
    few = [
        name
        for place, name in enumerate(spec.columns)
        if 0 < (figures.get(f"distinct_{place}") or 0) <= FEW and (figures[f"high_{place}"] or 0) <= 100
    ]
    if not few:
        return {}
    sets = [F.slice(F.array_sort(F.collect_set(F.col(identifier(name)))), 1, FEW + 1).alias(name) for name in few]
    found = silver.agg(*sets).collect()[0].asDict()  # one row of at most 21 texts a column
    return {name: values for name, values in found.items() if len(values) <= FEW}


def _of_profiles(windows: Sequence[Seen]) -> dict[str, Any]:
    """The same figures of one column, and those that only windows have."""
    lows = [w.minimum for w in windows if w.minimum is not None]
    highs = [w.maximum for w in windows if w.maximum is not None]
    return {
        "rows": sum(w.rows for w in windows),
        "nulls": sum(w.nulls for w in windows),
        "low": min(lows, default=None),
        "high": max(highs, default=None),
        "windows": len(windows),
        "worst": max((w.nulls / w.rows for w in windows if w.rows), default=0),
    }


def _of_column(spec: TableSpec, name: str, figures: dict[str, Any], values: Sequence[str] | None) -> list[Proposal]:
    place = list(spec.columns).index(name)
    rows, nulls = figures.get(f"rows_{place}", figures["rows"]), figures[f"nulls_{place}"]
    where = f" in {windows} windows" if (windows := figures.get(f"windows_{place}")) else ""
    worst, found = figures.get(f"worst_{place}", 0), []
    if not nulls and name not in spec.key:
        found.append(Proposal({"check": "not_null", "column": name}, f"no NULL in {rows} rows"))
    elif 0 < nulls < rows and worst < 1:
        # Twice what is usual, and more than any window had.
        share = max(2 * nulls / rows, 1.2 * worst)
        most = min(ceil(share * 1000) / 1000, 0.999)
        check = {"check": "null_share", "column": name, "max": most, "severity": "warning"}
        found.append(Proposal(check, f"{nulls / rows:.2%} are NULL{where}"))
    low, high = figures.get(f"low_{place}"), figures.get(f"high_{place}")
    if low is None or high is None:
        return found
    if spec.columns[name].type == "string":
        if values:
            found.append(
                Proposal({"check": "in_set", "column": name, "values": list(values)}, f"{len(values)} different texts")
            )
        elif low == high and low:
            found.append(Proposal({"check": "length", "column": name, "min": low, "max": high}, f"all are {low} long"))
    elif max(abs(low), abs(high)) < 1e300:
        least, most = bounds(low, high)
        check = {"check": "in_range", "column": name, "min": least, "max": most, "severity": "warning"}
        found.append(Proposal(check, f"seen from {low:g} to {high:g}{where}"))
    return found


def bounds(low: float, high: float) -> tuple[float, float]:
    """Round bounds with a fifth of the range to spare; what was never below zero is not expected to be.

    >>> bounds(12.94, 100.0)
    (0, 120)
    """
    spare = (high - low) / 5 or max(abs(high) / 5, 1.0)
    power = floor(log10(spare))
    step = 10.0**power
    least = _of_steps(floor(round((low - spare) / step, 9)), power)
    most = _of_steps(ceil(round((high + spare) / step, 9)), power)
    return (0 if low >= 0 > least else least), (0 if low < 0 >= high and most > 0 else most)


def _of_steps(count: int, power: int) -> float:
    """As it would be written: a whole number where it is one."""
    value = Decimal(count).scaleb(power)
    return int(value) if value == value.to_integral_value() and abs(value) < 10**15 else float(value)


def _of_rows(known: Sequence[Decision]) -> list[Proposal]:
    live = ledger.accepted(known).values()
    counts = sorted(d.counts.rows_in for d in live)
    if len(counts) < WINDOWS or not counts[0]:
        return []
    usual = counts[len(counts) // 2]
    low, high = floor(counts[0] / usual * 8) / 10, ceil(counts[-1] / usual * 12) / 10
    check = {"check": "row_count_ratio", "min": low, "max": high, "severity": "warning"}
    return [Proposal(check, f"{len(counts)} windows had {counts[0]} to {counts[-1]} rows, {usual} in the middle")]
