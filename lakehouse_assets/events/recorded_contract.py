"""A decision's recorded rule set, as a reader of its columns and checks needs it.

Belongs here: types, origins and checked columns of silver, gold and guards. Does not: today's contracts, or events (lineage).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from lakehouse_assets.checks.base import Check
from lakehouse_assets.checks.registry import kinds
from lakehouse_assets.checks.strict_model import RECORDED
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.silver import silver_types
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.events.lineage_tables import LineageTable


@dataclass(frozen=True)
class RecordedContract:
    """``types``, ``descriptions``, ``origins`` (input table and column): by column. ``columns``: each check's column, where it
    has just one. ``null_counts``: the checks whose failing rows are all NULLs of their column.
    """

    types: Mapping[str, str] = field(default_factory=dict)
    descriptions: Mapping[str, str] = field(default_factory=dict)
    origins: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    null_counts: frozenset[str] = frozenset()


def recorded_contract(decision: Decision, table: LineageTable) -> RecordedContract:
    """Return what a decision's rule set says. What this version cannot read of an older one is left out."""
    rules: dict[str, Any] = json.loads(decision.ruleset)
    checks = list(_checks(rules.get("checks") or ()))
    one_column = {check.id: check.columns_used[0] for check in checks if len(check.columns_used) == 1}
    nulls = frozenset(c.id for c in checks if c.check == "not_null" and c.where is None and c.id in one_column)
    types, descriptions, origins = _columns(decision, rules, table)
    return RecordedContract(types, descriptions, origins, one_column, nulls)


def _checks(recorded: Any) -> Iterator[Check]:
    by_name = kinds()
    for check in recorded:
        try:
            yield by_name[check["check"]].model_validate(check, context={RECORDED: True})
        except (KeyError, TypeError, ValidationError):
            continue


def _columns(
    decision: Decision, rules: Mapping[str, Any], table: LineageTable
) -> tuple[dict[str, str], dict[str, str], Mapping[str, tuple[tuple[str, str], ...]]]:
    if decision.table.startswith("gold_"):
        types: dict[str, str] = rules.get("types") or {}
        if decision.ruleset_hash != table.gold_ruleset:
            return types, {}, {}
        return {name: types[name] for name in table.gold_columns}, {}, table.gold_columns
    if table.bronze is None:
        declared = {name: column["type"] for name, column in (rules.get("columns") or {}).items()}
        texts = {name: column.get("description") for name, column in (rules.get("columns") or {}).items()}
        return declared, {name: text for name, text in texts.items() if text}, {}
    try:
        spec = TableSpec.from_ruleset(decision.ruleset)
    except (ConfigError, ValueError):
        return {}, {}, {}
    texts = {name: column.description for name, column in spec.published_columns.items()}
    origins: dict[str, tuple[tuple[str, str], ...]] = {
        name: tuple((table.bronze, source) for source in spec.source_columns(name)) for name in spec.columns
    }
    if key := spec.surrogate_key:
        origins[key.name] = tuple(origin for name in key.columns for origin in origins[name])
    return silver_types(spec), {name: text for name, text in texts.items() if text}, origins
