"""Lists of columns in a check's parameters.

Belongs here: what such a list may not be, whatever the kind. Does not: whether the columns exist (contracts).
"""

from typing import Annotated

from pydantic import AfterValidator


def _once(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Spark does not tell letter case apart."""
    seen: set[str] = set()
    for name in columns:
        if name.lower() in seen:
            raise ValueError(f"{name} stands there twice")
        seen.add(name.lower())
    return columns


Columns = Annotated[tuple[str, ...], AfterValidator(_once)]
