"""Names in a sentence: the first few of many, and how many more there are.

Belongs here: that. Does not: any sentence.
"""

from collections.abc import Sequence


def first_of(names: Sequence[str], most: int) -> str:
    """The first ``most`` names; of more it says how many.

    >>> first_of(["a", "b"], 2), first_of(["a", "b", "c"], 2)
    ('a, b', 'a, b and 1 more')
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
