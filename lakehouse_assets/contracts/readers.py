"""What reads a column downstream: the key, checks, drift features, columns of gold.

Belongs here: from a contract and gold's lineage to names of readers. Does not: reading SQL (lineage), or telling it.
"""

from collections.abc import Iterator, Mapping

from lakehouse_assets.checks.sql_text import columns_of, parse_expression
from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.contracts.table import TableSpec


def readers_of(spec: TableSpec, golds: Mapping[str, GoldQuery] | None = None) -> dict[str, tuple[str, ...]]:
    """By silver's column, what would miss it. ``golds``: the queries of all gold tables, by the tables' names."""
    found: dict[str, list[str]] = {}

    def tell(name: str, reader: str) -> None:
        if reader not in found.setdefault(name, []):
            found[name].append(reader)

    for name in spec.key:
        tell(name, "key")
    if spec.last_modified:
        tell(spec.last_modified, "last_modified")
    if spec.extraction.delete_when:
        for name in sorted(columns_of(parse_expression(spec.extraction.delete_when, "delete_when"))):
            tell(name, "extraction.delete_when")
    for check in spec.checks:
        for name in check.columns_used:
            tell(name, f"check {check.id}")
    for feature in spec.drift.features if spec.drift else ():
        for name in sorted(feature.columns_used):
            tell(name, f"drift feature {feature.name}")
    spelled = {name.lower(): name for name in spec.columns}
    for gold, query in sorted((golds or {}).items()):
        for name, reader in _in_gold(f"silver_{spec.name}", gold, query):
            tell(spelled.get(name.lower(), name), reader)
    return {name: tuple(readers) for name, readers in found.items()}


def _in_gold(input_table: str, gold: str, query: GoldQuery) -> Iterator[tuple[str, str]]:
    """A table's columns with what of this gold table is made of them; the table itself, where only a condition or a join is."""
    for column, origins in query.lineage.items():
        yield from ((name, f"gold_{gold}.{column}") for table, name in sorted(origins) if table == input_table)
    in_a_column = {origin for origins in query.lineage.values() for origin in origins}
    yield from ((name, f"gold_{gold}") for table, name in sorted(query.reads - in_a_column) if table == input_table)
