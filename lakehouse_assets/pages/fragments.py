"""Rows of window pages and cells of strips, made in Python: there are hundreds of thousands of them, and many are alike.

Belongs here: markup of the rows and cells that repeat most, every text escaped. Does not: any other markup (templates).
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from html import escape
from typing import Any

from markupsafe import Markup

STRANGE = 0.01  # p-values below are marked


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


def feature_rows(features: Sequence[Mapping[str, Any]]) -> Markup:
    """Return the rows of drift features beside their baseline."""
    return Markup("".join(map(_feature_row, features)))  # noqa: S704 (escaped)


def _feature_row(feature: Mapping[str, Any]) -> str:
    before, now, p = feature["before"], feature["now"], feature["p_value"]
    median = ""
    if _are_numbers(before) and _are_numbers(now):
        median = f"{before[2]:.4g} → {now[2]:.4g} {escape(str(feature['unit']))}"
    missing = f"{100 * feature['missing']:.1f} %" if _is_number(feature["missing"]) else ""
    picture = _ranges(feature["ranges"], before, now) if feature["ranges"] else _changes(feature["changed"])
    marked = ' class="marked"' if _is_number(p) and p < STRANGE else ""
    return (
        f'<tr{marked}><th scope="row">{_heading(str(feature["name"]), _text(feature["stratum"]))}</th><td>{picture}</td>'
        f'<td class="n">{median}</td><td class="n">{_figure(p)}</td><td class="n">{_figure(feature["distance"])}</td>'
        f'<td class="n">{missing}</td></tr>\n'
    )


def _ranges(ranges: Mapping[str, Sequence[float]], before: Sequence[float], now: Sequence[float]) -> str:
    titles = [" ".join([f"{value:.4g}" for value in each]) for each in (before, now)]
    parts = []
    for name, y in (("before", 7), ("now", 17)):
        a, b, c, d, e = ranges[name][:5]
        parts.append(
            f'<g class="{name}"><path d="M{a} {y}H{e}"/><path class="box" d="M{b} {y}H{d}"/>'
            f'<circle cx="{c}" cy="{y}" r="3.4"/></g>'
        )
    title = f"5, 25, 50, 75, 95 %: {titles[0]} before; {titles[1]} now"
    size = 'width="220" height="24" viewBox="0 0 220 24"'
    return f'<svg class="ranges" {size} role="img"><title>{title}</title>{"".join(parts)}</svg>'


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
