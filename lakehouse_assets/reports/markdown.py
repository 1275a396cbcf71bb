"""Markdown that the UI draws: tables and escaped text.

Belongs here: text → markdown, with every value escaped. Does not: what is said.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|<>~&-])")


def escape(value: Any) -> str:
    """A value as text that shows as itself, on one line, at most 300 characters."""
    text = " ".join(str(value).split())
    text = text if len(text) <= 300 else text[:299] + "…"
    return SPECIAL.sub(r"\\\1", text).replace("\\<", "&lt;").replace("\\>", "&gt;").replace("\\&", "&amp;")


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], limit: int = 50) -> str:
    """A markdown table of at most ``limit`` rows; what was left out is counted below it."""
    rows = list(rows)
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(escape("" if cell is None else cell) for cell in row) + " |" for row in rows[:limit]]
    if len(rows) > limit:
        lines += ["", f"… and {len(rows) - limit} more"]
    return "\n".join(lines)
