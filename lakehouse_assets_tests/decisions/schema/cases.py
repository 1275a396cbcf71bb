"""The matrix of schemas: old type × new type × layer × mode, with what has to come of it, written out by hand.

Belongs here: the cases and their oracle, which shares no code with the project. Does not: asking the project, or Delta.
"""

from dataclasses import dataclass

ATOMS = (
    "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(10,2)", "decimal(12,2)", "decimal(22,4)",
    "date", "timestamp", "timestamp_ntz", "string", "binary", "boolean",
)  # fmt: skip
# Type → those that it reads as without loss.
READS_AS = {
    "tinyint": "smallint int bigint float double decimal(10,2) decimal(12,2) decimal(22,4)",
    "smallint": "int bigint float double decimal(10,2) decimal(12,2) decimal(22,4)",
    "int": "bigint double decimal(12,2) decimal(22,4)",
    "bigint": "",
    "float": "double",
    "decimal(10,2)": "decimal(12,2) decimal(22,4)",
    "decimal(12,2)": "decimal(22,4)",
    "date": "timestamp_ntz",
    "void": " ".join(ATOMS),
}
# Type → those that Delta's type widening makes of it.
WIDENS_TO = {
    "tinyint": "smallint int bigint double decimal(12,2) decimal(22,4)",
    "smallint": "int bigint double decimal(12,2) decimal(22,4)",
    "int": "bigint double decimal(12,2) decimal(22,4)",
    "float": "double",
    "decimal(10,2)": "decimal(12,2) decimal(22,4)",
    "decimal(12,2)": "decimal(22,4)",
    "date": "timestamp_ntz",
}
MODES = ("widen", "cast", "quarantine", "reject")
# A struct's field, an array's element, a map's value: of `{}`.
SHAPES = ("struct<a: {}, b: string>", "array<{}>", "map<string, {}>")
# Deeper still, and only one type within.
DEEP = "array<struct<m: map<string, struct<x: {}>>>>"


@dataclass(frozen=True)
class Case:
    """One change of a column's type, and what has to come of it."""

    old: str
    new: str
    layer: str
    mode: str
    outcome: str


def widens(old: str, new: str) -> bool:
    return new in WIDENS_TO.get(old, "").split()


def expected(old: str, new: str, layer: str, mode: str) -> str:
    """By hand: bronze takes everything; elsewhere what is narrower is read, and the rest is as the mode says."""
    if old == new:
        return "same"
    if layer == "bronze" or old in READS_AS.get(new, "").split() or mode == "cast":
        return "accepted"
    if mode == "widen" and widens(old, new):
        return "widened"
    return "rejected" if mode == "reject" else "quarantined"


def cases() -> list[Case]:
    """All of them: atoms by themselves, and in three nested shapes and a deep one."""
    cases_of_modes = []
    for layer, modes in (("bronze", ("cast",)), ("silver", MODES), ("gold", ("widen", "quarantine", "reject"))):
        for mode in modes:
            for shape in ("{}", *SHAPES, DEEP):
                for old in ATOMS:
                    for new in (*ATOMS, *(("void",) if shape == "{}" else ())):
                        outcome = expected(old, new, layer, mode)
                        cases_of_modes.append(Case(shape.format(old), shape.format(new), layer, mode, outcome))
    return cases_of_modes
