"""A window's start and the first few names in a sentence, the examples of a check's outcome, and texts cut to a length.

Belongs here: short texts for messages. Does not: the messages.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any


def first_of(names: Sequence[str], most: int) -> str:
    """The first ``most`` names, and how many more there are.

    >>> first_of(["a", "b"], 2), first_of(["a", "b", "c"], 2)
    ('a, b', 'a, b and 1 more')
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def any_of(names: Sequence[str]) -> str:
    """Return names in quotes, of which one is enough.

    >>> any_of(["a"]), any_of(["a", "b"])
    ("'a'", "'a' or 'b'")
    """
    return " or ".join(map(repr, names))


def examples_of(observed: Mapping[str, Any]) -> list[str]:
    """Return the failing examples in a batch check's outcome; none where they are masked."""
    examples = observed.get("examples")
    return examples if isinstance(examples, list) else []


def name_start(start: datetime) -> str:
    """Return a window's start to the minute; of a stream's window, to its millisecond.

    >>> name_start(datetime(2024, 5, 1, 13)), name_start(datetime(2024, 5, 1, 13, 0, 5, 123_000))
    ('2024-05-01 13:00', '2024-05-01 13:00:05.123')
    """
    milliseconds = f":{start:%S}.{start.microsecond // 1000:03}" if start.second or start.microsecond else ""
    return f"{start:%Y-%m-%d %H:%M}{milliseconds}"


def shorten(text: str, most: int) -> str:
    """Return a text of at most ``most`` characters, which says so where something is left out.

    >>> shorten("between 0 and 100", 17), shorten("between 0 and 100", 16), shorten("abcdef", 4)
    ('between 0 and 100', 'between 0 and …', 'abc…')
    """
    if len(text) <= most:
        return text
    beginning, space, _ = text[: most - 1].rpartition(" ")
    return f"{beginning}{space}…" if space else f"{text[: most - 1]}…"
