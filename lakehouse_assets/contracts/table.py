"""A table's contract as its `defs.yaml` declares it, and the two contracts that follow from it and from batches.

Belongs here: their shape, and what can be validated from one table alone. Does not: files, Spark, Dagster, or what a batch
changes (decisions/schema/evolution).
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Self

from pydantic import ValidationError, ValidationInfo, model_validator

from lakehouse_assets.checks.base import Check
from lakehouse_assets.checks.drift_rows import DRIFT_ROWS, DriftRows
from lakehouse_assets.checks.families import HistoryCheck
from lakehouse_assets.checks.kinds.control import ControlTotal
from lakehouse_assets.checks.strict_model import RECORDED, is_recorded
from lakehouse_assets.contracts.columns import Column
from lakehouse_assets.contracts.delta_properties import with_implied_checks
from lakehouse_assets.contracts.mistakes import (
    OF_SILVER,
    dependency_reasons,
    join_keys,
    mistakes_in,
    reasons_of,
    refuse_all,
    refuse_duplicates,
    refuse_names,
)
from lakehouse_assets.contracts.spark_types import parse_type
from lakehouse_assets.contracts.stream_drift import refuse_keys
from lakehouse_assets.contracts.surrogate_key import form_of
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.errors import ConfigError

# Seasons that are the same in every window of a cadence, or different by accident.
SEASONS = {"hour": ("daily", "weekly", "monthly"), "weekday": ("weekly", "monthly")}


class TableSpec(TableContract):
    """Everything that is declared of one table.

    Description, owners, tags, group, alerts, gold, maintenance and properties are not part of the *rule set*: changing them
    does not change its hash.
    """

    @model_validator(mode="before")
    @classmethod
    def _with_checks_of_constraints(cls, data: Any, info: ValidationInfo) -> Any:
        return with_implied_checks(data, is_recorded=is_recorded(info))

    @model_validator(mode="after")
    def _has_no_check_of_its_assets(self, info: ValidationInfo) -> "TableSpec":
        if not is_recorded(info):
            refuse_names(self.checks, OF_SILVER)
        return self

    @model_validator(mode="after")
    def _consistent(self) -> "TableSpec":
        refuse_all(type(self).__name__, self._reasons())
        return self

    def _reasons(self) -> Iterator[str]:
        """Yield each mistake between keys. What could follow from another mistake is left out beside it."""
        doubled = [*reasons_of(lambda: refuse_duplicates("checks", [check.id for check in self.checks]))]
        yield from reasons_of(self._refuse_mode, self._refuse_extraction)
        if self.drift:
            yield from reasons_of(partial(refuse_keys, self.drift, is_stream=self.extraction.stream is not None))
        yield from doubled or dependency_reasons(self.checks, self.key)
        yield from reasons_of(lambda: refuse_duplicates("gold", [gold.name for gold in self.gold]))
        checks = {f"checks.{i} ({check.id})": check for i, check in enumerate(self.checks)}
        yield from reasons_of(*(partial(self._refuse_check, where, check) for where, check in checks.items()))
        yield from reasons_of(self.refuse_personal_features)
        key = {"key": self.key, "last_modified": (self.last_modified,) if self.last_modified else ()}
        nested = [*self._nested(key)]
        yield from nested
        unknown_in_key = [*self._unknown(key)]
        yield from reasons_of(self._refuse_surrogate_key, *(() if nested or unknown_in_key else (self._refuse_layout,)))
        yield from unknown_in_key
        features = {f"drift.features.{i} ({each.name})": sorted(each.columns_used) for i, each in enumerate(self.features)}
        unknown = {where: check.unknown_columns(self.columns) for where, check in checks.items()}
        yield from self._unknown({**unknown, "extraction.delete_when": self.extraction.deletion_columns, **features})
        types = {name: column.type for name, column in self.columns.items()}
        for where, check in checks.items():
            if not unknown[where] and (why := check.unfit_reason(types)):
                yield f"{where}: {why}"

    def _refuse_mode(self) -> None:
        if self.extraction.mode != "append" and not self.key:
            raise ValueError(f"extraction.mode: key is needed in {self.extraction.mode} mode")
        if self.extraction.mode == "append" and self.key:
            raise ValueError("key: does not apply in append mode, where each row is its own; remove it or use mode: upsert")

    def _refuse_extraction(self) -> None:
        if self.extraction.stream:
            self.source.refuse_stream(self.extraction.mode, self.extraction.delete_when)
        else:
            self.source.refuse_extraction(self.extraction.cadence, self.extraction.mode, self.extraction.delete_when)

    def _nested(self, references: Mapping[str, Iterable[str]]) -> Iterator[str]:
        for what, names in references.items():
            for name in (name for name in names if name in self.columns and self.columns[name].nested):
                yield f"{what}: {name} is {self.columns[name].type}, which has no order; use a plain column"

    def _unknown(self, references: Mapping[str, Iterable[str]]) -> Iterator[str]:
        for what, names in references.items():
            yield from (self._undeclared(what, name) for name in names if name not in self.columns)

    def _undeclared(self, what: str, name: str) -> str:
        surrogate = self.surrogate_key
        if surrogate and name == surrogate.name:
            return (
                f"{what}: {name!r} is the surrogate key, computed after all checks; name {', '.join(surrogate.columns)} instead"
            )
        return f"{what}: no column {name!r} is declared; there are {', '.join(self.columns)}"

    def _refuse_surrogate_key(self) -> None:
        key = self.surrogate_key
        if key is None:
            return
        if same := [name for name in self.columns if name.lower() == key.name.lower()]:
            raise ValueError(f"surrogate_key.name: a column is called {same[0]!r} too; choose another name")
        for index, name in enumerate(key.columns):
            where = f"surrogate_key.from.{index}"
            if name not in self.columns:
                raise ValueError(f"{where}: no column {name!r} is declared; there are {', '.join(self.columns)}")
            if form_of(parse_type(kind := self.columns[name].type)) is None:
                raise ValueError(f"{where}: {name} is {kind}, whose values have no one text to hash; use another column")

    def _refuse_layout(self) -> None:
        if self.layout is None:
            return
        others = [name for name in self.computed_columns if name not in self.layout.derived]
        declared = {name.lower(): name for name in (*self.columns, *others)}
        for name, each in self.layout.derived.items():
            if name.lower() in declared:
                raise ValueError(
                    f"layout.derived.{name}: a column is called {declared[name.lower()]!r} too; choose another name"
                )
            if unknown := sorted(each.columns_used - self.columns.keys()):
                raise ValueError(
                    f"layout.derived.{name}.expr: no column {unknown[0]!r} is declared; there are {', '.join(self.columns)}"
                )
        types = {name: column.type for name, column in self.published_columns.items()}
        if why := self.layout.mistake(types, self.pii_columns, self.key):
            raise ValueError(f"layout.{why}")

    def _refuse_check(self, where: str, check: Check) -> None:
        if self.drift and self.drift.divides and check.id.lower() == DRIFT_ROWS:
            raise ValueError(f"{where}: on_drift: quarantine_rows has a check of this name; give this one another `name:`")
        if isinstance(check, HistoryCheck):
            if self.extraction.window_cadence in SEASONS.get(check.season or "", ()):
                raise ValueError(f"{where}: season: {check.season} has no effect in a {self.extraction.cadence} table")
            if self.extraction.stream and check.season == "month":
                raise ValueError(f"{where}: season: month does not apply to a stream; use hour or weekday")
            if personal := sorted(set(check.columns_used) & self.pii_columns):
                raise ValueError(f"{where}: its figures are stored for later windows, and {', '.join(personal)} is pii")
        if isinstance(check, ControlTotal):
            control = getattr(self.source, "control", None)
            if control is None:
                raise ValueError(f"{where}: the source reports no totals; declare source.control (kinds files and jdbc)")
            if isinstance(control, dict) and check.figure not in control:
                raise ValueError(f"{where}: source.control has no {check.figure!r}; there are {', '.join(control)}")

    @property
    def declared(self) -> "TableSpec":
        """This contract."""
        return self

    def with_asset_prefix(self, prefix: tuple[str, ...]) -> "TableSpec":
        """Return the same with this prefix of its assets' keys, gold's included."""
        gold = tuple(each.with_asset_prefix(prefix) for each in self.gold)
        return super().with_asset_prefix(prefix).model_copy(update={"gold": gold})

    def with_drift_rows(self, check: DriftRows) -> "TableSpec":
        """Return the same with a check of rows that drift named, after all others: the rules of one batch."""
        return self.model_copy(update={"checks": (*self.checks, check)})

    @classmethod
    def from_ruleset(cls, ruleset: str) -> "TableSpec":
        """Return the contract whose `ruleset()` this is. Raises ConfigError if an extension that it needs is missing."""
        try:
            rules = json.loads(ruleset)
            of_gate = rules.pop(DRIFT_ROWS, None)
            spec = cls.model_validate_json(json.dumps(rules) if of_gate else ruleset, context={RECORDED: True})
            return spec.with_drift_rows(DriftRows.model_validate(of_gate)) if of_gate else spec
        except ValidationError as error:
            name = json.loads(ruleset).get("name")
            reasons = "; ".join(f"{join_keys(keys)}: {text}" for keys, text in mistakes_in(error))
            raise ConfigError(
                f"table {name}: the rules that a decision recorded cannot be read: {reasons}. If an extension is missing,"
                " restore its file under lakehouse/, or install its package"
            ) from error

    def as_judged(self, ruleset: str) -> "TableSpec":
        """Return the contract with the rules of then; what is no rule is today's."""
        no_rules = ("alerts", "gold", "description", "maintenance", "properties", "asset_prefix")
        others = {name: getattr(self, name) for name in no_rules}
        return TableSpec.from_ruleset(ruleset).model_copy(update=others)


class _Evolved(TableContract):
    """A declared contract with other columns. Its rules are the declared ones."""

    origin: TableSpec
    """The declared contract."""

    @classmethod
    def of(cls, declared: TableSpec, columns: Mapping[str, Column] | None = None) -> Self:
        """Return the contract with these columns; without any, with the declared ones."""
        fields = {name: getattr(declared, name) for name in TableSpec.model_fields}
        return cls.model_construct(**{**fields, "origin": declared, "columns": dict(columns or declared.columns)})

    @property
    def declared(self) -> TableSpec:
        """The declared contract."""
        return self.origin


class EffectiveTable(_Evolved):
    """The contract with the columns and types that accepted decisions added: silver's, and the next batch's to match."""


class StagedTable(_Evolved):
    """The contract with all columns that a set of batches would add if accepted. They are staged by it."""
