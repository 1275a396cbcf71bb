"""The keys of a table's assets.

Belongs here: a name with the project's prefix. Does not: which assets there are (assets).
"""

import dagster as dg

from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.table_contract import TableContract


def asset_key(spec: TableContract | GoldSpec, name: str) -> dg.AssetKey:
    """Return the key of an asset of this table's project: ``name`` is `silver_<table>`, `gold_<name>`, …"""
    return dg.AssetKey([*spec.asset_prefix, name])
