"""Rows for `lakehouse heal status`, and the sentences that describe the next step.

Belongs here: sentences and columns. Does not: choosing the step (decisions), or printing (cli).
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from lakehouse_assets.contracts.windows import LENGTHS
from lakehouse_assets.decisions.healing import WindowStatus

TIME_FORMAT = "%Y-%m-%d %H:%M UTC"
MOST_ROWS = 3
DAEMON = "at the daemon's next poll"


def describe_next_step(status: WindowStatus, table: str) -> str:
    """Return the window's next step as one sentence."""
    key, tries = status.window.key, status.failed_tries
    command = f"lakehouse run --table {table} --window {key}"
    failed = f"try {tries} of {status.max_tries} failed"
    # What arrives later is in a later window of a stream.
    is_of_stream = status.window.end - status.window.start == LENGTHS["moment"]
    or_new = "" if is_of_stream else ", or a new file"
    return {
        "nothing": "nothing: the window is done",
        "source": "ingested once a poll finds it at the source",
        "daemon": f"ingested {'by `lakehouse stream`' if is_of_stream else DAEMON}, or by `lakehouse run`",
        "running": "a run is ingesting it",
        "retry": f"{failed}; next try {status.due_at:{TIME_FORMAT}}" if status.due_at else failed,
        "stopped": f"nothing: stopped after {tries} tries; correct the source, or `{command}`",
        "person": f"waits for you: `lakehouse quarantine release {table} --window {key} --because WHY`, or `discard`" + or_new,
        "lookback": f"nothing: it is older than `lookback`; `{command}`",
    }[status.next_step]


def describe_many(statuses: Mapping[str, Sequence[WindowStatus]]) -> list[str]:
    """Return a line for each row of quarantined windows without another one between: the one command that judges all of them
    again. At most the three longest rows of a table. ``statuses``: by table, oldest first.
    """
    lines = []
    for table, of_table in sorted(statuses.items()):
        rows = [[s.window.key for s in some] for waits, some in groupby(of_table, _waits_for_a_person) if waits]
        for keys in sorted((keys for keys in rows if len(keys) > 1), key=len, reverse=True)[:MOST_ROWS]:
            command = f"lakehouse run --table {table} --window {keys[0]}..{keys[-1]} --rejudge --because WHY"
            lines.append(f"{table}: {len(keys)} windows in a row wait for you; `{command}` judges them by today's rules")
    return lines


def _waits_for_a_person(status: WindowStatus) -> bool:
    return status.next_step == "person"


def status_rows(
    statuses: Mapping[str, Sequence[WindowStatus]], *, full: bool, everything: bool = False
) -> list[dict[str, Any]]:
    """Return rows for windows that have a next step (``everything``: and for late ones that are in), by table, oldest first.

    ``full``: one row per window; else one row for unbroken windows with the same states and next step.
    """
    rows = []
    for table, of_table in sorted(statuses.items()):
        listed = [s for s in of_table if s.is_open or (everything and s.states)]
        rows += [_full_row(table, s) for s in listed] if full else [_short_row(table, group) for group in _groups(listed)]
    return rows


def _full_row(table: str, status: WindowStatus) -> dict[str, Any]:
    return {
        "table": table,
        "window": status.window.key,
        "p_extracted_at": status.window.start,
        "states": list(status.states),
        "next": status.next_step,
        "next_at": status.due_at,
        "tries": status.failed_tries,
        "most_tries": status.max_tries,
        "rows_quarantined": status.rows_quarantined,
        "says": describe_next_step(status, table),
    }


def _short_row(table: str, group: Sequence[WindowStatus]) -> dict[str, Any]:
    first, last = group[0], group[-1]
    return {
        "table": table,
        "windows": first.window.key if len(group) == 1 else f"{first.window.key}..{last.window.key}",
        "count": len(group),
        "is": ", ".join(first.states),
        "next": describe_next_step(first, table),
    }


def _groups(statuses: Iterable[WindowStatus]) -> list[list[WindowStatus]]:
    """Return unbroken windows with the same states and the same next step."""

    def key(status: WindowStatus) -> tuple[Any, ...]:
        # Each quarantined window needs a command of its own.
        own = status.window.start if status.next_step == "person" else None
        return status.states, status.next_step, status.due_at, status.failed_tries, own

    groups: list[list[WindowStatus]] = []
    for status in statuses:
        last = groups[-1][-1] if groups else None
        if last and last.window.end == status.window.start and key(last) == key(status):
            groups[-1].append(status)
        else:
            groups.append([status])
    return groups
