"""Rows of window pages and cells of strips, made in Python: there are hundreds of thousands of them, and many are alike.

Belongs here: markup of the rows and cells that repeat most, every text escaped. Does not: any other markup (templates).
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from html import escape
from typing import Any

from markupsafe import Markup

from lakehouse_assets.contracts.drift import VOLUME

STRANGE = 0.01  # p-values below are marked
WIDTH, MARGIN = 220.0, 6.0
FIVE = "%.4g %.4g %.4g %.4g %.4g"


@lru_cache(maxsize=20_000)
def _passed_row(name: str, path: str, severity: str, figures: str, root: str) -> str:
    link = f'<a href="{escape(root + path)}">{escape(name)}</a>'
    return f"<tr><td>{link}</td><td>{escape(severity)}</td><td>{escape(figures)}</td></tr>\n"


def passed_rows(passed: Sequence[tuple[str, str, str, str]], root: str) -> Markup:
    """Return the rows of the checks that passed."""
    return Markup("".join([_passed_row(*row, root) for row in passed]))  # noqa: S704 (escaped)


@lru_cache(maxsize=100_000)
def _cell_of(status: str, path: str | None, title: str) -> str:
    attributes = f'class="cell {escape(status)}" title="{escape(title)}"'
    return f"<span {attributes}></span>" if path is None else f'<a {attributes} href="{escape(path)}" tabindex="-1"></a>'


def strip_cells(cells: Sequence[tuple[Any, str]], root: str) -> Markup:
    """Return the cells of a strip. ``cells``: windows (name, path) with a status each."""
    texts = [_cell_of(status, None if w.path is None else root + w.path, f"{w.name}: {status}") for w, status in cells]
    return Markup("".join(texts))  # noqa: S704 (escaped)


@lru_cache(maxsize=20_000)
def _heading(name: str, stratum: str | None) -> str:
    return escape(name) + ("" if stratum is None else f' <span class="soft">{escape(stratum)}</span>')


def feature_rows(results: Sequence[Mapping[str, Any]]) -> Markup:
    """Return the rows of drift features beside their baseline. ``results``: as they are recorded."""
    return Markup("".join(map(_feature_row, results)))  # noqa: S704 (escaped)


def _feature_row(result: Mapping[str, Any]) -> str:
    before: Any = result.get("baseline_quantiles")
    now: Any = result.get("quantiles")
    p: Any = result.get("p_value")
    missing: Any = result.get("missing")
    median = ""
    if _are_numbers(before) and _are_numbers(now):
        median = f"{before[2]:.4g} → {now[2]:.4g} {escape(str(result.get('unit') or ''))}"
    share = f"{100 * missing:.1f} %" if _is_number(missing) else ""
    picture = _ranges(before, now) if before and now and result.get("feature") != VOLUME else None
    marked = ' class="marked"' if _is_number(p) and p < STRANGE else ""
    return (
        f'<tr{marked}><th scope="row">{_heading(str(result.get("feature")), _text(result.get("stratum")))}</th>'
        f"<td>{picture or _changes(result.get('changed') or ())}</td>"
        f'<td class="n">{median}</td><td class="n">{_figure(p)}</td><td class="n">{_figure(result.get("effect"))}</td>'
        f'<td class="n">{share}</td></tr>\n'
    )


def _ranges(before: Any, now: Any) -> str | None:
    """Return the quantiles (5, 25, 50, 75, 95 %) of baseline and window as two boxes on one scale; None if they are not five
    numbers each.
    """
    try:
        low, high = min(*before, *now), max(*before, *now)
        scale = (WIDTH - 2 * MARGIN) / (high - low) if high > low else 0.0
        a, b, c, d, e = [round(MARGIN + (value - low) * scale, 1) for value in before]
        f, g, h, i, j = [round(MARGIN + (value - low) * scale, 1) for value in now]
    except (TypeError, ValueError):
        return None
    return (
        '<svg class="ranges" width="220" height="24" viewBox="0 0 220 24" role="img">'
        f"<title>5, 25, 50, 75, 95 %: {FIVE % tuple(before)} before; {FIVE % tuple(now)} now</title>"
        f'<g class="before"><path d="M{a} 7H{e}"/><path class="box" d="M{b} 7H{d}"/><circle cx="{c}" cy="7" r="3.4"/></g>'
        f'<g class="now"><path d="M{f} 17H{j}"/><path class="box" d="M{g} 17H{i}"/><circle cx="{h}" cy="17" r="3.4"/></g></svg>'
    )


def _changes(changed: Any) -> str:
    """Return categories and their shares, or the pairs whose relation changed, as chips."""
    if not isinstance(changed, list | tuple):
        return ""
    texts = [
        each if isinstance(each, str) else " ".join(map(_cell, each))
        for each in changed[:4]
        if isinstance(each, str | list | tuple)
    ]
    return " ".join(f'<span class="chip">{escape(text)}</span>' for text in texts)


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _figure(value: Any) -> str:
    return f"{value:.3g}" if _is_number(value) else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list | tuple) and len(values) > 2 and _is_number(values[2])
