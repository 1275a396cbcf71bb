"""Column names across files: what makes a file's names unusable, and one spelling for names that differ only in case.

Belongs here: judging and binding names (pure). Does not: reading them from files.
"""

from collections.abc import Iterable, Sequence

from lakehouse_assets.contracts.source import safe_name

MAX_COLUMNS = 5_000


def refuse_names(names: Sequence[str]) -> str | None:
    """Why a file with these columns cannot be bound by name; ``None`` if it can."""
    if len(names) > MAX_COLUMNS:
        return f"it has more than {MAX_COLUMNS:,} columns"
    seen: dict[str, str] = {}
    for place, name in enumerate(names, 1):
        if not name:
            return f"column {place} has no name"
        if "\0" in name:
            return f"the name of column {place} has a NUL character: is the file UTF-16, or binary?"
        if "\ufffd" in name:
            return f"the name of column {place} cannot be decoded: the file has another encoding"
        twin = seen.setdefault(name.lower(), name)
        if place > len(seen):
            return f"two columns are called {name!r}" if twin == name else f"columns {twin!r} and {name!r} differ only in case"
    return None


class Spelling:
    """Spark and Delta take `Temp` and `temp` for one column: the declared spelling wins, then the first one met."""

    def __init__(self, declared: Iterable[str]) -> None:
        self._safe: dict[str, str] = {}
        for name in declared:
            self.learn(name)

    def learn(self, name: str) -> str:
        """The bronze name of a source's column, from now on."""
        return self._safe.setdefault(name.lower(), safe_name(name))

    def respelled(self, names: Iterable[str]) -> dict[str, str]:
        """Of these, the bronze names that stand for another spelling, each with that."""
        return {bound: name for name in names if (bound := self.learn(name)) != safe_name(name)}
