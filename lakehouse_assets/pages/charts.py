"""Charts of a table's history, as figures of Plotly in JSON values: the browser draws them with its own colours.

Belongs here: which series a chart has. Does not: colours and fonts (templates/pages.js), reading.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lakehouse_assets.contracts.drift import VOLUME, is_divided, undivided_hash
from lakehouse_assets.decisions.gate import group_of
from lakehouse_assets.pages.history import PageHistory, WindowState

WINDOWS, SERIES, FEATURES = 730, 8, 9
PARTS = ("published", "superseded", "discarded", "quarantined")
Chart = dict[str, Any]


def plotly_text(value: Any) -> str:
    """Return a text that Plotly shows as it is: it reads some tags, and entities."""
    return str(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def newest(history: PageHistory) -> list[WindowState]:
    """Return the windows of the charts: the newest with checks and drift, oldest first."""
    return history.shown[-WINDOWS:]


def _x(windows: Sequence[WindowState]) -> list[str]:
    return [window.time for window in windows]


def _links(windows: Sequence[WindowState]) -> list[str | None]:
    return [window.path for window in windows]


def _number(value: Any) -> float | int | None:
    """Return a number as JSON can hold it, with six digits."""
    if type(value) is float:
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def rows_chart(history: PageHistory) -> Chart | None:
    """Return rows by window, as bars of what became of them; schema changes as marks."""
    windows = newest(history)
    if not windows:
        return None
    x, traces = _x(windows), []
    for part in PARTS:
        rows = [getattr(w.decision.counts, f"rows_{part}") or 0 if w.decision else 0 for w in windows]
        if any(rows):
            traces.append({"type": "bar", "name": part, "x": x, "y": rows, "role": part, "customdata": _links(windows)})
    if marks := schema_marks(history):
        by_name = dict(zip([w.name for w in windows], x, strict=True))
        shown = [(by_name[name], text) for name, text in marks if name in by_name]
        traces.append(
            {
                "type": "scatter", "mode": "markers", "name": "schema or rules changed", "role": "mark",
                "x": [at for at, _ in shown], "y": [0] * len(shown), "text": [plotly_text(text) for _, text in shown],
                "hoverinfo": "x+text",
            }
        )  # fmt: skip
    return {"data": traces, "layout": {"barmode": "stack", "y_title": "rows"}}


def schema_marks(history: PageHistory) -> list[tuple[str, str]]:
    """Return the windows before which columns or rules changed, each with what changed; at most three changes a mark."""
    marks: list[tuple[str, str]] = []
    columns: tuple[str, ...] | None = None
    by_batch = {record.batch: record.columns for record in history.extractions}
    ruleset: str | None = None
    for window in history.shown:
        decision = window.decision
        if decision is None:
            continue
        texts = []
        now = by_batch.get(decision.batch)
        if columns is not None and now and set(now) != set(columns):
            texts += [f"new column {name}" for name in now if name not in columns][:3]
            texts += [f"column {name} is gone" for name in columns if name not in now][:3]
        rules = undivided_hash(decision.ruleset) if is_divided(decision.ruleset) else decision.ruleset_hash
        if ruleset is not None and rules != ruleset:
            texts.append("the rules changed")
        texts += [f"silver gained {name}" for name in decision.evolved][:3]
        columns, ruleset = now or columns, rules
        if texts:
            marks.append((window.name, "; ".join(texts)))
    return marks


def _lines(
    windows: Sequence[WindowState], series: Mapping[str, Mapping[str, float]], most: int = SERIES
) -> tuple[list[dict[str, Any]], int]:
    """Return a line for each series with a value above 0, the greatest first; and how many are left out."""
    ranked = sorted((name for name, values in series.items() if any(values.values())), key=lambda n: -sum(series[n].values()))
    x, links = _x(windows), _links(windows)
    lines = [
        {"type": "scatter", "mode": "lines+markers", "name": plotly_text(name), "x": x, "customdata": links,
         "y": [_number(series[name].get(w.name)) for w in windows]}
        for name in ranked[:most]
    ]  # fmt: skip
    return lines, max(len(ranked) - most, 0)


def failing_chart(history: PageHistory) -> Chart | None:
    """Return the share of rows that fail, by check; a check that quarantines the whole window counts as all rows."""
    windows, series = newest(history), {}
    for window in windows:
        for outcome in window.decision.checks if window.decision else ():
            rows = (window.decision.counts.rows_in if window.decision else 0) or 1
            failed = outcome["failed_rows"] or 0
            share = min(failed / rows, 1.0) if failed else float(outcome["effect"] == "batch")
            of_check = series.setdefault(group_of(outcome["check"]), {})
            of_check[window.name] = max(share, of_check.get(window.name, 0.0))
    return _share_chart(*_lines(windows, series))


def missing_chart(history: PageHistory) -> Chart | None:
    """Return the share of rows without a value, by column of a `not_null` check and by drift feature."""
    windows, series = newest(history), {}
    for window in windows:
        if window.decision is None:
            continue
        rows = window.decision.counts.rows_in or 1
        for outcome in window.decision.checks:
            if outcome["kind"] == "not_null":
                name = outcome["check"].removeprefix("not_null_")
                series.setdefault(name, {})[window.name] = (outcome["failed_rows"] or 0) / rows
        for result in (window.decision.drift or {}).get("results") or ():
            if _number(result.get("missing")) is not None:
                series.setdefault(_feature_name(result), {})[window.name] = result["missing"]
    return _share_chart(*_lines(windows, series))


def _share_chart(lines: list[dict[str, Any]], left_out: int) -> Chart | None:
    if not lines:
        return None
    note = f"{left_out} more with smaller shares are not drawn" if left_out else ""
    return {"data": lines, "layout": {"y_title": "share of rows", "y_format": ".1%"}, "note": note}


def p_value_chart(history: PageHistory) -> Chart | None:
    """Return the p-value of drift by window, with the levels that warn and quarantine."""
    windows = [w for w in newest(history) if w.decision and w.decision.drift_p_value is not None]
    if not windows:
        return None
    rules = history.rules.get("drift") or {}
    y = [_number(max(w.decision.drift_p_value or 0.0, 1e-12)) if w.decision else None for w in windows]
    trace = {
        "type": "scatter", "mode": "markers", "name": "p-value", "x": _x(windows), "y": y, "customdata": _links(windows),
        "states": [w.state for w in windows],
    }  # fmt: skip
    own_levels = _levels_by_window(windows)
    levels = [] if own_levels else [(name, _number(rules.get(name))) for name in ("warn_at", "hold_at")]
    return {
        "data": [trace, *own_levels],
        "layout": {"y_title": "p-value (smaller is stranger)", "y_log": True, "levels": [each for each in levels if each[1]]},
    }


def _levels_by_window(windows: Sequence[WindowState]) -> list[Chart]:
    """Return lines of the levels that each window of a stream was judged by; none of other tables."""
    recorded = [(w.decision.drift or {}).get("levels") or {} if w.decision else {} for w in windows]
    return [
        {
            "type": "scatter", "mode": "lines", "name": name, "role": role, "x": _x(windows),
            "y": [_number(levels.get(name)) for levels in recorded],
        }
        for name, role in (("warn_at", "warned"), ("hold_at", "quarantined"))
        if any(_number(levels.get(name)) for levels in recorded)
    ]  # fmt: skip


def feature_charts(history: PageHistory) -> list[tuple[str, Chart]]:
    """Return for each feature and stratum its median and quartiles by window, against the baseline's; the strangest first."""
    windows = [w for w in newest(history) if w.decision and w.decision.drift]
    series: dict[str, dict[str, Mapping[str, Any]]] = {}
    for window in windows:
        for result in (window.decision.drift or {}).get("results") or () if window.decision else ():
            if result.get("quantiles") and result.get("baseline_quantiles") and result.get("feature") != VOLUME:
                series.setdefault(_feature_name(result), {})[window.name] = result
    ranked = sorted(series, key=lambda name: _lowest_p(series[name].values()))
    return [(name, _feature_chart(windows, series[name])) for name in ranked[:FEATURES]]


def _lowest_p(results: Iterable[Mapping[str, Any]]) -> float:
    return min((r["p_value"] for r in results if r.get("p_value") is not None), default=2.0)


def _feature_name(result: Mapping[str, Any]) -> str:
    stratum = result.get("stratum")
    return f"{result.get('feature')}" + (f" · {stratum}" if stratum is not None else "")


def _seasonal(results: Sequence[Mapping[str, Any]], index: int) -> list[float | int | None]:
    """A quantile of the baseline of each window, moved to what is usual in its season."""
    return [_number(result["baseline_quantiles"][index] + (result.get("usual_shift") or 0.0)) for result in results]


def _feature_chart(windows: Sequence[WindowState], results: Mapping[str, Mapping[str, Any]]) -> Chart:
    shown = [w for w in windows if w.name in results]
    of = [results[w.name] for w in shown]

    def quantile(which: str, index: int) -> list[float | int | None]:
        return [_number(r[which][index]) for r in of]

    x, links = _x(shown), _links(shown)
    low, high, median = quantile("quantiles", 1), quantile("quantiles", 3), quantile("quantiles", 2)
    spread = [None if m is None or h is None else _number(h - m) for m, h in zip(median, high, strict=True)]
    below = [None if m is None or lo is None else _number(m - lo) for m, lo in zip(median, low, strict=True)]
    band = {"type": "scatter", "mode": "lines", "x": x, "role": "band", "hoverinfo": "skip"}
    unit = next((r.get("unit") for r in of if r.get("unit")), "")
    # Where the gate compares by a season, the band follows it.
    name = "baseline of the season, middle half" if any(r.get("usual_shift") for r in of) else "baseline, middle half"
    return {
        "data": [
            {**band, "name": "baseline 25 %", "y": _seasonal(of, 1), "hidden_in_legend": True},
            {**band, "name": name, "y": _seasonal(of, 3), "fill": "tonexty"},
            {"type": "scatter", "mode": "markers", "name": "window: median and quartiles", "x": x, "y": median,
             "customdata": links, "states": [w.state for w in shown],
             "error_y": {"type": "data", "symmetric": False, "array": spread, "arrayminus": below}},
        ],
        "layout": {"y_title": plotly_text(unit), "small": True},
    }  # fmt: skip


def check_chart(windows: Sequence[WindowState], shares: Sequence[float | None]) -> Chart:
    """Return the share of rows that failed one check, by window."""
    trace = {
        "type": "bar", "name": "rows failing", "x": _x(windows), "y": [_number(share) for share in shares],
        "customdata": _links(windows), "role": "quarantined",
    }  # fmt: skip
    return {"data": [trace], "layout": {"y_title": "share of rows", "y_format": ".1%", "small": True}}
