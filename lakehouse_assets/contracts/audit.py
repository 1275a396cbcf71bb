"""The rules of audits as YAML packs, which bind checks to columns by patterns of names; and the record of one table's audit.

Belongs here: both shapes, reading packs, file and line of a mistake. Does not: which columns a rule matches (audit_binding).
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from lakehouse_assets.checks.base import Check
from lakehouse_assets.checks.families import ColumnCheck
from lakehouse_assets.checks.registry import kinds
from lakehouse_assets.checks.strict_model import StrictModel
from lakehouse_assets.contracts.document import Document, read_documents
from lakehouse_assets.contracts.mistakes import NAME, join_keys, mistakes_in
from lakehouse_assets.contracts.sharing import CHECK
from lakehouse_assets.errors import ConfigError

PACKS = Path(__file__).resolve().parent.parent / "audits"
Kind = Literal["text", "number", "time", "boolean"]
YEARS = {"${this_year}": 0, "${next_year}": 1}


def fits(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name matches one of these patterns; letter case does not count."""
    return any(fnmatchcase(name.lower(), pattern.lower()) for pattern in patterns)


class AuditRule(StrictModel):
    """One check, for every column whose name matches a pattern."""

    name: str
    """Lower-case letters, digits and `_`; unique among the rules of all packs."""
    columns: tuple[str, ...] = ()
    """Patterns of names (`*`, `?`, `[…]`; letter case does not count). A nested column's name is its path,
    `address.country`."""
    not_columns: tuple[str, ...] = ()
    """Patterns of names that are left out."""
    key: bool = False
    """Instead of `columns`: the table's key, column by column, or together for `unique`."""
    tables: tuple[str, ...] = ("*",)
    """Patterns of tables, as `silver/weather` or `gold/daily_weather`."""
    types: tuple[Kind, ...] = ()
    """Only columns of these types; without it, of any."""
    check: dict[str, Any]
    """A check as a table writes it, without the column: a row check of one column, or `unique`. `${this_year}` and
    `${next_year}` are replaced by numbers. `threshold` is the share of rows that must pass; the default is 1."""
    allow_unmatched: bool = False
    """For a critical rule: it may match no column. Without it, an audit of all tables then fails."""
    description: str = ""
    """Shown on the rule's page."""

    @field_validator("name")
    @classmethod
    def _plain(cls, value: str) -> str:
        if not NAME.fullmatch(value):
            raise ValueError(f"{value!r}: lower-case letters, digits and _ only, beginning with a letter")
        return value

    @model_validator(mode="after")
    def _bindable(self) -> "AuditRule":
        if self.key == bool(self.columns):
            raise ValueError("a rule has either columns (patterns) or key: true")
        if own := sorted({"column", "columns", "name", "where", "depends_on", "on_fail"} & set(self.check)):
            raise ValueError(f"check: {', '.join(own)} is not for audits: the rule has the columns, and nothing is quarantined")
        kind = kinds().get(str(self.check.get("check")))
        if kind and not issubclass(kind, ColumnCheck) and kind is not kinds()["unique"]:
            raise ValueError(f"check: {self.check['check']} is no check of one column; audits bind those, and unique")
        try:
            self.bound(("column",), 2000)
        except ValidationError as error:
            keys, text = next(mistakes_in(error))
            raise ValueError(f"check: {join_keys(keys[1:])}: {text}") from None
        return self

    @property
    def joins_columns(self) -> bool:
        """Whether one check has all columns of the key: `unique`."""
        return self.key and self.check.get("check") == "unique"

    @property
    def severity(self) -> str:
        """The severity of its check; `critical` by default."""
        return self.check.get("severity", "critical")

    @property
    def threshold(self) -> float:
        """The share of rows that must pass."""
        return self.check.get("threshold") or 1.0

    def bound(self, columns: Sequence[str], year: int) -> Check:
        """Return the check with these columns. Raises ValidationError if it is no check of one column."""
        keys = {name: year + YEARS[v] if isinstance(v, str) and v in YEARS else v for name, v in self.check.items()}
        bound = {"columns": list(columns)} if keys.get("check") == "unique" else {"column": columns[0]}
        return CHECK.validate_python({**keys, **bound})

    def of_table(self, table: str) -> bool:
        """Whether it applies to a table (`silver/weather`)."""
        return fits(table, self.tables)


class AuditSetting(StrictModel):
    """Settings for the audits of some tables. If two settings match one table, the later one wins, key by key."""

    tables: tuple[str, ...] = Field(min_length=1)
    """Patterns of tables, as `silver/weather`."""
    rows: int | None = Field(default=None, ge=1, le=100_000_000)
    """How many rows are sampled; without it `AUDIT_TOTAL_ROWS`."""
    weight: str | None = None
    """A column (or a path) whose rare values must be in the sample too. Half of the sample is drawn in proportion to its
    groups, half evenly.
    """
    key: tuple[str, ...] | None = None
    """The key of a table that no `defs.yaml` describes."""
    pii: tuple[str, ...] | None = None
    """Patterns of columns whose values are never shown, in addition to those that `defs.yaml` marks."""


class AuditPack(StrictModel):
    """A file of `lakehouse_assets/audits/`."""

    description: str = ""
    """What the rules have in common."""
    rules: tuple[AuditRule, ...] = ()
    """The rules."""
    settings: tuple[AuditSetting, ...] = ()
    """Settings of single tables."""


@dataclass(frozen=True)
class AuditRules:
    """The rules and settings of all packs, in the order of the files' names. ``locations``: file and line of each rule."""

    rules: tuple[AuditRule, ...]
    settings: tuple[AuditSetting, ...] = ()
    locations: Mapping[str, str] = field(default_factory=dict)

    def setting(self, table: str) -> AuditSetting:
        """Return the settings of one table, merged."""
        merged: dict[str, Any] = {}
        for setting in self.settings:
            if fits(table, setting.tables):
                merged |= setting.model_dump(exclude_none=True)
        return AuditSetting.model_validate({**merged, "tables": (table,)})

    @property
    def ruleset_hash(self) -> str:
        """The first 16 hex digits of the SHA-256 of the rules, without settings and descriptions: they change no verdict."""
        rules = [rule.model_dump(mode="json", exclude={"description"}) for rule in self.rules]
        return hashlib.sha256(json.dumps(rules, sort_keys=True).encode()).hexdigest()[:16]


def read_rules(folder: Path = PACKS, own: Path | None = None) -> AuditRules:
    """Return the rules of every pack of a folder, and of the project's ``own`` folder. Raises ConfigError: one line per
    mistake, with file, line and key.
    """
    if own is not None and not own.is_dir():
        raise ConfigError(f"tool.lakehouse.audits: there is no folder {own}")
    packs: list[AuditPack] = []
    locations: dict[str, str] = {}
    mistakes: list[str] = []
    files = [file for each in (folder, own) if each is not None for file in sorted(each.glob("*.yaml"))]
    for document in (each for file in files for each in read_documents(file) if each.data is not None):
        try:
            pack = AuditPack.model_validate(document.data)
        except ValidationError as error:
            mistakes += _lines(document, error)
            continue
        packs.append(pack)
        for index, rule in enumerate(pack.rules):
            at = document.at(["rules", index])
            if rule.name in locations:
                mistakes.append(f"{at}: rules.{index}: {rule.name!r} is already a rule in {locations[rule.name]}")
            locations[rule.name] = at
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    if not locations:
        raise ConfigError(f"{folder}: no *.yaml there has a rule; an audit would check nothing")
    rules, settings = ([each for pack in packs for each in getattr(pack, name)] for name in ("rules", "settings"))
    return AuditRules(tuple(rules), tuple(settings), locations)


def _lines(document: Document, error: ValidationError) -> Iterator[str]:
    for keys, text in mistakes_in(error):
        in_check = re.match(r"check:(?: ([a-z_]*):)?", text)
        at = document.at((*keys, "check", in_check[1] or "") if in_check else keys)
        yield f"{at}: {join_keys(keys)}: {text}"


@dataclass(frozen=True)
class AuditRecord:
    """One table's audit, a row of `ops/audits`. ``path``: the table's folder. ``stage``: silver or gold. ``table``: as
    `silver/weather`. ``version``: None if the table could not be opened. ``results``: every rule's, as JSON-safe mappings.
    ``bindings``: ``[rule, column]`` of every rule that ran. ``weight_column``: None for a uniform sample.
    ``distribution_column``: rows are counted by it. ``duration``: seconds. ``schema``: each column's type, by its path.
    """

    audit_id: str
    run_id: str
    path: str
    stage: str
    table: str
    version: int | None
    as_of: bool
    verdict: str
    total_raw_records: int | None
    total_sampled_records: int | None
    target_rows: int
    weight_column: str | None
    distribution_column: str | None
    raw_data_distribution: Mapping[str, int]
    sample_data_distribution: Mapping[str, int]
    audit_columns: tuple[str, ...]
    seed: int
    confidence: float
    ruleset_hash: str
    started_at: datetime
    duration: float
    error_message: str | None = None
    notes: tuple[str, ...] = ()
    results: tuple[Mapping[str, Any], ...] = ()
    bindings: tuple[tuple[str, str], ...] = ()
    uncovered: tuple[str, ...] = ()
    unfit: tuple[tuple[str, str, str], ...] = ()
    lost: tuple[tuple[str, str], ...] = ()
    schema: Mapping[str, str] = field(default_factory=dict)


def audit_id(run_id: str, path: str) -> str:
    """Return the first 16 hex digits of a hash of the run and the table."""
    return hashlib.sha256(f"{run_id}\n{path}".encode()).hexdigest()[:16]
