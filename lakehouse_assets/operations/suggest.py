"""Checks that published rows would pass, proposed from drift's profiles and silver, and tried on past windows.

Belongs here: profiles and silver → figures of each column; the trial. Does not: which checks follow from them
(decisions/proposals), or writing YAML.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.base import Check
from lakehouse_assets.checks.patterns import refusal
from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.batch import WINDOW
from lakehouse_assets.contracts.columns import Column
from lakehouse_assets.contracts.sharing import CHECK
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.proposals import NUMBERS, Proposal, extremes, propose_for_column, propose_for_rows
from lakehouse_assets.decisions.shapes import FROM, TO, count_unexpected, pattern_of
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.operations.dry_run import try_checks
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.baseline import ColumnFigures, read_column_figures

FEW = 20  # different texts up to which a list of them is proposed
MOST_SHAPES = 50  # shapes of texts up to which a pattern is proposed
ENOUGH = 100  # rows below which nothing is proposed
TRIED = 60  # newest accepted windows that proposals are tried on
Figures = dict[str, dict[str, Any]]


def suggest(run: Run) -> list[Proposal]:
    """Proposals for what is not declared yet. Two aggregations over silver; collects one row, and at most 20 texts or 50 shapes
    a column.

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
    counts = [decision.counts.rows_in for decision in ledger.accepted_decisions(log).values()]
    # A column that is made of a personal one is personal, too.
    columns = {n: c.model_copy(update={"pii": n in spec.pii_columns}) for n, c in spec.columns.items()}
    proposals = [*propose(silver, f"silver {spec.name}", columns, spec.key, figures), *propose_for_rows(counts)]
    declared = {(check.check, *check.own_columns) for check in spec.checks}
    return [p for p in proposals if (p.check["check"], *_columns(p.check)) not in declared]


def try_proposals(run: Run, proposals: Sequence[Proposal]) -> list[Proposal]:
    """Return the proposals with the number of the newest accepted windows, at most 60, that each fails. One staging of these
    windows for all of them.
    """
    accepted = ledger.accepted_decisions(logs.decisions(run.settings, run.table))
    newest = ledger.latest_extractions(logs.extractions(run.settings, run.table))
    # Of a window whose newest extraction is quarantined, bronze's newest rows are not what was accepted.
    accepted_windows = [run.spec.extraction.window_at(start) for start, record in newest.items() if record.batch in accepted]
    windows = sorted(window for window in accepted_windows if window.start in newest)[-TRIED:]
    if not proposals or not windows:
        return list(proposals)
    checks = [CHECK.validate_python({**p.check, "name": f"proposal_{index}"}) for index, p in enumerate(proposals)]
    result = try_checks(run, checks, windows)
    failed = Counter(each.outcome.check for each in result.outcomes if each.outcome.status in ("failed", "error"))
    return [p.tried(len(windows), failed[check.id]) for p, check in zip(proposals, checks, strict=True)]


def suggested_checks(run: Run) -> list[tuple[Check, str]]:
    """Return the proposals as checks that only warn, under names of their own, each with its YAML; none where `suggest`
    refuses. Lists whose texts come and go are left out, as `check suggest` does.
    """
    try:
        proposals = suggest(run)
    except RefusedError:
        return []
    windows = min(len(ledger.accepted_decisions(logs.decisions(run.settings, run.table))), TRIED)
    proposals = [p for p in proposals if not p.tried(windows, 0).flags_too_many]
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
    _add_texts(rows, figures)
    return [p for n, column in columns.items() for p in propose_for_column(column, n, count, figures[n], is_key=n in key)]


def _columns(check: dict[str, Any]) -> tuple[str, ...]:
    return (check["column"],) if "column" in check else ()


def _measure(rows: DataFrame, columns: Mapping[str, Column], figures: Figures) -> int:
    """Add the figures of the other columns, in one aggregation by window, if the rows have windows. Returns the rows."""
    by_window: dict[str, SparkColumn] = {"rows": F.count(F.lit(1))}
    overall: dict[str, SparkColumn] = {"rows": F.sum("rows"), "windows": F.count(F.lit(1))}
    names = [name for name in columns if name not in figures]
    for index, name in enumerate(names):
        column, value = columns[name], F.col(identifier(name))
        by_window[f"nulls_{index}"] = F.count_if(value.isNull())
        overall[f"nulls_{index}"] = F.sum(f"nulls_{index}")
        share = F.try_divide(f"nulls_{index}", "rows").alias("share")
        overall[f"worst_{index}"] = _first_two(F.when(F.col("rows") > 0, F.struct(share, "rows")), ascending=False)
        if column.pii:
            continue
        if column.type == "string":
            for figure, text in (("distinct", value), ("shapes", _shape(value))):
                by_window[f"{figure}_{index}"] = F.hll_sketch_agg(text)
                overall[f"{figure}_{index}"] = F.hll_sketch_estimate(F.hll_union_agg(f"{figure}_{index}"))
            value = F.length(value)
        elif column.type.startswith(NUMBERS):
            number = value.cast("double")
            value = F.when(~F.isnan(number) & (F.abs(number) != float("inf")), number)
        else:
            continue
        by_window |= {f"low_{index}": F.min(value), f"high_{index}": F.max(value)}
        overall[f"low_{index}"] = _first_two(F.col(f"low_{index}"))
        overall[f"high_{index}"] = _first_two(F.col(f"high_{index}"), ascending=False)
    grouped = rows.groupBy(*[WINDOW] if WINDOW in rows.columns else [])
    measured = grouped.agg(*[value.alias(name) for name, value in by_window.items()])
    row = measured.agg(*[value.alias(name) for name, value in overall.items()]).collect()[0].asDict()  # one row
    for index, name in enumerate(names):
        figures[name] = {figure: row.get(f"{figure}_{index}") for figure in ("nulls", "distinct", "shapes")}
        worst = [tuple(each) for each in row[f"worst_{index}"]]
        farthest = [row.get(f"{figure}_{index}") or [] for figure in ("low", "high")]
        figures[name] |= {"windows": row["windows"]} | extremes(worst, *farthest)
    return row["rows"] or 0


def _first_two(values: SparkColumn, *, ascending: bool = True) -> SparkColumn:
    """Return the two farthest of the windows' values: what is left without any one window."""
    return F.slice(F.sort_array(F.collect_list(values), ascending), 1, 2)


def _shape(text: SparkColumn) -> SparkColumn:
    return F.translate(text, FROM, TO)


def _add_texts(rows: DataFrame, figures: Figures) -> None:
    """Add the texts of columns with few of them, and patterns of those with few shapes, from one aggregation."""
    short = {name: f for name, f in figures.items() if (f.get("distinct") or 0) > 0 and (f["high"] or 0) <= 100}
    few = [name for name, f in short.items() if f["distinct"] <= FEW]
    alike = [name for name, f in short.items() if name not in few and f["shapes"] <= MOST_SHAPES]
    if not few and not alike:
        return
    columns = {name: F.col(identifier(name)) for name in few} | {name: _shape(F.col(identifier(name))) for name in alike}
    by_window = rows.groupBy(*[WINDOW] if WINDOW in rows.columns else [])
    sets = by_window.agg(*[F.collect_set(c).alias(f"s{index}") for index, c in enumerate(columns.values())])
    every = [F.flatten(F.collect_list(f"s{index}")).alias(f"s{index}") for index, _ in enumerate(columns)]
    cells = [cell for index, _ in enumerate(columns) for cell in _distinct_texts(index)]
    row = sets.agg(*every).select(*cells).collect()[0]  # one row of at most 2 × 51 texts a column
    for index, name in enumerate(columns):
        texts, lone = row[f"texts{index}"], row[f"lone{index}"] if figures[name]["windows"] > 1 else []
        if name in few and len(texts) <= FEW:
            # A text of one window only is one that the other windows did not let expect.
            figures[name] |= {"values": texts, "lone": len(lone)}
        elif name in alike and len(texts) <= MOST_SHAPES:
            pattern = pattern_of(texts)
            figures[name]["pattern"] = pattern if pattern and not refusal(pattern) else None
            figures[name]["lone_shapes"] = count_unexpected(texts, lone)


def _distinct_texts(index: int) -> list[SparkColumn]:
    """Return the sorted texts of the windows' sets, and those of them that are in one set only."""
    texts = F.array_sort(F.array_distinct(f"s{index}"))
    lone = F.filter(texts, lambda text: F.size(F.filter(f"s{index}", lambda other: other == text)) == 1)
    return [F.slice(texts, 1, MOST_SHAPES + 1).alias(f"texts{index}"), F.slice(lone, 1, MOST_SHAPES + 1).alias(f"lone{index}")]


def _of_profiles(windows: Sequence[ColumnFigures]) -> dict[str, Any]:
    worst = sorted(((w.nulls / w.rows, w.rows) for w in windows if w.rows), reverse=True)
    low = sorted(w.minimum for w in windows if w.minimum is not None)
    high = sorted((w.maximum for w in windows if w.maximum is not None), reverse=True)
    totals = {"rows": sum(w.rows for w in windows), "nulls": sum(w.nulls for w in windows), "windows": len(windows)}
    return totals | extremes(worst, low, high)
