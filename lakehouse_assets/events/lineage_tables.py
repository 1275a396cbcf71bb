"""The tables of the decision log as datasets of OpenLineage: their names, inputs and column lineage.

Belongs here: names that follow from contracts. Does not: events and facets (lineage). It needs no extra.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.gold_rules import ruleset_hash
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.contracts.table import TableSpec


@dataclass(frozen=True)
class LineageTable:
    """``name``: the dataset that the checks are about. ``source``, ``bronze``: where silver's rows come from. ``inputs``: a
    decision's inputs → their datasets. ``output``: what a decision writes, if anything. ``gold_columns``: column → input
    columns, by gold's SQL of the rule set ``gold_ruleset``.
    """

    name: str
    output: str | None
    source: str | None = None
    bronze: str | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    gold_columns: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    gold_ruleset: str | None = None


def lineage_tables(
    specs: Sequence[TableSpec], golds: Mapping[str, GoldQuery], guards: Sequence[GuardSpec]
) -> dict[str, LineageTable]:
    """Return the datasets of a project, by their tables' names in the decision log. ``golds``: gold's queries by name."""
    silver = {spec.name: _name(spec.asset_prefix, f"silver_{spec.name}") for spec in specs}
    tables = {spec.name: _silver(spec, silver) for spec in specs}
    tables |= {f"gold_{gold.name}": _gold(gold, golds[gold.name]) for spec in specs for gold in spec.gold}
    return tables | {guard.name: _guard(guard) for guard in guards}


def table_of(decision: Decision, tables: Mapping[str, LineageTable], prefix: Sequence[str] = ()) -> LineageTable:
    """Return a decision's table. One that the project no longer has, or that stops, is named as its assets would be under the
    prefix of asset keys.
    """
    if decision.table in tables:
        return tables[decision.table]
    if decision.table.startswith("gold_"):
        name = _name(prefix, decision.table)
        return LineageTable(name, name, inputs={each: _name(prefix, each) for each in decision.inputs})
    if '"rewrites"' in decision.ruleset:  # a key that every guard's rules have
        return LineageTable(_name(prefix, f"guard_{decision.table}"), None)
    names = {layer: _name(prefix, f"{layer}_{decision.table}") for layer in ("source", "bronze", "silver")}
    inputs = {each: _name(prefix, f"silver_{each}") for each in decision.inputs}
    return LineageTable(names["silver"], names["silver"], names["source"], names["bronze"], inputs)


def _silver(spec: TableSpec, silver: Mapping[str, str]) -> LineageTable:
    return LineageTable(
        name=silver[spec.name],
        output=silver[spec.name],
        source=_name(spec.asset_prefix, f"source_{spec.name}"),
        bronze=_name(spec.asset_prefix, f"bronze_{spec.name}"),
        inputs=silver,
    )


def _gold(gold: GoldSpec, query: GoldQuery) -> LineageTable:
    name = _name(gold.asset_prefix, f"gold_{gold.name}")
    inputs = dict(_gold_inputs(gold, query))
    columns = {
        column: tuple(sorted((inputs[table], of) for table, of in origins if table in inputs))
        for column, origins in query.lineage.items()
    }
    return LineageTable(name, name, inputs=inputs, gold_columns=columns, gold_ruleset=ruleset_hash(gold, query))


def _gold_inputs(gold: GoldSpec, query: GoldQuery) -> Iterator[tuple[str, str]]:
    for table in query.inputs:
        yield table, gold.reads[table].asset if table in gold.reads else _name(gold.asset_prefix, table)


def _guard(guard: GuardSpec) -> LineageTable:
    name = guard.asset or _name(guard.asset_prefix, f"guard_{guard.name}")
    return LineageTable(name, guard.publish.to if guard.publish else None)


def _name(prefix: Sequence[str], name: str) -> str:
    return "/".join([*prefix, name])
