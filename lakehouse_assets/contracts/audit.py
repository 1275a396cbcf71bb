"""Audit packs: rules that are bound to columns by patterns of names, as YAML; and what a table's audit is told beside them.

Belongs here: the shape of a pack, reading it, file and line of a mistake. Does not: which columns a rule finds (audit_binding).
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from lakehouse_assets.checks.base import Check, ColumnCheck
from lakehouse_assets.checks.closed import Closed
from lakehouse_assets.checks.registry import kinds
from lakehouse_assets.contracts.document import Document, read_documents
from lakehouse_assets.contracts.mistakes import reason_of
from lakehouse_assets.contracts.sharing import CHECK
from lakehouse_assets.errors import ConfigError

PACKS = Path(__file__).resolve().parent.parent / "audits"
Kind = Literal["text", "number", "time", "boolean"]
YEARS = {"${this_year}": 0, "${next_year}": 1}


def fits(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name fits one of these patterns; letter case does not count."""
    return any(fnmatchcase(name.lower(), pattern.lower()) for pattern in patterns)


class AuditRule(Closed):
    """One of the Wall's checks, for every column whose name fits a pattern."""

    name: str
    """Of lower-case letters, digits and `_`; no other rule of any pack is called so."""
    columns: tuple[str, ...] = ()
    """Patterns of names (`*`, `?`, `[…]`; letter case does not count). A nested column's name is its path,
    `address.country`."""
    not_columns: tuple[str, ...] = ()
    """Patterns of names that are left out."""
    key: bool = False
    """In the place of `columns`: the table's key, column by column, or together for `unique`."""
    tables: tuple[str, ...] = ("*",)
    """Patterns of tables, as `silver/weather` or `gold/daily_weather`."""
    types: tuple[Kind, ...] = ()
    """Only columns of these types; without it, of any."""
    check: dict[str, Any]
    """A check as a table writes it, without the column: a kind that looks at one column of a row, or `unique`. `${this_year}`
    and `${next_year}` stand for numbers. `threshold` is the share of rows that must pass, 1 without it."""
    allow_unmatched: bool = False
    """Of a critical rule: no column anywhere need fit. Without it, an audit of all tables fails for it."""
    description: str = ""
    """Shown on the rule's page."""

    @field_validator("name")
    @classmethod
    def _plain(cls, value: str) -> str:
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,62}", value):
            raise ValueError(f"{value!r}: lower-case letters, digits and _ only, beginning with a letter")
        return value

    @model_validator(mode="after")
    def _bindable(self) -> "AuditRule":
        if self.key == bool(self.columns):
            raise ValueError("a rule has either columns (patterns) or key: true")
        if given := sorted({"column", "columns", "name", "where", "depends_on", "on_fail"} & set(self.check)):
            raise ValueError(f"check: {', '.join(given)} has no meaning here; the rule says which columns, and nothing is held")
        kind = kinds().get(str(self.check.get("check")))
        if kind and not issubclass(kind, ColumnCheck) and kind is not kinds()["unique"]:
            raise ValueError(f"check: {self.check['check']} is no check of one column; audits bind those, and unique")
        try:
            self.bound(("column",), 2000)
        except ValidationError as error:
            mistake = error.errors(include_url=False)[0]
            raise ValueError(f"check: {'.'.join(map(str, mistake['loc'][1:]))}: {reason_of(mistake)}") from None
        return self

    @property
    def together(self) -> bool:
        """Whether the columns are judged as one: uniqueness of a key."""
        return self.key and self.check.get("check") == "unique"

    @property
    def severity(self) -> str:
        """Of its check; critical unless it says otherwise."""
        return self.check.get("severity", "critical")

    @property
    def threshold(self) -> float:
        """The share of rows that must pass."""
        return self.check.get("threshold") or 1.0

    def bound(self, columns: Sequence[str], year: int) -> Check:
        """The check, of these columns. Raises ValidationError where it is no check of one column."""
        given = {name: year + YEARS[v] if isinstance(v, str) and v in YEARS else v for name, v in self.check.items()}
        where = {"columns": list(columns)} if given.get("check") == "unique" else {"column": columns[0]}
        return CHECK.validate_python({**given, **where})

    def of_table(self, table: str) -> bool:
        """Whether it speaks of a table (`silver/weather`)."""
        return fits(table, self.tables)


class AuditSetting(Closed):
    """What the audits of some tables are told. Of two settings that speak of one table, the later one wins, key by key."""

    tables: tuple[str, ...] = Field(min_length=1)
    """Patterns of tables, as `silver/weather`."""
    rows: int | None = Field(default=None, ge=1)
    """How many rows are sampled; without it `AUDIT_TOTAL_ROWS`."""
    weight: str | None = None
    """A column (or a path) whose rare values must be in the sample too: its groups are drawn half in proportion, half
    evenly."""
    key: tuple[str, ...] | None = None
    """The key of a table that no `defs.yaml` describes."""
    pii: tuple[str, ...] | None = None
    """Patterns of columns whose values are never shown, beside those that `defs.yaml` marks."""


class AuditPack(Closed):
    """A file of `lakehouse_assets/audits/`."""

    description: str = ""
    """What the rules promise together."""
    rules: tuple[AuditRule, ...] = ()
    """The rules."""
    settings: tuple[AuditSetting, ...] = ()
    """What single tables are told."""


@dataclass(frozen=True)
class AuditRules:
    """The rules and settings of all packs, in the order of the files' names. ``places``: file and line of each rule."""

    rules: tuple[AuditRule, ...]
    settings: tuple[AuditSetting, ...] = ()
    places: Mapping[str, str] | None = None

    def setting(self, table: str) -> AuditSetting:
        """What holds for one table."""
        given: dict[str, Any] = {}
        for setting in self.settings:
            if fits(table, setting.tables):
                given |= {name: value for name, value in setting.model_dump().items() if value is not None}
        return AuditSetting.model_validate({**given, "tables": (table,)})

    @property
    def ruleset_hash(self) -> str:
        """The first 16 hex digits of the SHA-256 of the rules; settings and descriptions change no judgement."""
        told = [rule.model_dump(mode="json", exclude={"description"}) for rule in self.rules]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def read_rules(folder: Path = PACKS) -> AuditRules:
    """Every pack of a folder. Raises ConfigError: one line per mistake, each with file, line and key."""
    rules: list[AuditRule] = []
    settings: list[AuditSetting] = []
    places: dict[str, str] = {}
    mistakes: list[str] = []
    for file in sorted(folder.glob("*.yaml")):
        for document in read_documents(file):
            if document.data is None:
                continue
            try:
                pack = AuditPack.model_validate(document.data)
            except ValidationError as error:
                mistakes += _mistakes(document, error)
                continue
            for place, rule in enumerate(pack.rules):
                at = document.at(["rules", place])
                if rule.name in places:
                    mistakes.append(f"{at}: rules.{place}: {rule.name!r} is already a rule in {places[rule.name]}")
                places[rule.name] = at
            rules += pack.rules
            settings += pack.settings
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    if not rules:
        raise ConfigError(f"{folder}: no *.yaml there has a rule; an audit would ask nothing")
    return AuditRules(tuple(rules), tuple(settings), places)


def _mistakes(document: Document, error: ValidationError) -> Iterator[str]:
    for mistake in error.errors(include_url=False):
        keys, text = [*mistake["loc"]], reason_of(mistake)
        named = re.match(r"check: ([a-z_]*): ?", text)
        inner = [*keys, "check", *([named[1]] if named and named[1] else [])]
        at = document.at(inner if text.startswith("check:") else keys)
        yield f"{at}: {'.'.join(map(str, keys))}: {text}"
