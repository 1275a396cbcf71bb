"""A table's promise: what its `defs.yaml` says, as frozen values that refuse what they do not know.

Belongs here: the shape of the configuration and what can be judged from it alone. Does not: files, Spark, Dagster.
"""

import hashlib
import json
import re
from datetime import date, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from lakehouse_assets.checks.registry import AnyCheck
from lakehouse_assets.checks.sql_text import columns_of, parse_expression
from lakehouse_assets.contracts.columns import Column
from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.contracts.windows import Cadence, Window, as_utc, calendar, parse_key, window_at

OURS = ("gold_", "ops_")
NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


class Frozen(BaseModel):
    """Base of every promise: immutable, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


def _table_name(name: str) -> str:
    if name.startswith(OURS):
        raise ValueError(f"{name!r}: names that begin with {' or '.join(OURS)} are the lakehouse's own")
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a table name: lower-case letters, digits and _, beginning with a letter, at most 63")
    return name


TableName = Annotated[str, AfterValidator(_table_name)]
Moment = Annotated[
    datetime, BeforeValidator(lambda v: as_utc(v) if isinstance(v, date | datetime) else v), AfterValidator(as_utc)
]


class ExtractionSpec(Frozen):
    """The calendar of windows and what a window means for a key.

    ``append``: each row is its own key. ``upsert``: the newest row of a key wins. ``snapshot``: a window holds every
    living key, so a key that the newest one lacks is gone. ``delete_when`` (upsert): rows that delete their key.
    """

    cadence: Cadence
    start: Moment
    end: Moment | None = None
    mode: Literal["append", "upsert", "snapshot"] = "upsert"
    lookback: int | None = Field(default=None, ge=1, description="heal only this many newest windows; without it, all")
    delete_when: str | None = None

    @model_validator(mode="after")
    def _ordered(self) -> "ExtractionSpec":
        if self.end is not None and self.end <= self.start:
            raise ValueError(f"end: {self.end:%Y-%m-%d} is not after start {self.start:%Y-%m-%d}")
        if self.start.minute or self.start.second or self.start.microsecond:
            raise ValueError("start: not on the hour")
        if self.cadence != "hourly" and self.start.hour:
            raise ValueError(f"start: of a {self.cadence} table it is a midnight (UTC)")
        if self.cadence == "monthly" and self.start.day != 1:
            raise ValueError("start: of a monthly table it is the first of a month")
        if self.delete_when and self.mode != "upsert":
            raise ValueError(f"delete_when: has no meaning in {self.mode} mode; use mode: upsert")
        return self

    def windows(self, now: datetime) -> list[Window]:
        """Every window that has ended by ``now`` (UTC), oldest first."""
        return list(calendar(self.start, min(self.end or now, now), self.cadence))

    @property
    def first(self) -> Window:
        """The oldest window."""
        return window_at(self.start, self.cadence)

    def window(self, key: str) -> Window:
        """The window of a partition key. Raises ValueError for another form of key."""
        return parse_key(key, self.cadence)


class SchemaPolicy(Frozen):
    """What to do with a batch whose columns are not the declared ones."""

    new_columns: Literal["ignore", "quarantine"] = "ignore"
    missing_columns: Literal["keep", "null", "quarantine"] = "keep"


class AlertSpec(Frozen):
    """Who hears of a quarantined window. Slack and webhook entries are names of ``LAKEHOUSE_SECRET_*`` variables."""

    webhooks: tuple[str, ...] = ()
    slack: tuple[str, ...] = ()
    emails: tuple[str, ...] = ()


class GrainSpec(Frozen):
    """By what a gold table is recomputed in parts: a row with a value of ``column`` depends on no other rows of ``inputs``
    than those for which the input's SQL expression has the same value. An input that is not named changes everything.
    """

    column: str
    inputs: dict[str, str] = Field(min_length=1, description="silver_<table>: a SQL expression over its columns")

    @field_validator("inputs")
    @classmethod
    def _expressions(cls, value: dict[str, str]) -> dict[str, str]:
        for name, expr in value.items():
            parse_expression(expr, name)
        return value


class GoldSpec(Frozen):
    """A table derived from silver by one SELECT, which stands in a file beside `defs.yaml`."""

    name: TableName
    sql: str = Field(description="the file's name, beside defs.yaml")
    key: tuple[str, ...] = Field(min_length=1)
    grain: GrainSpec | None = None
    description: str = ""
    units: dict[str, str] = {}
    checks: tuple[AnyCheck, ...] = ()

    @field_validator("sql")
    @classmethod
    def _beside(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9_\-]+\.sql", value):
            raise ValueError(f"{value!r} must be the plain name of a .sql file beside defs.yaml")
        return value

    @model_validator(mode="after")
    def _unique_checks(self) -> "GoldSpec":
        _refuse_twice("checks", [check.id for check in self.checks])
        if self.grain and self.grain.column not in self.key:
            # Otherwise a key could stand in two parts, and each of them be right by itself.
            raise ValueError(f"grain.column: {self.grain.column!r} is no part of the key; there are {', '.join(self.key)}")
        return self


def _refuse_twice(where: str, names: list[str]) -> None:
    seen: set[str] = set()
    for place, name in enumerate(names):
        if name.lower() in seen:
            raise ValueError(f"{where}.{place}: another is called {name!r} too; give one of them a `name:` of its own")
        seen.add(name.lower())


class TableSpec(Frozen):
    """Everything that is promised of one table."""

    name: TableName
    description: str = ""
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = {}
    source: FilesSource
    extraction: ExtractionSpec
    key: tuple[str, ...] = ()
    last_modified: str | None = None
    columns: dict[str, Column] = Field(min_length=1)
    schema_policy: SchemaPolicy = Field(default=SchemaPolicy(), alias="schema")
    checks: tuple[AnyCheck, ...] = ()
    drift: DriftSpec | None = None
    gold: tuple[GoldSpec, ...] = ()
    alerts: AlertSpec = AlertSpec()

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
            if not name or re.search(r"[ ,;{}()\n\t=\0]", name):
                raise ValueError(
                    f"column {name!r}: Delta refuses spaces and any of ,;{{}}()= in a name; use `from:` for the source's"
                )
            if name.startswith("_") or name in {"p_extracted_at", "extraction_seq"}:
                raise ValueError(
                    f"column {name!r}: names that begin with _ , p_extracted_at and extraction_seq are the lakehouse's own"
                )
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
        _refuse_twice("checks", [check.id for check in self.checks])
        _refuse_twice("gold", [gold.name for gold in self.gold])
        for i, feature in enumerate(self.drift.features if self.drift else ()):
            used = columns_of(parse_expression(feature.expr, feature.name, allow_windows=True)) | (
                {feature.by} if feature.by else set()
            )
            if hidden := sorted(used & self.pii_columns):
                raise ValueError(
                    f"drift.features.{i} ({feature.name}): a baseline would keep values of {', '.join(hidden)}, which is pii"
                )
        for what, names in self._references():
            for name in names:
                if name not in self.columns:
                    raise ValueError(f"{what}: no column {name!r} is declared; there are {', '.join(self.columns)}")
        return self

    def _references(self) -> list[tuple[str, list[str]]]:
        found = [("key", list(self.key)), ("last_modified", [self.last_modified] if self.last_modified else [])]
        found += [(f"checks.{i} ({check.id})", list(check.columns_used)) for i, check in enumerate(self.checks)]
        if self.extraction.delete_when:
            found.append(
                ("extraction.delete_when", sorted(columns_of(parse_expression(self.extraction.delete_when, "delete_when"))))
            )
        if self.drift:
            for i, feature in enumerate(self.drift.features):
                used = sorted(columns_of(parse_expression(feature.expr, feature.name, allow_windows=True)))
                found.append((f"drift.features.{i} ({feature.name})", used + ([feature.by] if feature.by else [])))
        return found

    @property
    def pii_columns(self) -> frozenset[str]:
        """Columns whose values are never shown."""
        return frozenset(name for name, column in self.columns.items() if column.pii)

    def source_column(self, name: str) -> str:
        """The source's spelling of a declared column."""
        return self.columns[name].source_name or name

    @property
    def silver_key(self) -> tuple[str, ...]:
        """The columns that identify a silver row: the key, or in append mode the row's place in its window."""
        return self.key or ("p_extracted_at", "_content_hash", "_ordinal")

    @property
    def meaning(self) -> str:
        """A hash of everything by which silver's values follow from bronze and the accepted decisions."""
        columns = {name: column.model_dump(exclude={"unit", "description", "pii"}) for name, column in self.columns.items()}
        given = self.model_dump(mode="json", include={"key", "last_modified"}) | {
            "columns": columns, "source": self.source.model_dump(mode="json", include={"nulls", "timezone"}),
            "extraction": self.extraction.model_dump(mode="json", include={"mode", "delete_when"}),
            "missing": self.schema_policy.missing_columns,
        }  # fmt: skip
        return hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:16]

    def ruleset(self) -> str:
        """What a batch is judged by, as canonical JSON: kept with each decision."""
        return self.model_dump_json(by_alias=True, exclude={"description", "owners", "tags", "alerts", "gold"})

    @property
    def ruleset_hash(self) -> str:
        """The first 16 hex digits of the rule set's SHA-256."""
        return hashlib.sha256(self.ruleset().encode()).hexdigest()[:16]
