"""Text that shows as itself: no character moves a cursor or reverses a line; markdown for Dagster's UI, every value escaped.

Belongs here: characters, markdown tables. Does not: the content, or the markup of a page or a terminal (audit_site, cli).
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

# Control characters except tab and line feed, invisible characters that reverse or join text, Unicode's two line ends.
CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|<>~&@-])")
# What would end an address in markdown, or a cell.
URL_SPECIAL = re.compile(r"""[\s()<>|\\"'`\[\]]""")
# What becomes a link or a list without any bracket.
BARE = re.compile(r"(?i)(:(?=//)|(?<=\bwww)\.|(?<=^\d)\.(?=\s|$)|(?<=^\d\d)\.(?=\s|$))")


def escape_controls(text: str) -> str:
    r"""The text with each such character spelled out.

    >>> escape_controls("a\x1b[31m\u202eb")
    'a\\x1b[31m\\u202eb'
    """
    return CONTROLS.sub(lambda match: ascii(match.group())[1:-1], text)


def escape(value: Any) -> str:
    """Return a value as text that shows as itself, on one line, at most 300 characters."""
    text = escape_controls(" ".join(str(value).split()))
    text = text if len(text) <= 300 else text[:299] + "…"
    text = BARE.sub(r"\\\1", SPECIAL.sub(r"\\\1", text))
    return text.replace("\\<", "&lt;").replace("\\>", "&gt;").replace("\\&", "&amp;")


class Markdown(str):
    """Text that is markdown already: a table does not escape it."""


def link(text: Any, url: str) -> Markdown:
    """Return a link. ``url``: its characters that mean something in markdown are quoted.

    >>> link("May", "https://example.com/a_b|(c)")
    '[May](https://example.com/a_b%7C%28c%29)'
    """
    return Markdown(f"[{escape(text)}]({URL_SPECIAL.sub(lambda match: quote(match.group(), safe=''), url)})")


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], limit: int = 50) -> str:
    """Return a markdown table of at most ``limit`` rows, with the number of rows left out below it."""
    rows = list(rows)
    lines = ["| " + " | ".join(map(escape, header)) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows[:limit]]
    if len(rows) > limit:
        lines += ["", f"… and {len(rows) - limit} more"]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    return value if isinstance(value, Markdown) else escape("" if value is None else value)
