"""Arrived against promised columns and types, to any depth, with the outcome of each difference.

Belongs here: old × new × layer × mode → an outcome. Does not: what a table's evolution adds up to (evolution).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from lakehouse_assets.contracts import spark_types as types
from lakehouse_assets.contracts.gold import GoldSchema
from lakehouse_assets.contracts.spark_types import Array, Atom, Decimal, Map, SparkType, Struct, join_types, reads_as, sql_type
from lakehouse_assets.contracts.table_contract import SchemaPolicy

Layer = Literal["bronze", "silver", "gold"]
Outcome = Literal["same", "accepted", "widened", "quarantined", "rejected"]
Kind = Literal["new", "missing", "type", "case"]
QUARANTINING = ("quarantined", "rejected")  # outcomes that quarantine the batch
# The changes that Delta's type widening makes without rewriting a file, decimals apart; a test asks the pinned version.
WIDENS = {
    ("tinyint", "smallint"), ("tinyint", "int"), ("tinyint", "bigint"), ("smallint", "int"), ("smallint", "bigint"),
    ("int", "bigint"), ("tinyint", "double"), ("smallint", "double"), ("int", "double"), ("float", "double"),
    ("date", "timestamp_ntz"),
}  # fmt: skip
Types = Mapping[str, SparkType | None]


@dataclass(frozen=True)
class Difference:
    """One line of a diff. ``path``: a column, or a part of it (`a.b`, `a.element`, `a.key`, `a.value`), in bronze's spelling.
    ``promised`` and ``arrived``: types, empty where there is none. ``used_by``: readers of the column.
    """

    path: str
    promised: str
    arrived: str
    outcome: Outcome
    advice: str
    kind: Kind
    column: str
    used_by: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {**asdict(self), "used_by": list(self.used_by)}


@dataclass(frozen=True)
class Comparison:
    """``result``: the columns with additions and wider types, in the order promised, new ones last. None: an unknown type."""

    differences: tuple[Difference, ...]
    result: Types

    @property
    def outcome(self) -> Outcome:
        """The gravest of its differences."""
        outcomes: list[Outcome] = [d.outcome for d in self.differences]
        return max(["same", *outcomes], key=get_args(Outcome).index)


def delta_widens(old: SparkType, new: SparkType) -> bool:
    """Whether Delta changes the one type, without parts, into the other without rewriting a file."""
    if isinstance(new, Decimal):
        if isinstance(old, Decimal):
            return old != new and old.integer_digits <= new.integer_digits and old.scale <= new.scale
        # An integer is widened as if it were of its type's most digits, however few its own type has.
        digits = {"tinyint": 10, "smallint": 10, "int": 10, "bigint": 20}
        return isinstance(old, Atom) and old.name in types.INTEGER_DIGITS and digits[old.name] <= new.integer_digits
    return isinstance(old, Atom) and isinstance(new, Atom) and (old.name, new.name) in WIDENS


def compare(promised: Types, arrived: Types, policy: SchemaPolicy | GoldSchema, layer: Layer = "silver") -> Comparison:
    """Every column that differs, and the columns that result. ``None`` as a type: not known, so that it differs from none."""
    comparer = _Comparer(policy, layer)
    result = comparer.compare_fields("", promised, arrived, None)
    return Comparison(tuple(comparer.differences), result)


@dataclass(frozen=True)
class _Comparer:
    policy: SchemaPolicy | GoldSchema
    layer: Layer
    differences: list[Difference] = field(default_factory=list)

    def compare_fields(self, within: str, promised: Types, arrived: Types, column: str | None) -> dict[str, SparkType | None]:
        """Return the resulting fields, and add their differences. ``column``: the one that they are in."""
        promised_names = {name.lower(): name for name in promised}
        twins: dict[str, str] = {}
        result = dict(promised)
        for name, kind in arrived.items():
            path, lower, of = f"{within}{name}", name.lower(), column or name
            twin = twins.setdefault(lower, promised_names.get(lower, name))
            if twin != name:
                way = f"it is {twin!r} but for letter case, which Spark cannot tell apart"
                self._add("case", path, twin, _text(kind), "rejected", of, f"{way}: have one renamed, or say which by `from`")
            elif name in promised:
                old = promised[name]
                result[name] = old if old is None or kind is None else self._type(path, old, kind, of)
            elif kind == Atom("void"):
                # Of what has only been NULL nothing is known yet.
                self._add("new", path, "", "void", "accepted", of)
            else:
                self._add("new", path, "", _text(kind), self._outcome("new", self.policy.new_columns), of)
                if self.policy.new_columns == "evolve" and self.layer != "bronze":
                    result[name] = types.stored_type(kind) if kind else None
        arrived_names = {name.lower() for name in arrived}
        for name, kind in promised.items():
            if name.lower() not in arrived_names:
                outcome = self._outcome("missing", self.policy.missing_columns)
                # A struct is one value: earlier batches are not searched for one of its fields.
                way = WITHIN if column is not None and outcome == "accepted" else ""
                self._add("missing", f"{within}{name}", _text(kind), "", outcome, column or name, way)
        return result

    def _add(self, kind: Kind, path: str, promised: str, arrived: str, outcome: Outcome, column: str, way: str = "") -> None:
        if not way and self.layer == "gold" and outcome in QUARANTINING:
            way = f"mend the SQL, or say `schema:` of the gold table ({KEYS[kind]})"
        way = way or advice(kind, outcome)
        self.differences.append(Difference(path, promised, arrived, outcome, way, kind, column))

    def _type(self, path: str, old: SparkType, new: SparkType, column: str) -> SparkType:
        if isinstance(old, Struct) and isinstance(new, Struct):
            fields = self.compare_fields(f"{path}.", dict(old.fields), dict(new.fields), column)
            return Struct(tuple((name, kind) for name, kind in fields.items() if kind is not None))
        if isinstance(old, Array) and isinstance(new, Array):
            return Array(self._type(f"{path}.element", old.element, new.element, column))
        if isinstance(old, Map) and isinstance(new, Map):
            key = self._type(f"{path}.key", old.key, new.key, column)
            return Map(key, self._type(f"{path}.value", old.value, new.value, column))
        if old == new:
            return old
        outcome, result = self._leaf(old, new)
        self._add("type", path, sql_type(old), sql_type(new), outcome, column)
        return result

    def _leaf(self, old: SparkType, new: SparkType) -> tuple[Outcome, SparkType]:
        mode = self.policy.type_changes
        if self.layer == "bronze" or reads_as(new, old) or mode == "cast":
            return "accepted", old
        if mode == "widen" and (delta_widens(old, new) or old == Atom("void")):
            return "widened", new
        return ("rejected" if mode == "reject" else "quarantined"), old

    def _outcome(self, what: str, mode: str) -> Outcome:
        if self.layer == "bronze" or mode in ("ignore", "keep", "null"):
            return "accepted"
        if what == "new" and mode == "evolve":
            return "widened"
        return "rejected" if mode == "reject" else "quarantined"


KEYS = {"new": "new_columns: evolve", "missing": "missing_columns: null", "type": "type_changes: widen"}
QUARANTINE_ADVICE = {
    "new": "declare it under `columns`, or set new_columns: evolve or ignore,",
    "missing": "take it out of `columns`, or set missing_columns: keep or null,",
    "type": "declare the new type, or set type_changes: widen (where it is wider) or cast,",
}
WITHIN = "nothing: it is NULL, since a nested value is taken as a whole"
ACCEPT_ADVICE: dict[tuple[str, str], str] = {
    ("new", "accepted"): "nothing: it stays in bronze",
    ("new", "widened"): "nothing: the table takes it, at its end",
    ("missing", "accepted"): "nothing: it keeps its last value, or is NULL",
    ("type", "accepted"): "nothing: it is read as promised; a value that cannot be holds its row",
    ("type", "widened"): "nothing: the table takes the wider type",
}


def advice(what: str, outcome: Outcome) -> str:
    """What a person may do about a new or missing column, or another type (``what``: new, missing, type)."""
    return (
        f"{QUARANTINE_ADVICE[what]} and release, or have the source mended"
        if outcome in QUARANTINING
        else ACCEPT_ADVICE[what, outcome]
    )


def _text(kind: SparkType | None) -> str:
    return "untyped" if kind is None else sql_type(kind)


def widest(current: SparkType | None, recorded: SparkType | None) -> SparkType | None:
    """The type of a column after a decision that recorded another: the wider one; of two with nothing in common the current."""
    if current is None or recorded is None:
        return current or recorded
    both = join_types(current, recorded)
    if both is None or isinstance(current, Struct | Array | Map) or reads_as(current, both):
        return both or current
    return current


def with_uses(comparison: Comparison, uses: Mapping[str, tuple[str, ...]]) -> Comparison:
    """The comparison, each difference with the readers of its column. ``uses``: by the promised or arrived name."""
    differences = tuple(replace(d, used_by=tuple(uses.get(d.column, ()))) for d in comparison.differences)
    return replace(comparison, differences=differences)
