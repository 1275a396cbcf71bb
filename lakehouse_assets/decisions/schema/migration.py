"""The plan that brings a table to its contract: steps, each with its cost and whether there is a way back.

Belongs here: two lists of columns → steps. Does not: carrying them out (operations), or comparing a batch (comparison).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lakehouse_assets.contracts.declarations import DeclarationChange
from lakehouse_assets.contracts.spark_types import join_types, parse_type
from lakehouse_assets.decisions.schema.comparison import delta_widens

Columns = Sequence[tuple[str, str]]
LOSSES = "bronze has no value, since no source ever brought it: its values are lost; copy them elsewhere first"
ANOTHER_CONTRACT = (
    "the table was made by another contract (other columns, keys, casts, nulls or derived columns): values are made anew from "
    "bronze"
)
ORDER = ("rename", "drop", "widen", "rewrite", "add", "lay out")


@dataclass(frozen=True)
class Step:
    """One change of a table. ``was``, ``becomes``: types; of a rename the names; of a declaration its texts. ``rewrites``: data
    files.
    """

    action: Literal["add", "widen", "rename", "drop", "rewrite", "lay out", "declare"]
    column: str
    was: str
    becomes: str
    rewrites: bool
    reversible: bool
    why: str

    def as_row(self) -> dict[str, Any]:
        """For a listing."""
        return {
            "step": self.action, "column": self.column, "was": self.was, "becomes": self.becomes,
            "rewrites data": "yes" if self.rewrites else "no", "reversible": "yes" if self.reversible else "no",
            "because": self.why,
        }  # fmt: skip


def migration(
    table: Columns,
    promised: Columns,
    renames: Mapping[str, str],
    filled: Collection[str],
    *,
    foreign: Collection[str] = (),
    same_values: bool = True,
    layout: tuple[str, str] = ("", ""),
    unread: Mapping[str, str] | None = None,
) -> list[Step]:
    """The steps from the table's columns to the promised ones. ``renames``: old name → new. ``filled``: promised columns of
    which bronze has values. ``foreign``: the table's columns of which it has none. ``same_values``: the table was made by the
    contract of today; also another column makes it another contract. ``layout``: how its files lie, and how they should, as
    text. ``unread``: columns with values that the contract no longer reads, and why; `*`: numbers that it reads otherwise.
    Raises ValueError for an impossible rename.
    """
    has, wants = dict(table), dict(promised)
    steps = [_rename(old, new, has, wants, foreign) for old, new in renames.items()]
    was_called = {new: old for old, new in renames.items()}
    if len(was_called) < len(renames):
        raise ValueError(f"two of --rename {', '.join(f'{o}={n}' for o, n in renames.items())} make the same column")
    for name, kind in has.items():
        if name not in wants and name not in renames:
            why = LOSSES if name in foreign else "declared again, it is filled from bronze"
            steps.append(Step("drop", name, kind, "", True, name not in foreign, why))
    for name, kind in wants.items():
        old = has.get(was_called.get(name, name))
        if old is None:
            at_end = list(wants)[-1] == name or not set(list(wants)[list(wants).index(name) :]) & set(has)
            fills = name in filled or not at_end
            why = "its values come from bronze" if name in filled else "no accepted batch has it yet: NULL"
            steps.append(Step("add", name, "", kind, fills, True, why))
        elif old != kind:
            steps.append(_retyped(name, old, kind))
    was, becomes = layout
    if was != becomes:
        steps.append(Step("lay out", "*", was, becomes, True, True, "the files are written anew from bronze; no value changes"))
    unread = dict(unread or {})
    if not same_values:
        marks = unread.pop("*", "")
        why = f"{ANOTHER_CONTRACT}; {marks}" if marks else ANOTHER_CONTRACT
        steps.append(Step("rewrite", "*", "", "", True, True, why))
    elif not steps and [name for name, _ in table] != [name for name, _ in promised]:
        steps.append(Step("rewrite", "*", "", "", True, True, "the columns stand in another order"))
    for name, why in unread.items():
        steps.append(Step("rewrite", name, wants.get(name, ""), wants.get(name, ""), True, True, why))
    return sorted(steps, key=lambda step: ORDER.index(step.action))


def declaration_steps(changes: Sequence[DeclarationChange]) -> list[Step]:
    """Return the steps to what the contract declares of the Delta table: they touch no row."""
    return [
        Step("declare", f"{change.kind}.{change.name}", change.was, change.becomes, False, True, "the YAML has changed")
        for change in changes
    ]


def irreversible(steps: Sequence[Step]) -> list[str]:
    """Return the columns whose values would be lost."""
    return [step.column for step in steps if not step.reversible]


def _rename(old: str, new: str, has: Mapping[str, str], wants: Mapping[str, str], foreign: Collection[str]) -> Step:
    if old not in has:
        raise ValueError(f"--rename {old}={new}: the table has no column {old!r}; it has {', '.join(has)}")
    if new not in wants or new in has:
        raise ValueError(f"--rename {old}={new}: {new!r} has to be declared, and not be in the table yet")
    if old in wants:
        raise ValueError(f"--rename {old}={new}: {old!r} is still declared; a column that stays is not renamed")
    if old in foreign:
        return Step("rename", old, old, new, True, False, f"{new} is filled from bronze; of {old}, {LOSSES}")
    why = "rewritten: with Delta's column mapping, readers without Spark would see NULL in its place"
    return Step("rename", old, old, new, True, True, why)


def _retyped(name: str, old: str, new: str) -> Step:
    was, becomes = parse_type(old), parse_type(new)
    if delta_widens(was, becomes) or join_types(was, becomes) == becomes:
        why = "rewritten: with Delta's type widening, readers without Spark could not open the table"
        return Step("widen", name, old, new, True, True, why)
    why = f"a value that is no {new} becomes NULL; judge its window again (`lakehouse run --rejudge`) to hold its row"
    return Step("rewrite", name, old, new, True, True, why)
