"""The first few names in a sentence, and the examples of a check's outcome.

Belongs here: short lists for messages. Does not: the messages.
"""

from collections.abc import Mapping, Sequence
from typing import Any


def first_of(names: Sequence[str], most: int) -> str:
    """The first ``most`` names, and how many more there are.

    >>> first_of(["a", "b"], 2), first_of(["a", "b", "c"], 2)
    ('a, b', 'a, b and 1 more')
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def examples_of(observed: Mapping[str, Any]) -> list[str]:
    """Return the failing examples in a batch check's outcome; none where they are masked."""
    examples = observed.get("examples")
    return examples if isinstance(examples, list) else []
