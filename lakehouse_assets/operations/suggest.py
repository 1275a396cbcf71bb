"""Checks that published rows would pass, proposed from drift's profiles and silver, for a person to read and paste.

Belongs here: profiles and silver → figures of each column → proposals. Does not: trying them (dry_run), or writing YAML.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import ceil, floor, log10
from typing import Any

import yaml
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.base import Check
from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.columns import Column
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.sharing import CHECK
from lakehouse_assets.decisions import ledger
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.baseline import ColumnFigures, read_column_figures

FEW = 20  # different texts up to which a list of them is proposed
ENOUGH = 100  # rows below which nothing is proposed
WINDOWS = 5  # windows below which no number of rows is proposed
Figures = dict[str, dict[str, Any]]
NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


@dataclass(frozen=True)
class Proposal:
    """A check as YAML's values, and what it was seen in."""

    check: dict[str, Any]
    because: str

    @property
    def yaml(self) -> str:
        """The check on one line, as under `checks:`."""
        options: Any = {"default_flow_style": True, "sort_keys": False, "width": 10_000, "allow_unicode": True}
        return yaml.safe_dump(self.check, **options).strip()


def suggest(run: Run) -> list[Proposal]:
    """Proposals for what is not declared yet. Two aggregations over silver; collects one row, and at most 20 texts a column.

    Columns that drift has profiled in every accepted window are read from these profiles: they have each window as it was
    judged, silver only what later windows left of it. No value of a `pii` column is read. Raises RefusedError if silver has
    fewer than 100 rows.
    """
    spec, path = run.spec, run.path("silver")
    if not delta.exists(path):
        raise RefusedError(f"{spec.name} has no silver table yet; run `lakehouse run` first")
    silver = run.spark.read.format("delta").load(path)
    log = logs.decisions(run.settings, spec.name)
    stored = read_column_figures(run.settings, spec, log)
    figures = {n: _of_profiles(windows) for n, windows in stored.items() if spec.columns[n].type.startswith(NUMBERS)}
    proposals = [*propose(silver, f"silver {spec.name}", spec.columns, spec.key, figures), *_of_rows(log)]
    declared = {(check.check, *check.own_columns) for check in spec.checks}
    return [p for p in proposals if (p.check["check"], *_columns(p.check)) not in declared]


def suggested_checks(run: Run) -> list[tuple[Check, str]]:
    """Return the proposals as checks that only warn, under names of their own, each with its YAML; none where `suggest`
    refuses.
    """
    try:
        proposals = suggest(run)
    except RefusedError:
        return []
    named = [({**p.check, "severity": "warning", "name": f"proposal_{index}"}, p.yaml) for index, p in enumerate(proposals)]
    return [(CHECK.validate_python(check), text) for check, text in named]


def propose(
    rows: DataFrame, name: str, columns: Mapping[str, Column], key: Sequence[str] = (), figures: Figures | None = None
) -> list[Proposal]:
    """Checks of these columns that the rows pass. ``figures``: of columns that are measured already. Raises RefusedError, which
    names the rows, for fewer than 100.
    """
    figures = {} if figures is None else figures
    count = _measure(rows, columns, figures)
    if count < ENOUGH:
        raise RefusedError(f"{name} has {count} rows; at least {ENOUGH} are needed")
    lists = _lists(rows, figures)
    return [p for each in columns for p in _of_column(columns, key, each, count, figures[each], lists.get(each))]


def _columns(check: dict[str, Any]) -> tuple[str, ...]:
    return (check["column"],) if "column" in check else ()


def _measure(silver: DataFrame, columns: Mapping[str, Column], figures: Figures) -> int:
    """Add the figures of the other columns, in one aggregation. Returns silver's rows."""
    aggregates = {"rows": F.count(F.lit(1))}
    names = [name for name in columns if name not in figures]
    for index, name in enumerate(names):
        column, value = columns[name], F.col(identifier(name))
        aggregates[f"nulls_{index}"] = F.count_if(value.isNull())
        if column.pii:
            continue
        if column.type == "string":
            aggregates[f"distinct_{index}"] = F.approx_count_distinct(value)
            value = F.length(value)
        elif column.type.startswith(NUMBERS):
            number = value.cast("double")
            value = F.when(~F.isnan(number) & (F.abs(number) != float("inf")), number)
        else:
            continue
        aggregates |= {f"low_{index}": F.min(value), f"high_{index}": F.max(value)}
    row = silver.agg(*[value.alias(name) for name, value in aggregates.items()]).collect()[0].asDict()  # one row
    for index, name in enumerate(names):
        figures[name] = {figure: row.get(f"{figure}_{index}") for figure in ("nulls", "low", "high", "distinct")}
    return row["rows"]


def _lists(silver: DataFrame, figures: Figures) -> dict[str, list[str]]:
    few = [name for name, f in figures.items() if 0 < (f.get("distinct") or 0) <= FEW and (f["high"] or 0) <= 100]
    if not few:
        return {}
    sets = [F.slice(F.array_sort(F.collect_set(F.col(identifier(name)))), 1, FEW + 1).alias(name) for name in few]
    by_column = silver.agg(*sets).collect()[0].asDict()  # one row of at most 21 texts a column
    return {name: values for name, values in by_column.items() if len(values) <= FEW}


def _of_profiles(windows: Sequence[ColumnFigures]) -> dict[str, Any]:
    return {
        "rows": sum(w.rows for w in windows),
        "nulls": sum(w.nulls for w in windows),
        "low": min((w.minimum for w in windows if w.minimum is not None), default=None),
        "high": max((w.maximum for w in windows if w.maximum is not None), default=None),
        "windows": len(windows),
        "worst": max((w.nulls / w.rows for w in windows if w.rows), default=0),
    }


def _of_column(
    columns: Mapping[str, Column],
    key: Sequence[str],
    name: str,
    silver_rows: int,
    figures: Mapping[str, Any],
    values: Sequence[str] | None,
) -> list[Proposal]:
    rows, nulls, low, high = figures.get("rows", silver_rows), figures["nulls"], figures["low"], figures["high"]
    where = f" in {windows} windows" if (windows := figures.get("windows")) else ""
    worst, proposals = figures.get("worst", 0), []
    if not nulls and name not in key:
        proposals.append(Proposal({"check": "not_null", "column": name}, f"no NULL in {rows} rows"))
    elif 0 < nulls < rows and worst < 1:
        # Twice what is usual, and more than any window had.
        share = max(2 * nulls / rows, 1.2 * worst)
        most = min(ceil(share * 1000) / 1000, 0.999)
        check = {"check": "null_share", "column": name, "max": most, "severity": "warning"}
        proposals.append(Proposal(check, f"{nulls / rows:.2%} are NULL{where}"))
    if low is None or high is None:
        return proposals
    if columns[name].type == "string":
        if values:
            check = {"check": "in_set", "column": name, "values": list(values)}
            proposals.append(Proposal(check, f"{len(values)} different texts"))
        elif low == high and low:
            proposals.append(Proposal({"check": "length", "column": name, "min": low, "max": high}, f"all are {low} long"))
    elif max(abs(low), abs(high)) < 1e300:
        least, most = bounds(low, high)
        check = {"check": "in_range", "column": name, "min": least, "max": most, "severity": "warning"}
        proposals.append(Proposal(check, f"seen from {low:g} to {high:g}{where}"))
    return proposals


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
    value = Decimal(count).scaleb(power)
    return int(value) if value == value.to_integral_value() and abs(value) < 10**15 else float(value)


def _of_rows(log: Sequence[Decision]) -> list[Proposal]:
    live = ledger.accepted_decisions(log).values()
    counts = sorted(d.counts.rows_in for d in live)
    if len(counts) < WINDOWS or not counts[0]:
        return []
    usual = counts[len(counts) // 2]
    low, high = floor(counts[0] / usual * 8) / 10, ceil(counts[-1] / usual * 12) / 10
    check = {"check": "row_count_ratio", "min": low, "max": high, "severity": "warning"}
    return [Proposal(check, f"{len(counts)} windows had {counts[0]} to {counts[-1]} rows, {usual} in the middle")]
