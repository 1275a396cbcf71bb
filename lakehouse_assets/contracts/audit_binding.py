"""Which columns of a table each audit rule finds, and which columns none of them does.

Belongs here: names and types → bound checks (pure). Does not: reading packs (audit), or judging anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakehouse_assets.checks.base import Check
from lakehouse_assets.contracts.audit import AuditRule, fits

# Columns that the lakehouse itself adds: nobody's rules need cover them.
OURS = ("p_extracted_at", "extraction_seq")


@dataclass(frozen=True)
class Bound:
    """A rule at one column (or at a key's columns together). ``id``: what it is called within its table."""

    rule: AuditRule
    columns: tuple[str, ...]
    check: Check

    @property
    def id(self) -> str:
        """The rule's name and the columns."""
        return f"{self.rule.name}({', '.join(self.columns)})"


@dataclass(frozen=True)
class Binding:
    """``unfit``: ``(rule, column, why)`` where a name fits and its type does not. ``uncovered``: columns of no rule.
    ``lacking``: columns that are said to be the key and are not there.
    """

    bound: tuple[Bound, ...]
    unfit: tuple[tuple[str, str, str], ...]
    uncovered: tuple[str, ...]
    lacking: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that a rule looks at, in order."""
        return tuple(dict.fromkeys(name for bound in self.bound for name in bound.columns))


def bind(rules: Sequence[AuditRule], table: str, columns: Mapping[str, str], key: Sequence[str], year: int) -> Binding:
    """``columns``: every leaf by its path, with its Spark type. ``table``: as `silver/weather`. ``year``: of the audit."""
    bound: list[Bound] = []
    unfit: list[tuple[str, str, str]] = []
    lacking = tuple(name for name in key if name not in columns)
    for rule in rules:
        if not rule.of_table(table):
            continue
        if rule.key:
            known = [name for name in key if name in columns]
            groups = [tuple(known)] if rule.together else [(name,) for name in known]
            if rule.together and lacking:
                continue
        else:
            groups = [(name,) for name in columns if matches(rule, name)]
        for names in groups:
            if not names:
                continue
            wrong = [name for name in names if rule.types and kind_of(columns[name]) not in rule.types]
            if wrong:
                unfit.append((rule.name, wrong[0], f"is {columns[wrong[0]]}, not {' or '.join(rule.types)}"))
                continue
            bound.append(Bound(rule, names, rule.bound(names, year)))
    covered = {name for each in bound for name in each.columns}
    uncovered = tuple(name for name in columns if name not in covered and name not in OURS and not name.startswith("_"))
    return Binding(tuple(bound), tuple(unfit), uncovered, lacking)


def matches(rule: AuditRule, column: str) -> bool:
    """Whether a column's name (a path) fits the rule's patterns."""
    return fits(column, rule.columns) and not fits(column, rule.not_columns)


def kind_of(data_type: str) -> str:
    """The family of a Spark type: text, number, time, boolean, or the type itself."""
    base = data_type.partition("(")[0]
    if base in ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal"):
        return "number"
    return {"string": "text", "date": "time", "timestamp": "time", "timestamp_ntz": "time"}.get(base, base)
