"""What reads what: checks that read other tables, with the mistakes in them, and the readers of a column.

Belongs here: facts that only all tables together show. Does not: validating one table (table), lines of YAML (source_map), or
reading SQL (lineage).
"""

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from lakehouse_assets.checks.base import Check
from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.contracts.mistakes import Keys
from lakehouse_assets.contracts.table import TableSpec


def reference_mistakes(
    spec: TableSpec, tables: Mapping[str, TableSpec], queries: Sequence[GoldQuery] = ()
) -> Iterator[tuple[Keys, str]]:
    """Yield ``(keys below attributes, text)`` for each check that cannot read its other table. ``tables``: all tables.
    ``queries``: of the table's gold tables, in order.
    """
    types = {name: column.type for name, column in spec.columns.items()}
    yield from _of_checks(("checks",), spec.checks, types, tables, spec.name)
    for index, (gold, query) in enumerate(zip(spec.gold, queries, strict=False)):
        yield from _of_checks(("gold", index, "checks"), gold.checks, query.types, tables, None)


def circle(specs: Sequence[TableSpec]) -> list[str]:
    """Return tables that read each other in a circle, in its order; nothing if there is no circle."""
    graph = {spec.name: {c.reads.table for c in spec.checks if c.reads} for spec in specs}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _of_checks(
    keys: Keys, checks: Sequence[Check], types: Mapping[str, str], tables: Mapping[str, TableSpec], own: str | None
) -> Iterator[tuple[Keys, str]]:
    for index, check in enumerate(checks):
        if check.reads is None:
            continue
        at = (*keys, index)
        other = tables.get(check.reads.table)
        if other is None or check.reads.table == own:
            others = ", ".join(sorted(set(tables) - {own})) or "none"
            yield at, f"({check.id}): there is no other table {check.reads.table!r}; there are {others}"
            continue
        published = other.published_columns
        for theirs, mine in check.reads.columns.items():
            if theirs not in published:
                has = ", ".join(published)
                yield at, f"({check.id}): {other.name} has no column {theirs!r}; there are {has}"
            elif check.reads.shown and theirs in other.pii_columns:
                yield at, f"({check.id}): {other.name}.{theirs} is pii, and the check would show figures made of it"
            elif mine is not None and types.get(mine, "unknown") not in ("unknown", published[theirs].type):
                yield at, f"({check.id}): {mine} is {types[mine]}, but {other.name}.{theirs} is {published[theirs].type}"


def readers_of(spec: TableSpec, golds: Mapping[str, GoldQuery] | None = None) -> dict[str, tuple[str, ...]]:
    """Return what reads each column of silver: the key, checks, drift features, gold. ``golds``: all queries, by table."""
    readers: list[tuple[str, str]] = [(name, "key") for name in spec.key]
    readers += [(spec.last_modified, "last_modified")] if spec.last_modified else []
    readers += [(name, "extraction.delete_when") for name in spec.extraction.deletion_columns]
    readers += [(name, "surrogate_key") for name in (spec.surrogate_key.columns if spec.surrogate_key else ())]
    derived = spec.derived_columns.items()
    readers += [(name, f"layout {column}") for column, each in derived for name in sorted(each.columns_used)]
    readers += [(name, "layout") for name in (spec.layout.columns if spec.layout else ()) if name in spec.columns]
    readers += [(name, f"check {check.id}") for check in spec.checks for name in check.columns_used]
    readers += [(name, f"drift feature {feature.name}") for feature in spec.features for name in sorted(feature.columns_used)]
    spelled = {name.lower(): name for name in spec.columns}
    for gold, query in sorted((golds or {}).items()):
        in_gold = _readers_in_gold(f"silver_{spec.name}", gold, query)
        readers += [(spelled.get(name.lower(), name), reader) for name, reader in in_gold]
    by_column: dict[str, dict[str, None]] = {}
    for name, reader in readers:
        by_column.setdefault(name, {})[reader] = None
    return {name: tuple(several) for name, several in by_column.items()}


def _readers_in_gold(input_table: str, gold: str, query: GoldQuery) -> Iterator[tuple[str, str]]:
    """Yield an input's columns with each gold column made of them, or with the gold table if only a condition reads them."""
    for column, origins in query.lineage.items():
        yield from ((name, f"gold_{gold}.{column}") for table, name in sorted(origins) if table == input_table)
    in_a_column = {origin for origins in query.lineage.values() for origin in origins}
    yield from ((name, f"gold_{gold}") for table, name in sorted(query.reads - in_a_column) if table == input_table)
