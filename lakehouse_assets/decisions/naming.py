"""What is named of many: the first few names in a sentence, the examples that a check tells.

Belongs here: that. Does not: any sentence.
"""

from collections.abc import Mapping, Sequence
from typing import Any


def first_of(names: Sequence[str], most: int) -> str:
    """The first ``most`` names; of more it says how many.

    >>> first_of(["a", "b"], 2), first_of(["a", "b", "c"], 2)
    ('a, b', 'a, b and 1 more')
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def examples_of(observed: Mapping[str, Any]) -> list[str]:
    """What a check of a batch tells of what fails it, where it tells any of it and that is not masked."""
    found = observed.get("examples")
    return found if isinstance(found, list) else []
