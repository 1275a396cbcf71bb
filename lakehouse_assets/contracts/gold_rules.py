"""What follows from a gold table's declaration and its SQL: inputs, rule set, schemas for the SQL, personal columns.

Belongs here: values of `GoldSpec`, `GoldQuery` and declared columns. Does not: reading the SQL (lineage).
"""

import json
from collections.abc import Sequence
from hashlib import sha256

from lakehouse_assets.checks.dependencies import tables_read
from lakehouse_assets.checks.strict_model import RECORDED
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.contracts.table import TableSpec


def inputs_of(spec: GoldSpec, query: GoldQuery) -> list[str]:
    """Return the tables that a gold table's SQL and checks read."""
    return sorted({*query.inputs, *(f"silver_{table}" for table in tables_read(spec.checks))})


def ruleset(spec: GoldSpec, query: GoldQuery) -> str:
    """Return what a gold table is judged by, as canonical JSON, with the types that follow from its inputs' contracts."""
    rules = spec.model_copy(update={"sql": query.sql, "description": "", "units": {}}).model_dump(mode="json")
    if not spec.reads:
        del rules["reads"]  # the rule set of a table without these keys is what it was before they existed
    if spec.layout is None:
        del rules["layout"]
    return json.dumps({**rules, "types": dict(query.types)}, sort_keys=True)


def recorded_rules(ruleset: str, file: str) -> tuple[GoldSpec, str, dict[str, str]]:
    """Return the declaration of a recorded rule set, its SQL, and the types of its columns. ``file``: the plain name of the
    SQL's file today.
    """
    rules = json.loads(ruleset)
    types = rules.pop("types")
    return GoldSpec.model_validate({**rules, "sql": file}, context={RECORDED: True}), rules["sql"], types


def ruleset_hash(spec: GoldSpec, query: GoldQuery) -> str:
    """Return the first 16 hex digits of the rule set's SHA-256: it changes with the SQL, the key and the checks."""
    return sha256(ruleset(spec, query).encode()).hexdigest()[:16]


def input_schemas(gold: GoldSpec, specs: Sequence[TableSpec]) -> dict[str, dict[str, str]]:
    """Return the columns and types of every table that gold's SQL may read."""
    return silver_schemas(specs) | {name: dict(table.columns) for name, table in gold.reads.items()}


def silver_schemas(specs: Sequence[TableSpec]) -> dict[str, dict[str, str]]:
    """Return ``{silver_<table>: {column: type}}``, to parse gold's SQL."""
    return {
        f"silver_{s.name}": {n: c.type for n, c in s.published_columns.items()} | {"p_extracted_at": "timestamp"} for s in specs
    }


def personal_columns(query: GoldQuery, specs: Sequence[TableSpec]) -> frozenset[str]:
    """Return gold's columns that derive from columns marked `pii`, compared without letter case, as Spark does."""
    personal = {(f"silver_{spec.name}", column.lower()) for spec in specs for column in spec.pii_columns}
    return frozenset(
        name for name, sources in query.lineage.items() if {(table, column.lower()) for table, column in sources} & personal
    )


def reads_personal(query: GoldQuery, specs: Sequence[TableSpec]) -> bool:
    """Whether a gold table reads a table that has columns marked `pii`, whether or not it keeps them."""
    return any(spec.pii_columns and f"silver_{spec.name}" in query.inputs for spec in specs)
