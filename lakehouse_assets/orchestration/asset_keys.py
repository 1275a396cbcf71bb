"""The keys of a table's assets.

Belongs here: a name with the project's prefix. Does not: which assets there are (assets).
"""

import dagster as dg

from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.table_contract import TableContract


def asset_key(spec: TableContract | GoldSpec | GuardSpec, name: str) -> dg.AssetKey:
    """Return the key of an asset of this table's project: ``name`` is `silver_<table>`, `guard_<name>`, …"""
    return dg.AssetKey([*spec.asset_prefix, name])


def input_key(gold: GoldSpec, name: str) -> dg.AssetKey:
    """Return the key of a table that gold reads, by its name in the SQL."""
    return dg.AssetKey.from_user_string(gold.reads[name].asset) if name in gold.reads else asset_key(gold, name)
