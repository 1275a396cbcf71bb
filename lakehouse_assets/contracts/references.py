"""What checks of one table say of another: that it is there, has the columns, and is not a circle.

Belongs here: mistakes that only all tables together show. Does not: a table's own promise (table), or where it stands.
"""

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from lakehouse_assets.checks.base import Check
from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.contracts.table import TableSpec

Keys = tuple[str | int, ...]


def reference_mistakes(spec: TableSpec, known: Mapping[str, TableSpec]) -> Iterator[tuple[Keys, str]]:
    """``(keys below attributes, what is wrong)`` for each check of silver that cannot look where it wants to."""
    types = {name: column.type for name, column in spec.columns.items()}
    yield from _of_checks(("checks",), spec.checks, types, known, spec.name)


def gold_reference_mistakes(
    place: int, checks: Sequence[Check], query: GoldQuery, known: Mapping[str, TableSpec]
) -> Iterator[tuple[Keys, str]]:
    """The same for the checks of the gold table at this place of the list, over the columns of its SQL."""
    yield from _of_checks(("gold", place, "checks"), checks, query.types, known, None)


def circle(specs: Sequence[TableSpec]) -> list[str]:
    """Tables that look into each other, so that none could go first; nothing if there are none."""
    graph = {spec.name: {c.reads.table for c in spec.checks if c.reads} for spec in specs}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _of_checks(
    keys: Keys, checks: Sequence[Check], types: Mapping[str, str], known: Mapping[str, TableSpec], own: str | None
) -> Iterator[tuple[Keys, str]]:
    for place, check in enumerate(checks):
        if check.reads is None:
            continue
        at = (*keys, place)
        other = known.get(check.reads.table)
        if other is None or check.reads.table == own:
            others = ", ".join(sorted(set(known) - {own})) or "none"
            yield at, f"({check.id}): there is no other table {check.reads.table!r}; there are {others}"
            continue
        for theirs, mine in check.reads.columns.items():
            if theirs not in other.columns:
                has = ", ".join(other.columns)
                yield at, f"({check.id}): {other.name} has no column {theirs!r}; there are {has}"
            elif check.reads.shown and other.columns[theirs].pii:
                yield at, f"({check.id}): {other.name}.{theirs} is pii, and figures made of it would be told"
            elif mine is not None and types.get(mine, "unknown") not in ("unknown", other.columns[theirs].type):
                yield at, f"({check.id}): {mine} is {types[mine]}, but {other.name}.{theirs} is {other.columns[theirs].type}"
