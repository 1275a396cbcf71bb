"""A table as its files describe it: its contract, and the queries of its gold tables.

Belongs here: what jobs and definitions need of it. Does not: reading the files (component).
"""

from collections.abc import Sequence
from typing import Protocol

from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.contracts.source_map import SourceMap
from lakehouse_assets.contracts.table import TableSpec


class DescribedTable(Protocol):
    """A table and its gold tables."""

    spec: TableSpec
    source_map: SourceMap

    def query_of(self, gold: GoldSpec, specs: Sequence[TableSpec]) -> GoldQuery:
        """Return the query of one of its gold tables, which may read the silver of ``specs``."""
        ...


def golds_of(tables: Sequence[DescribedTable]) -> dict[str, GoldQuery]:
    """Return the query of every gold table, by the gold table's name."""
    specs = [table.spec for table in tables]
    return {gold.name: table.query_of(gold, specs) for table in tables for gold in table.spec.gold}
