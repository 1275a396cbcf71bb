"""Rows for `lakehouse heal status`, and the sentences that say what comes next.

Belongs here: words and columns. Does not: what comes next (decisions), or printing it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from lakehouse_assets.decisions.healing import Healing

MOMENT = "%Y-%m-%d %H:%M UTC"


def said(healing: Healing, table: str) -> str:
    """What comes next of a window, in one sentence."""
    window = f"lakehouse run --table {table} --window {healing.window.key}"
    tried = f"try {healing.tries} of {healing.most} failed"
    return {
        "nothing": "nothing: it is done",
        "source": "taken when it arrives at the source",
        "daemon": "taken at the daemon's next look, or by `lakehouse run`",
        "running": "a run has it",
        "retry": f"{tried}; next try {healing.at:{MOMENT}}" if healing.at else tried,
        "stopped": f"nothing: stopped after {healing.tries} tries; mend the source, or `{window}`",
        "person": f"waits for you: `lakehouse quarantine release|discard {table} --window {healing.window.key}`, or a new file",
        "lookback": f"nothing: it is older than `lookback`; `{window}`",
    }[healing.next]


def healing_rows(found: Mapping[str, Sequence[Healing]], *, full: bool, everything: bool = False) -> list[dict[str, Any]]:
    """Windows that something is still to come of (``everything``: and those that were late), by table, oldest first.

    ``full``: one row per window; else unbroken windows of which the same is to be said are one row.
    """
    rows = []
    for table in sorted(found):
        shown = [h for h in found[table] if h.open or (everything and h.states)]
        for group in [[h] for h in shown] if full else _alike(shown):
            first, last = group[0], group[-1]
            if full:
                rows.append(
                    {
                        "table": table,
                        "window": first.window.key,
                        "p_extracted_at": first.window.start,
                        "states": list(first.states),
                        "next": first.next,
                        "next_at": first.at,
                        "tries": first.tries,
                        "most_tries": first.most,
                        "rows_quarantined": first.held,
                        "says": said(first, table),
                    }
                )
                continue
            name = first.window.key if len(group) == 1 else f"{first.window.key}..{last.window.key}"
            rows.append(
                {
                    "table": table,
                    "windows": name,
                    "count": len(group),
                    "is": ", ".join(first.states),
                    "next": said(first, table),
                }
            )
    return rows


def _alike(found: Iterable[Healing]) -> Iterator[list[Healing]]:
    """Unbroken windows with the same states and the same future."""
    group: list[Healing] = []
    for healing in found:
        if group and not (group[-1].window.end == healing.window.start and _future(group[-1]) == _future(healing)):
            yield group
            group = []
        group.append(healing)
    if group:
        yield group


def _future(healing: Healing) -> tuple[Any, ...]:
    # Of what is held each window has a command of its own.
    own: datetime | None = healing.window.start if healing.next == "person" else None
    return healing.states, healing.next, healing.at, healing.tries, own
