"""What a table's YAML declares of the Delta table itself: column comments, table properties and CHECK constraints.

Belongs here: their texts, and the changes from what a table has. Does not: which names there are (delta_properties), or making
the changes (storage).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakehouse_assets.checks.sql.text import columns_of, parse_expression
from lakehouse_assets.contracts.table_contract import TableContract

Names = dict[str, str]


def comment_of(description: str | None, unit: str | None) -> str:
    """Return a column's comment; empty for none.

    >>> comment_of("Before taxes.", "EUR"), comment_of(None, "kPa")
    ('Before taxes. [EUR]', '[kPa]')
    """
    return " ".join(part for part in (description, f"[{unit}]" if unit else None) if part)


@dataclass(frozen=True)
class Declarations:
    """By name: column comments, table properties, and constraints as SQL."""

    comments: Names = field(default_factory=dict)
    properties: Names = field(default_factory=dict)
    constraints: Names = field(default_factory=dict)

    def as_dict(self) -> dict[str, Names]:
        """Return it for JSON."""
        return {"comments": self.comments, "properties": self.properties, "constraints": self.constraints}


def declarations_of(spec: TableContract) -> Declarations:
    """Return what a table's contract declares. A constraint's SQL is true for NULL, as checks and standard SQL have it; Delta's
    own is not.
    """
    comments = {name: comment_of(column.description, column.unit) for name, column in spec.published_columns.items()}
    trees = {name: parse_expression(text, name).sql(dialect="spark") for name, text in spec.declared.constraints.items()}
    return Declarations(
        {name: comment for name, comment in comments.items() if comment},
        dict(spec.declared.properties),
        {name: f"coalesce({sql}, TRUE)" for name, sql in trees.items()},
    )


@dataclass(frozen=True)
class DeclarationChange:
    """One change of a table. ``kind``: comment, property or constraint. ``was``, ``becomes``: empty for none."""

    kind: str
    name: str
    was: str
    becomes: str


def changes_between(
    declared: Declarations, recorded: Declarations, actual: Declarations, columns: Mapping[str, str], types: Mapping[str, str]
) -> list[DeclarationChange]:
    """Return the changes that a table needs. ``recorded``: what was declared when it was last changed: only this is removed,
    and only where it is still so; the rest is somebody else's. ``columns``: the table's, with types; ``types``: the contract's.
    What concerns a column that the table does not have as declared waits for it.
    """
    changes = []
    for kind in ("comments", "properties"):
        new, old, current = (getattr(each, kind) for each in (declared, recorded, actual))
        named = [name for name in new if kind == "properties" or name in columns]
        changes += [DeclarationChange(kind, n, current.get(n, ""), new[n]) for n in named if current.get(n) != new[n]]
        # A column that leaves the contract takes its comment along.
        removed = [name for name in old if name not in new and (kind == "properties" or name in types)]
        changes += [DeclarationChange(kind, n, current[n], "") for n in removed if n in current and current[n] == old[n]]
    new, old, current = declared.constraints, recorded.constraints, actual.constraints
    for name, sql in new.items():
        columns_read = columns_of(parse_expression(sql, name))
        is_ready = all(columns.get(column) == types.get(column) for column in columns_read)
        if is_ready and (name not in current or old.get(name) != sql):
            changes.append(DeclarationChange("constraints", name, current.get(name, ""), sql))
    return changes + [
        DeclarationChange("constraints", name, current[name], "") for name in old if name not in new and name in current
    ]
