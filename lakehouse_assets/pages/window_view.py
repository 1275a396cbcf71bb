"""The content of a window's page: one decision whole, and what was decided before it.

Belongs here: history → values of the page. Does not: markup (templates), reading (reading, samples).
"""

from collections.abc import Mapping
from functools import lru_cache
from shlex import quote
from typing import Any

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.guarded_table import HISTORY
from lakehouse_assets.contracts.path_pattern import PathPattern
from lakehouse_assets.decisions.drift.excess import Excess
from lakehouse_assets.decisions.drift.messages import finding_of, unwatched_of
from lakehouse_assets.decisions.drift.slice_messages import describe_conditions, describe_excess
from lakehouse_assets.decisions.gate import group_of, is_unwaivable
from lakehouse_assets.pages.history import PageHistory, WindowState, bad_outcomes, outcomes_by_check
from lakehouse_assets.pages.names import check_path
from lakehouse_assets.pages.samples import PageSample

COUNTS = ("published", "superseded", "quarantined", "discarded")
FIGURES = 6


def window_view(
    history: PageHistory, window: WindowState, sample: PageSample | None, around: tuple[Any, Any]
) -> dict[str, Any]:
    """Return the values of a window's page. ``around``: the windows before and after, or None."""
    decision = window.decision
    decisions = history.of_window.get(window.name, [])
    return {
        "table": history.table,
        "window": window,
        "decision": decision,
        "around": around,
        "shares": _shares(decision) if decision else [],
        "bad": [_check_values(history, o) for o in bad_outcomes(decision)] if decision else [],
        "good": _passed(history, decision) if decision else [],
        "skipped": [o for o in decision.checks if o["status"] == "skipped"] if decision else [],
        "drift": _drift_values(decision.drift) if decision and decision.drift else None,
        "source": source_text(history.rules, window),
        "extractions": history.extractions_of.get(window.start, []) if window.start else [],
        "earlier": list(reversed(decisions)) if len(decisions) > 1 else [],
        "by_id": {each.decision_id: each for each in history.decisions} if any(d.superseded_by for d in decisions) else {},
        "sample": sample,
        "commands": commands(history, window),
        "left_yaml": history.declared is None,
    }


def _shares(decision: Decision) -> list[tuple[str, int, float]]:
    """Return name, rows and share of each part of the batch that has rows."""
    counts = {name: getattr(decision.counts, f"rows_{name}") or 0 for name in COUNTS}
    total = sum(counts.values())
    return [(name, rows, round(100 * rows / total, 2)) for name, rows in counts.items() if rows]


def _check_values(history: PageHistory, outcome: Mapping[str, Any]) -> dict[str, Any]:
    group = group_of(outcome["check"])
    shown = {"path": check_path(history.table, group), "figures": figures(outcome.get("observed"))}
    return {**outcome, **shown, "message": finding_of(outcome["message"])}


def _passed(history: PageHistory, decision: Decision) -> list[tuple[str, str, str, str]]:
    """Return name, path, severity and figures of each check that passed; all casts are one."""
    passed = []
    for name, outcomes in outcomes_by_check(decision).items():
        first = outcomes[0]
        if len(outcomes) == 1:
            if first["status"] == "passed":
                passed.append((name, check_path(history.table, name), first["severity"], figures(first.get("observed"))))
        elif all(o["status"] == "passed" for o in outcomes):
            passed.append((name, check_path(history.table, name), first["severity"], f"{len(outcomes)} columns"))
    return passed


def figures(observed: Any) -> str:
    """Return the first figures of an outcome as `name: value` texts, without differences of columns: its message names them.

    >>> figures({"rows": 1200, "share_passed": 0.5, "threshold": None, "examples": ["a", "b"]})
    'rows: 1,200 · share passed: 50 % · examples: a, b'
    """
    if not isinstance(observed, Mapping):
        return ""
    items = tuple(observed.items())
    try:
        return _figures_of(items)
    except TypeError:  # a list among them
        return _figures_of.__wrapped__(items)


@lru_cache(maxsize=20_000, typed=True)
def _figures_of(items: tuple[tuple[Any, Any], ...]) -> str:
    named = [(str(name), value) for name, value in items if value is not None and name != "differences"][:FIGURES]
    return " · ".join(f"{name.replace('_', ' ')}: {figure(value, name)}" for name, value in named)


def figure(value: Any, name: str = "") -> str:
    """Return a figure as a short text; a share as a percentage."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, int | float) and name.startswith("share"):
        return f"{value:.4g}" if not 0 <= value <= 1 else f"{100 * value:.4g} %"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        separator = "; " if any(isinstance(each, Mapping) for each in value) else ", "
        return separator.join(figure(each) for each in value[:5]) + (" …" if len(value) > 5 else "")
    if isinstance(value, Mapping):
        pairs = [f"{key} {figure(each, key)}" for key, each in value.items() if each is not None]
        return ", ".join(pairs[:5]) + (" …" if len(pairs) > 5 else "")
    text = str(value)
    return text if len(text) <= 200 else text[:199] + "…"


def _drift_values(drift: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verdict of drift, and the recorded result of each feature and stratum, the strangest first."""
    message = drift.get("message") or ""
    return {
        "message": finding_of(message),
        "unwatched": unwatched_of(message),
        "status": drift.get("status") or "",
        "p_value": drift.get("p_value"),
        "windows_known": drift.get("windows_known"),
        "since": drift.get("since"),
        "rows": _off_rows(drift.get("worst") or {}),
        "results": sorted(drift.get("results") or (), key=_strangeness),
    }


def _off_rows(worst: Mapping[str, Any]) -> list[str]:
    """Return which rows are off, where the verdict says it: a slice, and values of which there are too many."""
    rows = []
    if part := worst.get("slice"):
        conditions = describe_conditions(tuple((column, name) for column, name in part["conditions"]))
        rows.append(f"{conditions}: {part['rows']:,} of {part['of_rows']:,} rows")
    if excess := worst.get("excess"):
        values = Excess(**{name: excess[name] for name in Excess._fields})
        rows.append(f"{describe_excess(worst['feature'], values)}; {values.precision:.0%} of them too many")
    return rows


def _strangeness(result: Mapping[str, Any]) -> tuple[float, float]:
    p = result.get("p_value") if result.get("p_value") is not None else result.get("corrected")
    return (2.0 if p is None else p, -(result.get("effect") or 0.0))


def source_text(rules: Mapping[str, Any], window: WindowState) -> str:
    """Return where a window's rows came from, by the source that the rules name."""
    source = rules.get("source")
    if not isinstance(source, Mapping):
        return ""
    path = source.get("path")
    if source.get("kind") == "files" and isinstance(path, str) and window.start:
        return PathPattern(path).glob(window.start)
    named = next((source[name] for name in ("topic", "table", "path", "query") if isinstance(source.get(name), str)), "")
    return f"{source.get('kind', '')} {named}".strip()


def commands(history: PageHistory, window: WindowState) -> list[tuple[str, str]]:
    """Return what a person can do with a window in quarantine: a sentence and a command each."""
    if window.start is None or window.decision is None or window.state not in ("quarantined", "partly"):
        return []
    decision, base = window.decision, f"{quote(history.table)} --window {quote(window.name)}"
    names = dict.fromkeys(group_of(o["check"]) for o in bad_outcomes(decision) if o["effect"] in ("batch", "rows"))
    override = "".join(f" --override {quote(name)}" for name in names if not is_unwaivable(name))
    because = ' --because "…"'
    if history.cadence is None:  # a guard: its windows are versions of a table, with commands of their own
        observed = next((o.get("observed") or {} for o in decision.checks if o["check"] == HISTORY), {})
        of_window = window.start.strftime("%Y-%m-%d-%H:%M") if observed.get("rows") == "window" else None
        named = f"--window {of_window}" if of_window else f"--version {decision.bronze_version}"
        base = f"{quote(history.table)} {named}"
        return [
            ("See its checks", f"lakehouse guard show {base}"),
            ("The data is right: accept it", f"lakehouse guard release {base}{override}{because}"),
            ("The data is worthless: close it", f"lakehouse guard discard {base}{because}"),
        ]
    # Where every check that failed is one that no override waives, there is nothing to publish.
    release = ("The data is right: publish it", f"lakehouse quarantine release {base}{override}{because}")
    return [
        ("See the quarantined rows", f"lakehouse quarantine show {base}"),
        *([release] if override or not names else []),
        ("The rules have changed: judge it again", f"lakehouse run --table {base} --rejudge{because}"),
        ("The data is worthless: discard it", f"lakehouse quarantine discard {base}{because}"),
    ]
