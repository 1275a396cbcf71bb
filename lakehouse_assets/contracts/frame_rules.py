"""The rules of a data frame: what makes sense of a table's YAML where there is no source, no window and no lake.

Belongs here: the shape, its validation, and a table's rules as a frame's. Does not: reading a file (frame_document), or Spark.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from typing import Any, Self

from pydantic import model_validator

from lakehouse_assets.checks.base import Check
from lakehouse_assets.checks.dependencies import in_order
from lakehouse_assets.checks.families import HistoryCheck
from lakehouse_assets.checks.kinds.control import ControlTotal
from lakehouse_assets.checks.kinds.reconciliation import Reconcile
from lakehouse_assets.checks.registry import AnyCheck
from lakehouse_assets.checks.strict_model import StrictModel
from lakehouse_assets.contracts.batch import BATCH_COLUMNS
from lakehouse_assets.contracts.columns import Columns
from lakehouse_assets.contracts.drift import DriftRules, DriftSpec
from lakehouse_assets.contracts.mistakes import Keys, TableName, dependency_reasons, reasons_of, refuse_all, refuse_duplicates
from lakehouse_assets.contracts.spark_types import parse_type, reads_as
from lakehouse_assets.contracts.stream_drift import refuse_keys, without_rates
from lakehouse_assets.contracts.table import SEASONS, TableSpec
from lakehouse_assets.contracts.windows import Cadence

NO_SOURCE = "a frame has no source that could say its figures"


class FrameRules(StrictModel, DriftRules):
    """The rules that `Gate` judges a frame by: the keys that a table has too, with the same meaning."""

    name: TableName = "frame"
    """The name in the log, in markdown and in commits."""
    description: str = ""
    """For people."""
    key: tuple[str, ...] = ()
    """Columns that identify a row. A row without a whole key is quarantined; of the rows of a key the newest one is published.
    `mode="merge"` needs it."""
    last_modified: str | None = None
    """The column that orders the rows of a key: the larger value is newer."""
    cadence: Cadence | None = None
    """The length of a window, for checks that read the end of the window. Without it a window is a moment."""
    columns: Columns = {}
    """Columns that the frame must have, with their types. Others may be there, and checks may name them. The frame is typed:
    `from`, `expr` and `format` have no effect."""
    checks: tuple[AnyCheck, ...] = ()
    """The rules."""
    drift: DriftSpec | None = None
    """The features whose distribution is compared with a baseline."""

    @model_validator(mode="after")
    def _consistent(self) -> "FrameRules":
        refuse_all(type(self).__name__, self._reasons())
        return self

    def _reasons(self) -> Iterator[str]:
        """Yield each mistake between keys."""
        doubled = [*reasons_of(lambda: refuse_duplicates("checks", [check.id for check in self.checks]))]
        yield from doubled or dependency_reasons(self.checks, self.key)
        types = {name: column.type for name, column in self.columns.items()}
        for index, check in enumerate(self.checks):
            if why := self._unfit_reason(check) or check.unfit_reason(types):
                yield f"checks.{index} ({check.id}): {why}"
        yield from reasons_of(self.refuse_personal_features)
        if self.drift:
            yield from reasons_of(partial(refuse_keys, self.drift, is_stream=False))
            if self.drift.divides:
                yield "drift.on_drift: quarantine_rows applies to tables only: a frame or version is judged whole"

    def _unfit_reason(self, check: Check) -> str:
        if isinstance(check, ControlTotal):
            return NO_SOURCE
        if isinstance(check, Reconcile) and check.parameters and self.cadence is None:
            return "it compares windows; declare `cadence:`, the length of one"
        if isinstance(check, HistoryCheck):
            if check.season and self.cadence in (None, *SEASONS.get(check.season, ())):
                return f"season: {check.season} says nothing without a `cadence:` that has such seasons"
            if personal := sorted(set(check.columns_used) & self.pii_columns):
                return f"its figures are stored for later windows, and {', '.join(personal)} is pii"
        return ""

    @cached_property
    def pii_columns(self) -> frozenset[str]:  # type: ignore[override] (a property of each other kind of rules)
        """Columns whose values are never shown, in each spelling that the rules have: Spark ignores letter case."""
        personal = {name.lower() for name, column in self.columns.items() if column.pii}
        if not personal:
            return frozenset()
        used = chain.from_iterable(each.columns_used for each in (*self.checks, *self.features))
        return frozenset(name for name in (*self.columns, *self.key, *used) if name.lower() in personal)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy, with personal columns of its own: pydantic would copy those of the former rules."""
        copied = super().model_copy(update=update, deep=deep)
        vars(copied).pop("pii_columns", None)
        return copied

    def ruleset(self) -> str:
        """Return what a frame is judged by, as canonical JSON; each decision stores it."""
        left_out: dict[str, Any] = {"description": True, "drift": {"features": {"__all__": {"unit"}}}}
        return self.model_dump_json(by_alias=True, exclude=left_out)


def rules_of_table(spec: TableSpec) -> tuple[FrameRules, dict[str, str]]:
    """Return a table's rules as a frame's, and the checks that a frame cannot have, each with the reason."""
    left_out = {check.id: NO_SOURCE for check in spec.checks if isinstance(check, ControlTotal)}
    for check in in_order(spec.checks):
        if waited := [name for name in check.depends_on if name in left_out]:
            left_out[check.id] = f"it depends on {waited[0]}, which a frame cannot have"
    personal = spec.pii_columns  # also a column that is not marked itself, from the same column of the source
    rules = FrameRules(
        name=spec.name,
        description=spec.description,
        key=spec.key,
        last_modified=spec.last_modified,
        cadence=spec.extraction.cadence,
        columns={name: column.model_copy(update={"pii": name in personal}) for name, column in spec.columns.items()},
        checks=tuple(check for check in spec.checks if check.id not in left_out),
        drift=spec.drift and with_whole_windows(without_rates(spec.drift)),
    )
    return rules, left_out


def with_whole_windows(drift: DriftSpec) -> DriftSpec:
    """Return a `drift` that quarantines whole windows."""
    return drift.model_copy(update={"on_drift": "quarantine_window"})


class _AnyCase(frozenset[str]):
    """Names in lower case, which contain a name in any letter case, as Spark does."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(str(name).lower())


def frame_mistakes(rules: FrameRules, types: Mapping[str, str]) -> Iterator[tuple[Keys, str]]:
    """Yield the keys of each rule that a frame with these columns (name → Spark's type) cannot be judged by, and why."""
    types = {name: kind for name, kind in types.items() if not is_hidden(name)}
    has = _AnyCase(name.lower() for name in types)
    listed = f"the frame has {', '.join(types) or 'no column'} (names that begin with _ are not seen by rules)"
    kinds = {name.lower(): kind for name, kind in types.items()}
    for name, column in rules.columns.items():
        if name not in has:
            yield ("columns", name), f"the frame has no column {name!r}; {listed}"
        elif not _fits(kinds[name.lower()], column.type):
            yield ("columns", name), f"the frame has it as {kinds[name.lower()]}, which is no {column.type}; cast it first"
    for keys, name in _names_used(rules):
        if name not in has:
            yield keys, f"the frame has no column {name!r}; {listed}"
    for index, check in enumerate(rules.checks):
        if missing := check.unknown_columns(_AnyCase({*has, "p_extracted_at"})):
            yield ("checks", index), f"({check.id}) the frame has no column {missing[0]!r}; {listed}"
        elif why := check.unfit_reason(types):
            yield ("checks", index), f"({check.id}) {why}"


def is_hidden(name: str) -> bool:
    """Whether rules do not see a frame's column: its name is the gate's own, or may be."""
    return name.startswith("_") or name.lower() in BATCH_COLUMNS


def _names_used(rules: FrameRules) -> Iterator[tuple[Keys, str]]:
    yield from ((("key",), name) for name in rules.key)
    if rules.last_modified:
        yield ("last_modified",), rules.last_modified
    for index, feature in enumerate(rules.features):
        yield from ((("drift", "features", index), name) for name in sorted(feature.columns_used))


def _fits(arrived: str, wanted: str) -> bool:
    try:
        one, other = parse_type(arrived), parse_type(wanted)
    except ValueError:
        return False  # a type that only Spark knows
    return one == other or reads_as(one, other)


def unknown_references(rules: FrameRules, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return check and table of each check that reads a table which was not given by name."""
    return [(check.id, check.reads.table) for check in rules.checks if check.reads and check.reads.table not in names]
