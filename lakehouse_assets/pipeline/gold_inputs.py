"""The tables that gold reads: where they lie, at which versions, and whether they are still the tables that a decision read.

Belongs here: inputs by name → paths, versions, identities. Does not: their rows (gold), or what of them changed (gold_rows).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.gold_rules import inputs_of
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.object_store import is_url
from lakehouse_assets.pipeline.run import GoldRun
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.version_marks import count_rebuilds, was_rebuilt_since


@dataclass(frozen=True)
class GoldInputs:
    """Gold's inputs by their names in SQL. ``versions``: of Delta. ``tables``: the identity of each table, since the versions
    of an earlier one at its path mean other rows. It is the id that the table was made with and, of silver, the number of its
    rebuilds.
    """

    versions: Mapping[str, int] = field(default_factory=dict)
    tables: Mapping[str, str] = field(default_factory=dict)

    def were_read_by(self, settings: Settings, decision: Decision) -> bool:
        """Whether the decision is about these versions of these tables."""
        return decision.inputs == self.versions and self.are_tables_of(settings, decision)

    def are_tables_of(self, settings: Settings, decision: Decision) -> bool:
        """Whether the decision read the same tables, at whatever versions. Of silver, marks show it for decisions of earlier
        releases, which have no ``input_tables``.
        """
        if decision.input_tables:
            return decision.input_tables == self.tables
        tables = [name.removeprefix("silver_") for name in self.versions if name.startswith("silver_")]
        return not any(was_rebuilt_since(settings, table, decision.decided_at) for table in tables)


def input_path(settings: Settings, spec: GoldSpec, name: str) -> str:
    """Return where an input lies, by its name in SQL."""
    if name in spec.reads:
        path = spec.reads[name].path
        return path if is_url(path) or Path(path).is_absolute() else settings.path(path)
    layer, _, table = name.partition("_")
    return settings.path(layer, table)


def inputs_now(settings: Settings, spec: GoldSpec, names: Collection[str]) -> GoldInputs:
    """Return the newest versions of the inputs of these names, all of which exist. No JVM."""
    versions, tables = {}, {}
    for name in names:
        table = delta.open_table(input_path(settings, spec, name))
        rebuilds = "" if name in spec.reads else f" {count_rebuilds(settings, name.removeprefix('silver_'))}"
        versions[name], tables[name] = table.version(), f"{table.metadata().id}{rebuilds}"
    return GoldInputs(versions, tables)


def require_inputs(run: GoldRun) -> GoldInputs:
    """Return the inputs as they are now. Raises RefusedError where one is unpublished, or lacks a column that is read."""
    names = inputs_of(run.spec, run.query)
    for name in names:
        path = input_path(run.settings, run.spec, name)
        asset = run.spec.reads[name].asset if name in run.spec.reads else name
        if not delta.exists(path):
            raise RefusedError(f"{run.table} reads {name}, which has never been published; materialize {asset} first")
        if name in run.spec.reads:
            there = {column.lower() for column, _ in delta.schema_types(path)}
            if missing := [column for column in run.spec.reads[name].columns if column.lower() not in there]:
                raise RefusedError(f"{run.table} reads {', '.join(missing)} of {name}, which {path} does not have")
    return inputs_now(run.settings, run.spec, names)
