"""Which columns of a table each audit rule matches, and which columns no rule matches.

Belongs here: names and types → bound checks (pure). Does not: reading packs (audit), or judging anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakehouse_assets.checks.base import Check
from lakehouse_assets.contracts.audit import AuditRule, fits
from lakehouse_assets.contracts.batch import BATCH_COLUMNS


@dataclass(frozen=True)
class Bound:
    """A rule bound to one column, or to all columns of a key. ``id``: its name within the table."""

    rule: AuditRule
    columns: tuple[str, ...]
    check: Check

    @property
    def id(self) -> str:
        """The rule's name and the columns."""
        return f"{self.rule.name}({', '.join(self.columns)})"


@dataclass(frozen=True)
class Binding:
    """``unfit``: ``(rule, column, why)`` if a name matches and its type does not. ``uncovered``: columns of no rule.
    ``lacking``: columns of the key that the table lacks.
    """

    bound: tuple[Bound, ...]
    unfit: tuple[tuple[str, str, str], ...]
    uncovered: tuple[str, ...]
    lacking: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column with a rule, in order."""
        return tuple(dict.fromkeys(name for bound in self.bound for name in bound.columns))


def bind(rules: Sequence[AuditRule], table: str, columns: Mapping[str, str], key: Sequence[str], year: int) -> Binding:
    """Bind rules to a table (`silver/weather`). ``columns``: each leaf's Spark type, by its path. ``year``: of the audit."""
    bound: list[Bound] = []
    unfit: list[tuple[str, str, str]] = []
    lacking = tuple(name for name in key if name not in columns)
    for rule in rules:
        if not rule.of_table(table):
            continue
        if rule.key:
            present = [name for name in key if name in columns]
            groups = [(name,) for name in present]
            if rule.joins_columns:
                groups = [tuple(present)] if present and not lacking else []
        else:
            groups = [(name,) for name in columns if matches(rule, name)]
        for names in groups:
            wrong = [name for name in names if rule.types and kind_of(columns[name]) not in rule.types]
            if wrong:
                unfit.append((rule.name, wrong[0], f"is {columns[wrong[0]]}, not {' or '.join(rule.types)}"))
                continue
            bound.append(Bound(rule, names, rule.bound(names, year)))
    covered = {name for each in bound for name in each.columns}
    # No rule needs to cover the lakehouse's own columns.
    own = {name for name in columns if name in BATCH_COLUMNS or name.startswith("_")}
    uncovered = tuple(name for name in columns if name not in covered | own)
    return Binding(tuple(bound), tuple(unfit), uncovered, lacking)


def matches(rule: AuditRule, column: str) -> bool:
    """Whether a column's name (a path) matches the rule's patterns."""
    return fits(column, rule.columns) and not fits(column, rule.not_columns)


def kind_of(data_type: str) -> str:
    """Return the family of a Spark type: text, number, time, boolean, or the type itself."""
    base = data_type.partition("(")[0]
    if base in ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal"):
        return "number"
    return {"string": "text", "date": "time", "timestamp": "time", "timestamp_ntz": "time"}.get(base, base)
