"""A table's promise: what its `defs.yaml` says, as frozen values that refuse what they do not know.

Belongs here: the shape of the configuration and what can be judged from it alone. Does not: files, Spark, Dagster.
"""

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, field_validator, model_validator

from lakehouse_assets.checks.closed import Closed
from lakehouse_assets.checks.history import HistoryCheck
from lakehouse_assets.checks.kinds.control import ControlTotal
from lakehouse_assets.checks.registry import AnyCheck
from lakehouse_assets.checks.sql_text import columns_of, parse_expression
from lakehouse_assets.contracts.columns import Column, unfit_name
from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.contracts.extraction import ExtractionSpec
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.jdbc_source import JdbcSource
from lakehouse_assets.contracts.kafka_source import KafkaSource
from lakehouse_assets.contracts.maintenance import MaintenanceSpec
from lakehouse_assets.contracts.mistakes import TableName, refuse_dependencies, refuse_twice
from lakehouse_assets.contracts.source import KEPT, FilesSource

# Seasons that are the same in every window of a cadence, or different by accident.
SEASONS = {"hour": ("daily", "weekly", "monthly"), "weekday": ("weekly", "monthly")}


AnySource = Annotated[FilesSource | JdbcSource | KafkaSource, Field(discriminator="kind")]


class SchemaPolicy(Closed):
    """What to do with a batch whose columns are not the declared ones ([schema.md](schema.md)).

    A declared column that **no** extraction has ever had is a mistake in the YAML: the window is held whatever is set here.
    The check's name is `source_columns` (`new_columns` for undeclared ones, `source_types` for types). Names that differ from
    declared ones in letter case only are rejected, whatever is set here (`source_names`).
    """

    new_columns: Literal["evolve", "ignore", "quarantine", "reject"] = "ignore"
    """`evolve`: an undeclared column is added at silver's end. `ignore`: it stays in bronze. `quarantine`: the window is held.
    `reject`: it is held, and its materialization fails."""
    missing_columns: Literal["keep", "null", "quarantine", "reject"] = "keep"
    """`keep`: a declared column that the batch lacks keeps the key's last value. `null`: it becomes NULL. `quarantine`: the
    window is held. `reject`: it is held, and its materialization fails."""
    type_changes: Literal["widen", "cast", "quarantine", "reject"] = "cast"
    """What a source says its types are (Parquet, JDBC), where values would not read without loss. `widen`: silver takes a wider
    type that Delta can widen to; any other holds the window. `cast`: values are read as the declared type; one that cannot be
    holds its row. `quarantine`: the window is held. `reject`: it is held, and its materialization fails. A source of text
    (CSV, JSON, Kafka) says no types: with `quarantine` and `reject` a value that cannot be cast holds the whole window."""


class AlertSpec(Closed):
    """Who hears of critical failures: a window that is quarantined, rows that a critical check holds, a gold table of this one
    that is held. One message tells of all that came since the last one, each decision once; ten are listed, the others counted.
    Who does not take it gets it again at the next look (every 30 seconds), alone: it may arrive twice, but is not lost.
    """

    webhooks: tuple[str, ...] = ()
    """Names of variables without their prefix: `OPS_HOOK` is `LAKEHOUSE_SECRET_OPS_HOOK`, an `http(s)://` address that takes a
    JSON POST."""
    slack: tuple[str, ...] = ()
    """The same, each an [Apprise](https://github.com/caronc/apprise) address (`slack://…`)."""
    emails: tuple[str, ...] = ()
    """Addresses. They are reached through `LAKEHOUSE_SECRET_SMTP`, an Apprise `mailto://` (or `mailtos://`) address of your
    mail server."""


class TableSpec(Closed):
    """Everything that is promised of one table.

    Description, owners, tags, alerts, gold and maintenance are not part of the *rule set*: changing them does not change its
    hash.
    """

    name: TableName
    """The assets are called `source_<name>`, `bronze_<name>`, … Lower-case letters, digits and `_`, beginning with a letter, at
    most 63."""
    description: str = ""
    """Shown in the UI."""
    owners: tuple[str, ...] = ()
    """Dagster owners: `team:<name>` or e-mail addresses."""
    tags: dict[str, str] = {}
    """Dagster tags of all the table's assets."""
    source: AnySource
    """Where the data comes from: files, a database table, or a topic."""
    extraction: ExtractionSpec
    """The windows, and what one means."""
    key: tuple[str, ...] = ()
    """Columns that identify a row. Needed in `upsert` and `snapshot` mode, refused in `append` mode. A row without a
    whole key is held."""
    last_modified: str | None = None
    """The column that says which of two rows of a key is newer. Without it, the later window wins, then the later
    extraction."""
    columns: dict[str, Column] = Field(min_length=1)
    """The declared columns: `name: type`, or `name: {type: …, …}`. Columns that are not declared stay in bronze."""
    schema_policy: SchemaPolicy = Field(default=SchemaPolicy(), alias="schema")
    """What to do when a batch's columns are others."""
    checks: tuple[AnyCheck, ...] = ()
    """The rules."""
    drift: DriftSpec | None = None
    """The features whose distribution is watched. Without it there is no drift check and no profile."""
    gold: tuple[GoldSpec, ...] = ()
    """Tables derived from silver."""
    alerts: AlertSpec = AlertSpec()
    """Who hears of critical failures."""
    maintenance: MaintenanceSpec = MaintenanceSpec()
    """How long what nobody needs any more is kept."""

    _declared: "TableSpec | None" = PrivateAttr(default=None)

    @field_validator("columns", mode="before")
    @classmethod
    def _types_in_short(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: {"type": column} if isinstance(column, str) else column for name, column in value.items()}
        return value

    @field_validator("columns")
    @classmethod
    def _column_names(cls, value: dict[str, Column]) -> dict[str, Column]:
        seen: set[str] = set()
        for name in value:
            if why := unfit_name(name):
                raise ValueError(f"column {name!r}: {why}; use `from:` for the source's")
            if name.lower() in seen:
                raise ValueError(f"{name}: another column has this name in other letter case, which Spark cannot tell apart")
            seen.add(name.lower())
        return value

    @model_validator(mode="after")
    def _whole(self) -> "TableSpec":
        if self.extraction.mode != "append" and not self.key:
            raise ValueError(f"extraction.mode: key is needed in {self.extraction.mode} mode")
        if self.extraction.mode == "append" and self.key:
            raise ValueError("key: has no meaning in append mode, where each row is its own; remove it or use mode: upsert")
        self.source.check_cadence(self.extraction.cadence)
        self.source.check_mode(self.extraction.mode, self.extraction.delete_when)
        refuse_twice("checks", [check.id for check in self.checks])
        refuse_dependencies(self.checks, self.key)
        refuse_twice("gold", [gold.name for gold in self.gold])
        self._refuse_checks()
        for i, feature in enumerate(self.drift.features if self.drift else ()):
            if hidden := sorted(feature.columns_used & self.pii_columns):
                raise ValueError(
                    f"drift.features.{i} ({feature.name}): a baseline would keep values of {', '.join(hidden)}, which is pii"
                )
        self._refuse_nested_keys()
        for what, names in self._references():
            for name in names:
                if name not in self.columns:
                    raise ValueError(f"{what}: no column {name!r} is declared; there are {', '.join(self.columns)}")
        types = {name: column.type for name, column in self.columns.items()}
        for i, check in enumerate(self.checks):
            if why := check.unfit(types):
                raise ValueError(f"checks.{i} ({check.id}): {why}")
        return self

    def _refuse_checks(self) -> None:
        for i, check in enumerate(self.checks):
            if isinstance(check, HistoryCheck) and self.extraction.cadence in SEASONS.get(check.season or "", ()):
                text = f"season: {check.season} says nothing in a {self.extraction.cadence} table"
                raise ValueError(f"checks.{i} ({check.id}): {text}")
            if isinstance(check, HistoryCheck) and (hidden := sorted(set(check.columns_used) & self.pii_columns)):
                text = f"its figures are kept for later windows, and {', '.join(hidden)} is pii"
                raise ValueError(f"checks.{i} ({check.id}): {text}")
            if isinstance(check, ControlTotal):
                self._refuse_unknown_total(f"checks.{i} ({check.id})", check.figure)

    def _refuse_unknown_total(self, where: str, figure: str) -> None:
        control = getattr(self.source, "control", None)
        if control is None:
            raise ValueError(f"{where}: the source says no figures; declare source.control (files and jdbc have it)")
        if isinstance(control, dict) and figure not in control:
            raise ValueError(f"{where}: source.control has no {figure!r}; there are {', '.join(control)}")

    def _refuse_nested_keys(self) -> None:
        for what, names in (("key", self.key), ("last_modified", (self.last_modified,) if self.last_modified else ())):
            for name in names:
                if name in self.columns and self.columns[name].nested:
                    raise ValueError(f"{what}: {name} is {self.columns[name].type}, which has no order; use a plain column")

    def _references(self) -> list[tuple[str, list[str]]]:
        found = [("key", list(self.key)), ("last_modified", [self.last_modified] if self.last_modified else [])]
        found += [(f"checks.{i} ({check.id})", check.unknown_columns(self.columns)) for i, check in enumerate(self.checks)]
        if self.extraction.delete_when:
            found.append(
                ("extraction.delete_when", sorted(columns_of(parse_expression(self.extraction.delete_when, "delete_when"))))
            )
        if self.drift:
            for i, feature in enumerate(self.drift.features):
                found.append((f"drift.features.{i} ({feature.name})", sorted(feature.columns_used)))
        return found

    @property
    def pii_columns(self) -> frozenset[str]:
        """Columns whose values are never shown: those that are marked, and others that are made of the same column of the
        source.
        """
        personal = {self.source_column(name).lower() for name, column in self.columns.items() if column.pii}
        return frozenset(name for name in self.columns if personal and self.source_column(name).lower() in personal)

    @property
    def declared(self) -> "TableSpec":
        """What the YAML says, without what batches have added to it."""
        return self._declared or self

    @property
    def evolved_columns(self) -> tuple[str, ...]:
        """Columns that nobody declared, and that accepted batches added."""
        declared = self.declared.columns
        return tuple(name for name in self.columns if name not in declared)

    def with_columns(self, columns: dict[str, Column]) -> "TableSpec":
        """The contract as it stands after batches have changed it. Its rules are still those that were declared."""
        made = self.model_copy(update={"columns": columns})
        made._declared = self.declared
        return made

    def source_column(self, name: str) -> str:
        """The source's spelling of a declared column."""
        return self.columns[name].source_name or name

    @property
    def silver_key(self) -> tuple[str, ...]:
        """The columns that identify a silver row: the key, or in append mode the row's place in its window."""
        return self.key or ("p_extracted_at", "_content_hash", "_ordinal")

    @property
    def drift_in_units(self) -> DriftSpec | None:
        """`drift`, the features that are a bare column with that column's unit."""
        if self.drift is None:
            return None
        bare = {f.name: self.columns[f.expr].unit for f in self.drift.features if f.unit is None and f.expr in self.columns}
        told = [f.model_copy(update={"unit": bare[f.name]}) if f.name in bare else f for f in self.drift.features]
        return self.drift.model_copy(update={"features": tuple(told)})

    @property
    def meaning(self) -> str:
        """A hash of everything by which silver's values follow from bronze and the accepted decisions."""
        own = self.declared.columns
        columns = {name: column.model_dump(exclude={"unit", "description", "pii"}) for name, column in own.items()}
        given = self.model_dump(mode="json", include={"key", "last_modified"}) | {
            "columns": columns, "source": self.source.model_dump(mode="json", include={"nulls", "timezone"}),
            "extraction": self.extraction.model_dump(mode="json", include={"mode", "delete_when"}),
            "missing": self.schema_policy.missing_columns,
        }  # fmt: skip
        return hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:16]

    def ruleset(self) -> str:
        """What a batch is judged by, as canonical JSON: kept with each decision."""
        left_out: dict[str, Any] = dict.fromkeys(("description", "owners", "tags", "alerts", "gold", "maintenance"), True)
        # When a failed window is tried again or missed changes no judgement, nor does the unit in which a value is told.
        left_out["extraction"] = {"retries", "overdue_after"}
        left_out["drift"] = {"features": {"__all__": {"unit"}}}
        return self.declared.model_dump_json(by_alias=True, exclude=left_out)

    @classmethod
    def kept(cls, ruleset: str) -> "TableSpec":
        """The contract that `ruleset` wrote."""
        return cls.model_validate_json(ruleset, context={KEPT: True})

    @property
    def ruleset_hash(self) -> str:
        """The first 16 hex digits of the rule set's SHA-256."""
        return hashlib.sha256(self.ruleset().encode()).hexdigest()[:16]
