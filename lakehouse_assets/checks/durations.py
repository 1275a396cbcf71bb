"""Lengths of time as they are written in YAML: `30s`, `90m`, `6h`, `2d`.

Belongs here: text → length. Does not: which key is one.
"""

import re
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def duration(text: str) -> timedelta:
    """``90m``, ``6h``, ``2d``, ``30s``. Raises ValueError for another form."""
    found = re.fullmatch(r"(\d{1,6})([smhd])", text.strip())
    if not found:
        raise ValueError(f"{text!r} is not a duration such as 30s, 90m, 6h or 2d")
    return timedelta(**{UNITS[found[2]]: int(found[1])})


def _checked(text: str) -> str:
    duration(text)
    return text


# Kept as it was written: a rule set is told back in the words of its author.
Duration = Annotated[str, AfterValidator(_checked)]
