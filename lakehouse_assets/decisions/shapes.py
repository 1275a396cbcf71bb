"""Regular expressions from the shapes of texts: which characters are capital letters, small letters and digits.

Belongs here: shapes → a pattern. Does not: reading texts (operations/suggest), or which patterns are allowed (checks/patterns).
"""

import re
from collections.abc import Collection, Iterable
from itertools import groupby
from math import ceil

# Of a shape, these stand for any letter or digit; every other character for itself.
CLASSES = {"A": "[A-Z]", "a": "[a-z]", "9": "[0-9]"}
CAPITALS, SMALL, DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz", "0123456789"
FROM, TO = CAPITALS + SMALL + DIGITS, "A" * 26 + "a" * 26 + "9" * 10
MOST_FORMS, MOST_RUNS = 3, 8
SPECIAL = frozenset(r"\.^$|?*+()[]{}")


def pattern_of(shapes: Iterable[str]) -> str | None:
    """Return a pattern that all texts of these shapes match; None where they have no common form, or are empty.

    Runs whose length varies get one character more, and a fifth, to spare.

    >>> pattern_of(["A9999", "A999AA"])
    '^(?:[A-Z][0-9]{4}|[A-Z][0-9]{3}[A-Z]{2})$'
    >>> pattern_of(["aa-99", "aaaa-99"])
    '^[a-z]{1,6}-[0-9]{2}$'
    """
    forms: dict[tuple[str, ...], list[list[int]]] = {}
    for shape in shapes:
        runs = [(letter, len(list(group))) for letter, group in groupby(shape)]
        lengths = forms.setdefault(tuple(letter for letter, _ in runs), [[] for _ in runs])
        for seen_lengths, (_, length) in zip(lengths, runs, strict=True):
            seen_lengths.append(length)
    if not forms or () in forms or len(forms) > MOST_FORMS or max(map(len, forms)) > MOST_RUNS:
        return None
    alternatives = ["".join(map(_run, letters, lengths)) for letters, lengths in forms.items()]
    return f"^{alternatives[0]}$" if len(alternatives) == 1 else f"^(?:{'|'.join(alternatives)})$"


def count_unexpected(shapes: Collection[str], lone: Iterable[str]) -> int:
    """Return how many of the ``lone`` shapes the pattern of all other shapes would not match, had each of them been left out.

    >>> count_unexpected(["a-9", "a-99", "A"], ["a-99", "A"])
    1
    """
    patterns = {shape: pattern_of(other for other in shapes if other != shape) for shape in lone}
    # A shape is a text of its own form.
    return sum(pattern is None or not re.search(pattern, shape) for shape, pattern in patterns.items())


def _run(letter: str, lengths: list[int]) -> str:
    character = CLASSES.get(letter, f"\\{letter}" if letter in SPECIAL else letter)
    low, high = min(lengths), max(lengths)
    if low == high:
        return character if low == 1 else f"{character}{{{low}}}"
    return f"{character}{{{max(low - 1, 1)},{ceil(high * 1.2) + 1}}}"
