"""The base of a table's contracts: its fields, and what follows from them for each of the three contracts.

Belongs here: the fields, and values computed from them. Does not: validating them together, or the three contracts (table).
"""

import hashlib
import json
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, create_model

from lakehouse_assets.checks.drift_rows import DRIFT_ROWS, DriftRows
from lakehouse_assets.checks.parameters import duration
from lakehouse_assets.checks.registry import AnyCheck
from lakehouse_assets.checks.strict_model import StrictModel
from lakehouse_assets.contracts.alert_channel import own_channels
from lakehouse_assets.contracts.asset_prefix import PrefixedContract
from lakehouse_assets.contracts.columns import Column, Columns
from lakehouse_assets.contracts.delta_properties import Constraints, Properties
from lakehouse_assets.contracts.drift import DriftRules, DriftSpec
from lakehouse_assets.contracts.extraction import ExtractionSpec
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.layout import DerivedColumn, LayoutSpec
from lakehouse_assets.contracts.mistakes import TableName
from lakehouse_assets.contracts.source_kinds import AnySource
from lakehouse_assets.contracts.stream_drift import StreamDriftSpec, left_out_of_rules
from lakehouse_assets.contracts.surrogate_key import SurrogateKeySpec


class SchemaPolicy(StrictModel):
    """What to do with a batch whose columns differ from the declared ones ([schema.md](schema.md)).

    A declared column that **no** extraction has ever had is a mistake in the YAML: the window is quarantined, whatever is set
    here. The check's name is `source_columns` (`new_columns` for undeclared ones, `source_types` for types). Names that differ
    from declared ones in letter case only are rejected, whatever is set here (`source_names`).
    """

    new_columns: Literal["evolve", "ignore", "quarantine", "reject"] = "ignore"
    """`evolve`: an undeclared column is added at silver's end. `ignore`: it stays in bronze. `quarantine`: the window is
    quarantined. `reject`: the same, and its materialization fails."""
    missing_columns: Literal["keep", "null", "quarantine", "reject"] = "keep"
    """`keep`: a declared column that the batch lacks keeps the key's last value. `null`: it becomes NULL. `quarantine`: the
    window is quarantined. `reject`: the same, and its materialization fails."""
    type_changes: Literal["widen", "cast", "quarantine", "reject"] = "cast"
    """What to do when the source reports a type (Parquet, JDBC) that does not read as the declared one without loss. `widen`:
    silver takes a wider type that Delta can widen to; any other type quarantines the window. `cast`: values are read as the
    declared type; a value that cannot be cast quarantines its row. `quarantine`: the window is quarantined. `reject`: the
    same, and its materialization fails. A source of text (CSV, JSON, Kafka) reports no types: with `quarantine` and `reject` a
    value that cannot be cast quarantines the whole window."""


class SupersedeSpec(StrictModel):
    """When a later extraction of a window may replace an accepted one, and a snapshot the one before it.

    The check `supersede` quarantines a batch when a key column, or every declared column, is missing, or when none of its rows
    is clean. So it does when the batch has no rows where rows are published, and when more is lost than `max_loss` allows. A
    first delivery is quarantined when it has rows and none is clean, or none of the declared columns. A quarantined row is not
    absent: the published row of its key stays. `supersede: any` accepts every loss, but not that it cannot be counted.
    """

    max_loss: float = Field(default=0.5, ge=0, le=1)
    """The share that may be lost: of the keys that the replaced extraction published; in append mode of its clean rows; in
    snapshot mode of silver's keys, also for new windows."""


class AlertSpec(StrictModel):
    """Who gets alerts about critical failures. These are quarantined windows, rows that a critical check quarantines,
    quarantined gold tables of this table, damaged evidence ([evidence.md](evidence.md)), and a stream that fails. One message
    covers everything since the last one, each decision once; ten are listed, the others counted. An addressee that fails gets
    the message again at the next tick (every 30 seconds), alone: it may arrive twice, but is not lost.
    """

    webhooks: tuple[str, ...] = ()
    """Names of variables without their prefix: `OPS_HOOK` is `LAKEHOUSE_SECRET_OPS_HOOK`, an `http(s)://` address that takes a
    JSON POST. Its query is sent with it; of a name that it has twice, the last value. Apprise's own options (`?verify=no`,
    `?+X-Token=…`) belong to an address with `json://` or `jsons://` in front."""
    slack: tuple[str, ...] = ()
    """The same, each an [Apprise](https://github.com/caronc/apprise) address (`slack://…`)."""
    emails: tuple[str, ...] = ()
    """Addresses. They are reached through `LAKEHOUSE_SECRET_SMTP`, an Apprise `mailto://` (or `mailtos://`) address of your
    mail server."""


OWN_CHANNELS = own_channels(tuple(AlertSpec.model_fields))
if not TYPE_CHECKING and OWN_CHANNELS:
    keys = {key: (tuple[str, ...], Field(default=(), description=each.description)) for key, each in OWN_CHANNELS.items()}
    AlertSpec = create_model("AlertSpec", __base__=AlertSpec, __doc__=AlertSpec.__doc__, **keys)


class MaintenanceSpec(StrictModel):
    """What `maintenance_<table>` does once a week. It removes no row of bronze, silver or gold, and no row that is quarantined
    today."""

    vacuum_days: int = Field(default=30, ge=7, le=36_500)
    """Files that no version of the last this many days needs are deleted. It must be longer than any run, and longer than gold
    may wait before it reads what changed."""
    quarantine_days: int | None = Field(default=None, ge=1, le=36_500)
    """Quarantined rows are deleted this many days after they were closed: released, superseded, or discarded with their whole
    window. Rows that are quarantined today stay. So do discarded rows of a published window. Without it, all rows are kept as
    evidence."""


SETTINGS_OF_VALUES = {"nulls", "timezone", "decimal", "thousands"}


class TableContract(PrefixedContract, DriftRules):
    """The base of a table's three contracts. `TableSpec` is as its YAML declares it, `EffectiveTable` has what accepted
    batches changed, and `StagedTable` has what the batches of a run would change.
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
    group: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$")] | None = None
    """Dagster's group of all the table's assets. By default the table's name."""
    source: AnySource
    """Where the data comes from: files, a database table, or a topic."""
    extraction: ExtractionSpec
    """The windows, and what one means."""
    key: tuple[str, ...] = ()
    """Columns that identify a row. Needed in `upsert` and `snapshot` mode, refused in `append` mode. A row without a whole key
    is quarantined."""
    last_modified: str | None = None
    """The column that orders the rows of a key: the larger value is newer. Without it, the later window wins, then the later
    extraction."""
    columns: Columns = Field(min_length=1)
    """The declared columns: `name: type`, or `name: {type: …, …}`. Undeclared columns stay in bronze."""
    surrogate_key: SurrogateKeySpec | None = None
    """A column of silver with a hash of other columns."""
    layout: LayoutSpec | None = None
    """How silver's files lie. Without it, in one folder."""
    schema_policy: SchemaPolicy = Field(default=SchemaPolicy(), alias="schema")
    """What to do when a batch's columns differ."""
    supersede: SupersedeSpec | Literal["any"] = SupersedeSpec()
    """What a later extraction needs to replace an earlier one; `any` for a source whose redeliveries are always right."""
    checks: tuple[AnyCheck, ...] = ()
    """The rules."""
    drift: DriftSpec | None = None
    """The features whose distribution is compared. Without it there is no drift check and no profile."""
    properties: Properties = {}
    """Delta table properties of silver. Those that the project depends on are refused."""
    constraints: Constraints = {}
    """`name: expression`: CHECK constraints of silver. Each is also the check `constraint_<name>`, which quarantines the rows
    that Delta would refuse, and cannot be overridden. NULL passes."""
    gold: tuple[GoldSpec, ...] = ()
    """Tables derived from silver."""
    alerts: AlertSpec = AlertSpec()
    """Who gets alerts about critical failures."""
    maintenance: MaintenanceSpec = MaintenanceSpec()
    """How long unneeded files and closed quarantine rows are kept."""

    @property
    def declared(self) -> "TableContract":
        """The contract as the YAML declares it."""
        raise NotImplementedError

    @property
    def evolved_columns(self) -> tuple[str, ...]:
        """The undeclared columns, which batches added."""
        declared = self.declared.columns
        return tuple(name for name in self.columns if name not in declared)

    @property
    def pii_columns(self) -> frozenset[str]:
        """Columns whose values are never shown: the marked ones, others from the same column of the source, and a surrogate
        key that is made of one. Whoever guesses a value could confirm the guess by that key.
        """
        read = {name: {source.lower() for source in self.source_columns(name)} for name in self.columns}
        personal = {source for name, column in self.columns.items() if column.pii for source in read[name]}
        names = {name for name in self.columns if personal & read[name]}
        made_of = {name: each.columns_used for name, each in self.derived_columns.items()}
        if self.surrogate_key:
            made_of[self.surrogate_key.name] = frozenset(self.surrogate_key.columns)
        return frozenset({*names, *(name for name, sources in made_of.items() if names & sources)})

    @property
    def derived_columns(self) -> dict[str, DerivedColumn]:
        """Silver's columns that are computed for its layout."""
        return self.layout.derived if self.layout else {}

    @property
    def published_columns(self) -> dict[str, Column]:
        """The columns of silver that others read by name: the declared ones, what batches added, and computed ones."""
        key, personal = self.surrogate_key, self.pii_columns
        surrogate = {} if key is None else {key.name: key.as_column(pii=key.name in personal)}
        derived = {name: each.as_column(pii=name in personal) for name, each in self.derived_columns.items()}
        return {**self.columns, **surrogate, **derived}

    @property
    def computed_columns(self) -> list[str]:
        """Silver's columns that follow from its others once a row is folded: the surrogate key and derived ones."""
        return [*([self.surrogate_key.name] if self.surrogate_key else []), *self.derived_columns]

    def source_column(self, name: str) -> str:
        """Return the source's spelling of a declared column; of several names the newest."""
        return self.source_columns(name)[0]

    def source_columns(self, name: str) -> tuple[str, ...]:
        """Return the source's spellings of a declared column, the newest first: several if the source renamed it."""
        names = self.columns[name].source_name or name
        return (names,) if isinstance(names, str) else names

    @property
    def all_source_columns(self) -> list[str]:
        """Return the source's spellings of all columns, in their order."""
        return [source for name in self.columns for source in self.source_columns(name)]

    @property
    def silver_key(self) -> tuple[str, ...]:
        """The columns that identify a silver row: the key, or in append mode the window, the content hash and an ordinal."""
        return self.key or ("p_extracted_at", "_content_hash", "_ordinal")

    @property
    def settings_of_values(self) -> dict[str, Any]:
        """The settings of the source by which the values of silver follow from bronze."""
        return self.source.model_dump(mode="json", include=SETTINGS_OF_VALUES)

    @property
    def meaning(self) -> str:
        """A hash of every setting by which silver's values follow from bronze and the accepted decisions."""
        own = self.declared.columns
        columns = {name: column.model_dump(exclude={"unit", "description", "pii"}) for name, column in own.items()}
        parts = self.model_dump(mode="json", include={"key", "last_modified"}) | {
            "columns": columns, "source": self.settings_of_values,
            "extraction": self.extraction.model_dump(mode="json", include={"mode", "delete_when"}),
            "missing": self.schema_policy.missing_columns,
        }  # fmt: skip
        if self.source.timezone != "UTC" and any("timestamp" in column.type for column in own.values()):
            parts["zones"] = 2  # earlier releases took the end of a day for a zone
        if self.surrogate_key:
            parts["surrogate_key"] = self.surrogate_key.model_dump(mode="json")
        if self.layout:
            parts["layout"] = self.layout.model_dump(mode="json")
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def drift_in_units(self) -> DriftSpec | None:
        """`drift`, with each feature that is a bare column in that column's unit; a stream's with its rates."""
        drift, stream = super().drift_in_units, self.extraction.stream
        return StreamDriftSpec.of(drift, duration(stream.trigger)) if drift and stream else drift

    def ruleset(self) -> str:
        """Return what a batch is judged by, as canonical JSON; each decision stores it."""
        not_rules = ("description", "owners", "tags", "group", "alerts", "gold", "maintenance", "properties")
        left_out: dict[str, Any] = dict.fromkeys(not_rules, True)
        # Retries, alerts of overdue windows and units in messages change no judgement.
        left_out["extraction"] = {"retries", "overdue_after"}
        left_out["drift"] = {"features": {"__all__": {"unit"}}}
        if self.extraction.stream:
            left_out["drift"] |= left_out_of_rules(self.drift)
        # The rule set of a table without them is what it was before these keys existed.
        left_out |= {name: True for name in ("surrogate_key", "layout") if getattr(self, name) is None}
        if not self.declared.constraints:
            left_out["constraints"] = True
        of_gate = [check for check in self.declared.checks if isinstance(check, DriftRows)]
        declared = tuple(check for check in self.declared.checks if check not in of_gate)
        text = self.declared.model_copy(update={"checks": declared}).model_dump_json(by_alias=True, exclude=left_out)
        return f'{text[:-1]},"{DRIFT_ROWS}":{of_gate[0].model_dump_json()}}}' if of_gate else text
