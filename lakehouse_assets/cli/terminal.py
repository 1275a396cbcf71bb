"""What commands print: listings as tables or JSON, lines, warnings.

Belongs here: values → the terminal. Does not: where the values come from (common), or any command.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from lakehouse_assets.cli.plain_table import plain_lines
from lakehouse_assets.reports.markdown import escape_controls


class SafeConsole(Console):
    """A console that shows every text as it is: none of it moves the cursor or is read as rich's markup."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as rich does, with control characters escaped."""
        super().print(*[escape_controls(each) if isinstance(each, str) else each for each in objects], markup=False, **options)


# Piped into a file or another program, a table is as wide as it needs, and a message is one line: `grep` finds its location.
UNWRAPPED = 100_000
out = SafeConsole(width=None if sys.stdout.isatty() else UNWRAPPED, emoji=False)
err = SafeConsole(stderr=True, width=None if sys.stderr.isatty() else UNWRAPPED, emoji=False)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def show(rows: Sequence[dict[str, Any]], as_json: bool = False, empty: str = "") -> None:
    """Print a listing, as a table or as JSON. ``empty``: the line where a table has no rows."""
    if as_json:
        show_json(list(rows))
        return
    if not rows:
        out.print(empty)
        return
    header = [escape_controls(name) for name in rows[0]]
    cells = [[_cell(value, name) for name, value in row.items()] for row in rows]
    if (lines := plain_lines(header, cells, out.width)) is not None:
        out.print(Text(lines[0], style="bold", no_wrap=True))
        out.print(Text("\n".join(lines[1:]), no_wrap=True))
        return
    drawn = Table(*[Column(Text(name)) for name in header], box=None, header_style="bold", pad_edge=False)
    for row in cells:
        drawn.add_row(*map(Text, row))
    out.print(drawn)


def show_json(value: Any) -> None:
    """Print a value as JSON."""
    print(json.dumps(value, default=lambda v: v.isoformat() if isinstance(v, datetime) else str(v), indent=2))  # noqa: T201


def show_lines(lines: Iterable[str]) -> None:
    """Print lines as they are, unwrapped."""
    for line in lines:
        out.print(line, highlight=False, soft_wrap=True)


def err_lines(lines: Iterable[str]) -> None:
    """Print lines to the error console, unwrapped."""
    for line in lines:
        err.print(line, highlight=False, soft_wrap=True)


def _cell(value: Any, column: str = "") -> str:
    if isinstance(value, datetime) and column == "window" and (value.second or value.microsecond):
        return f"{value:%Y-%m-%d-%H:%M:%S}.{value.microsecond // 1000:03}"  # a stream's window, by its key
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d}" if value.hour == value.minute == 0 else f"{value:%Y-%m-%d %H:%M}"
    return "" if value is None else escape_controls(str(value))
