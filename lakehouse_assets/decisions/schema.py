"""What arrived against what is promised: columns and types, to any depth, and what is done about each difference.

Belongs here: old × new × layer × mode → an outcome. Does not: what a table's evolution adds up to (evolution).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Protocol

from lakehouse_assets.contracts.spark_types import (
    WHOLE,
    Array,
    Atom,
    Decimal,
    Map,
    SparkType,
    Struct,
    joined,
    reads_as,
    sql_type,
    stored,
)

Layer = Literal["bronze", "silver", "gold"]
Outcome = Literal["same", "accepted", "widened", "quarantined", "rejected"]
GRAVITY: tuple[Outcome, ...] = ("same", "accepted", "widened", "quarantined", "rejected")
# What holds a batch.
HOLDING = ("quarantined", "rejected")
# What Delta's type widening does without rewriting a file, decimals apart; a test asks the pinned version.
WIDENS = {
    ("tinyint", "smallint"), ("tinyint", "int"), ("tinyint", "bigint"), ("smallint", "int"), ("smallint", "bigint"),
    ("int", "bigint"), ("tinyint", "double"), ("smallint", "double"), ("int", "double"), ("float", "double"),
    ("date", "timestamp_ntz"),
}  # fmt: skip


class Policy(Protocol):
    """A table's `schema:`."""

    @property
    def new_columns(self) -> str:
        """evolve, ignore, quarantine or reject."""
        ...

    @property
    def missing_columns(self) -> str:
        """keep, null, quarantine or reject."""
        ...

    @property
    def type_changes(self) -> str:
        """widen, cast, quarantine or reject."""
        ...


@dataclass(frozen=True)
class Difference:
    """One line of a diff. ``path``: a column, or what lies within it (`a.b`, `a.element`, `a.key`, `a.value`), in
    bronze's spelling. ``promised`` and ``arrived``: types, empty where there is none. ``used_by``: what reads the column.
    """

    path: str
    promised: str
    arrived: str
    outcome: Outcome
    advice: str
    kind: Literal["new", "missing", "type", "case"]
    column: str
    used_by: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {**asdict(self), "used_by": list(self.used_by)}


@dataclass(frozen=True)
class Comparison:
    """``result``: the columns with what was added and widened, in the order promised, new ones last. None: a type that
    nobody knows, as of a text.
    """

    differences: tuple[Difference, ...]
    result: Mapping[str, SparkType | None]

    @property
    def outcome(self) -> Outcome:
        """The gravest of its differences."""
        found: set[Outcome] = {d.outcome for d in self.differences}
        return max(found, key=GRAVITY.index) if found else GRAVITY[0]


def delta_widens(old: SparkType, new: SparkType) -> bool:
    """Whether Delta changes the one type, without parts, into the other without rewriting a file."""
    if isinstance(new, Decimal):
        if isinstance(old, Decimal):
            return old != new and old.whole <= new.whole and old.scale <= new.scale
        # An integer is widened as if it were of its type's most digits, however few its own type has.
        digits = {"tinyint": 10, "smallint": 10, "int": 10, "bigint": 20}
        return isinstance(old, Atom) and old.name in WHOLE and digits[old.name] <= new.whole
    return isinstance(old, Atom) and isinstance(new, Atom) and (old.name, new.name) in WIDENS


def compare(
    promised: Mapping[str, SparkType | None],
    arrived: Mapping[str, SparkType | None],
    policy: Policy,
    layer: Layer = "silver",
) -> Comparison:
    """Every column that is not the same, with what becomes of it. ``None`` as a type: not known, so that it
    differs from none.
    """
    return _Comparer(policy, layer).columns(promised, arrived)


@dataclass(frozen=True)
class _Comparer:
    policy: Policy
    layer: Layer

    def columns(self, promised: Mapping[str, SparkType | None], arrived: Mapping[str, SparkType | None]) -> Comparison:
        found: list[Difference] = []
        result = self._fields("", promised, arrived, found, None)
        return Comparison(tuple(found), result)

    def _fields(
        self,
        within: str,
        promised: Mapping[str, SparkType | None],
        arrived: Mapping[str, SparkType | None],
        found: list[Difference],
        column: str | None,
    ) -> dict[str, SparkType | None]:
        known = {name.lower(): name for name in promised}
        twins: dict[str, str] = {}
        result = dict(promised)
        for name, kind in arrived.items():
            path, lower = f"{within}{name}", name.lower()
            twin = twins.setdefault(lower, known.get(lower, name))
            if twin != name:
                found.append(_case(path, twin, kind, column or name))
            elif name in promised:
                old = promised[name]
                result[name] = old if old is None or kind is None else self._type(path, old, kind, found, column or name)
            elif kind == Atom("void"):
                # Of what has only been NULL nothing is known yet.
                found.append(Difference(path, "", "void", "accepted", TAKEN["new", "accepted"], "new", column or name))
            else:
                outcome = self._told("new", self.policy.new_columns)
                way = self._advice("new", outcome)
                found.append(Difference(path, "", _text(kind), outcome, way, "new", column or name))
                if self.policy.new_columns == "evolve" and self.layer != "bronze":
                    result[name] = stored(kind) if kind else None
        came = {name.lower() for name in arrived}
        for name, kind in promised.items():
            if name.lower() not in came:
                path, outcome = f"{within}{name}", self._told("missing", self.policy.missing_columns)
                # A struct is one value: what lacks in it is not looked for in earlier ones.
                way = self._advice("missing", outcome) if column is None or outcome != "accepted" else WITHIN
                found.append(Difference(path, _text(kind), "", outcome, way, "missing", column or name))
        return result

    def _type(self, path: str, old: SparkType, new: SparkType, found: list[Difference], column: str) -> SparkType:
        if isinstance(old, Struct) and isinstance(new, Struct):
            fields = self._fields(f"{path}.", dict(old.fields), dict(new.fields), found, column)
            return Struct(tuple((name, kind) for name, kind in fields.items() if kind is not None))
        if isinstance(old, Array) and isinstance(new, Array):
            return Array(self._type(f"{path}.element", old.element, new.element, found, column))
        if isinstance(old, Map) and isinstance(new, Map):
            key = self._type(f"{path}.key", old.key, new.key, found, column)
            return Map(key, self._type(f"{path}.value", old.value, new.value, found, column))
        if old == new:
            return old
        outcome, result = self._leaf(old, new)
        found.append(Difference(path, sql_type(old), sql_type(new), outcome, self._advice("type", outcome), "type", column))
        return result

    def _leaf(self, old: SparkType, new: SparkType) -> tuple[Outcome, SparkType]:
        mode = self.policy.type_changes
        if self.layer == "bronze" or reads_as(new, old) or mode == "cast":
            return "accepted", old
        if mode == "widen" and (delta_widens(old, new) or old == Atom("void")):
            return "widened", new
        return ("rejected" if mode == "reject" else "quarantined"), old

    def _told(self, what: str, mode: str) -> Outcome:
        if self.layer == "bronze" or mode in ("ignore", "keep", "null"):
            return "accepted"
        if what == "new" and mode == "evolve":
            return "widened"
        return "rejected" if mode == "reject" else "quarantined"

    def _advice(self, what: str, outcome: Outcome) -> str:
        if self.layer == "gold" and outcome in HOLDING:
            return f"mend the SQL, or say `schema:` of the gold table ({KEYS[what]})"
        return advice(what, outcome)


KEYS = {"new": "new_columns: evolve", "missing": "missing_columns: null", "type": "type_changes: widen"}
HELD = {
    "new": "declare it under `columns`, or set new_columns: evolve or ignore,",
    "missing": "take it out of `columns`, or set missing_columns: keep or null,",
    "type": "declare the new type, or set type_changes: widen (where it is wider) or cast,",
}
WITHIN = "nothing: it is NULL, since a nested value is taken as a whole"
TAKEN: dict[tuple[str, str], str] = {
    ("new", "accepted"): "nothing: it stays in bronze",
    ("new", "widened"): "nothing: the table takes it, at its end",
    ("missing", "accepted"): "nothing: it keeps its last value, or is NULL",
    ("type", "accepted"): "nothing: it is read as promised; a value that cannot be holds its row",
    ("type", "widened"): "nothing: the table takes the wider type",
}


def advice(what: str, outcome: Outcome) -> str:
    """What a person may do about a new or missing column, or another type (``what``: new, missing, type)."""
    if outcome in HOLDING:
        return f"{HELD[what]} and release, or have the source mended"
    return TAKEN[what, outcome]


def _case(path: str, twin: str, kind: SparkType | None, column: str) -> Difference:
    way = f"it is {twin!r} but for letter case, which Spark cannot tell apart: have one renamed, or say which by `from`"
    return Difference(path, twin, _text(kind), "rejected", way, "case", column)


def _text(kind: SparkType | None) -> str:
    return "untyped" if kind is None else sql_type(kind)


def widest(current: SparkType | None, recorded: SparkType | None) -> SparkType | None:
    """What a column is after a decision that took the one for the other: the wider, and of two that have nothing in common the
    one that was there.
    """
    if current is None or recorded is None:
        return current or recorded
    both = joined(current, recorded)
    if both is None or isinstance(current, Struct | Array | Map) or reads_as(current, both):
        return both or current
    return current


def with_uses(comparison: Comparison, uses: Mapping[str, tuple[str, ...]]) -> Comparison:
    """The comparison, each difference with what reads its column. ``uses``: by the promised or arrived name."""
    told = tuple(replace(d, used_by=tuple(uses.get(d.column, ()))) for d in comparison.differences)
    return replace(comparison, differences=told)
