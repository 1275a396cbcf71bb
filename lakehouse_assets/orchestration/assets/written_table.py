"""A table as its folder has it: its contract, the queries of its gold tables, and where each key is written.

Belongs here: what a table's own files say, with errors that name file, line and key. Does not: Dagster (component), what a
table may declare (contracts), or reading all tables (project_tables).
"""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Self

from lakehouse_assets.checks.sql.text import columns_of, parse_expression
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.gold_rules import input_schemas, personal_columns
from lakehouse_assets.contracts.lineage import GoldQuery, read_gold
from lakehouse_assets.contracts.mistakes import Keys
from lakehouse_assets.contracts.source_map import SourceMap
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError


class WrittenTable:
    """One table of a folder."""

    def __init__(self, spec: TableSpec, folder: Path, source_map: SourceMap | None = None) -> None:
        self.spec = spec
        self.folder = folder
        self.source_map = source_map or SourceMap()
        self._written_gold = spec.gold

    def query_of(self, gold: GoldSpec, specs: Sequence[TableSpec]) -> GoldQuery:
        """Return the query of a gold table of this component. Raises ConfigError with file and line."""
        file = self.folder / gold.sql
        if not file.is_file():
            raise ConfigError(f"{self._location(gold, 'sql')}: gold.{gold.name}.sql: there is no {gold.sql} beside defs.yaml")
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file}:1: the file cannot be read as UTF-8: {type(error).__name__}") from None
        query = read_gold(text, str(file), input_schemas(gold, [self.spec, *specs]))
        if mistakes := list(self._gold_mistakes(gold, query)):
            raise ConfigError("\n".join(mistakes))
        if gold.layout and (why := gold.layout.mistake(query.types, personal_columns(query, [self.spec, *specs]))):
            raise ConfigError(f"{self._location(gold, 'layout')}: gold.{gold.name}.layout.{why}")
        self._refuse_personal_grain(gold, query, [self.spec, *specs])
        return query

    def _gold_mistakes(self, gold: GoldSpec, query: GoldQuery) -> Iterator[str]:
        """Yield each key that does not fit the columns of the SELECT, with file and line."""
        for index, check in enumerate(gold.checks):
            location = f"{self._location(gold, 'checks', index)}: gold.{gold.name}.checks ({check.id})"
            if why := check.unfit_reason(query.types):
                yield f"{location}: {why} (as {gold.sql} computes it)"
            else:
                yield from _lacking(location, gold, query, check.unknown_columns([*query.types, "p_extracted_at"]))
        for key, names in (("key", gold.key), ("units", tuple(gold.units))):
            missing = [name for name in names if name not in query.types]
            yield from _lacking(f"{self._location(gold, key)}: gold.{gold.name}.{key}", gold, query, missing)

    def _refuse_personal_grain(self, gold: GoldSpec, query: GoldQuery, specs: Sequence[TableSpec]) -> None:
        grain = gold.grain
        if grain is None:
            return
        of_input = {f"silver_{spec.name}": {name.lower() for name in spec.pii_columns} for spec in specs}
        is_personal = grain.column in personal_columns(query, specs) or any(
            {name.lower() for name in columns_of(parse_expression(sql, table))} & of_input.get(table, set())
            for table, sql in grain.inputs.items()
        )
        if is_personal:
            raise ConfigError(
                f"{self._location(gold, 'grain')}: gold.{gold.name}.grain: its values are kept with each decision and shown;"
                f" {grain.column} derives from a column marked pii; choose another grain, or none"
            )

    @property
    def name(self) -> str:
        """The table's name."""
        return self.spec.name

    @property
    def file(self) -> Path:
        """The YAML file that describes it."""
        return self.source_map.document.path if self.source_map.document else self.folder / "defs.yaml"

    def without_gold(self, names: Collection[str]) -> Self:
        """Return this table without some of its gold tables."""
        gold = tuple(each for each in self.spec.gold if each.name not in names)
        table = type(self)(self.spec.model_copy(update={"gold": gold}), self.folder, self.source_map)
        table._written_gold = self._written_gold
        return table

    def written_keys(self, keys: Keys) -> Keys:
        """Return keys of the contract as the YAML has them: gold tables that stop are in the YAML only."""
        if keys[:1] != ("gold",):
            return keys
        return ("gold", self._written_gold.index(self.spec.gold[int(keys[1])]), *keys[2:])

    def _location(self, gold: GoldSpec, *keys: str | int) -> str:
        return self.source_map.at(["gold", self._written_gold.index(gold), *keys])


def _lacking(location: str, gold: GoldSpec, query: GoldQuery, missing: Sequence[str]) -> Iterator[str]:
    if missing:
        yield f"{location}: the SELECT in {gold.sql} has no column {', '.join(missing)}; it has {', '.join(query.types)}"
