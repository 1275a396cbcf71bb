"""A table's contract as it stands: what is declared, and what accepted decisions took over from batches that brought more.

Belongs here: what a batch adds or widens, and what all of them add up to. Does not: whether one holds it (schema_gate).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakehouse_assets.contracts.columns import Column
from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.source import safe_name, source_name
from lakehouse_assets.contracts.spark_types import SparkType, keyed_otherwise, parse_type, sql_type, unfit_fields
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.schema import Comparison, Difference, compare, widest, with_uses

ANOTHER = "the table has another column of this name: declare it under a name of its own, with `from`, and release"

UNFIT = "a field within has a name with spaces or any of ,;{}()=, which Delta refuses: have it renamed at the source"
KEYED = "a map within has keys that are no text, which JSON does not have: have it changed at the source, or ignore the column"


@dataclass(frozen=True)
class Plan:
    """What a batch does to the contract if it is accepted: ``spec`` the contract then, ``evolved`` what its decision keeps."""

    spec: TableSpec
    comparison: Comparison
    evolved: dict[str, str]

    @property
    def changes(self) -> bool:
        """Whether the contract is another one then."""
        return any(d.outcome == "widened" for d in self.comparison.differences)


def effective(spec: TableSpec, decisions: Iterable[Decision]) -> TableSpec:
    """The contract with what the accepted decisions among these took, in the order in which they were made.

    What is declared goes first: a column that is declared by now, or a type that the recorded one is no widening of.
    """
    decisions = list(decisions)
    if not any(decision.evolved for decision in decisions):
        return spec.declared
    taken: dict[str, SparkType | None] = {}
    for decision in sorted(ledger.accepted(decisions).values(), key=lambda d: d.number):
        for name, text in decision.evolved.items():
            taken[name] = widest(taken.get(name), _known(text))
    return _with(spec.declared, taken) if taken else spec.declared


def plan(spec: TableSpec, record: ExtractionRecord, readers: Mapping[str, Sequence[str]] | None = None) -> Plan:
    """What the batch brings, beside a contract as `effective` gives it. ``readers``: what reads a column, by its name there."""
    if not record.rows or not record.columns:
        return Plan(spec, Comparison((), {}), {})
    promised, arrived = promised_columns(spec), arrived_columns(record, spec)
    told = compare(promised, arrived, spec.schema_policy)
    told = _with_twice_read(told, spec, arrived)
    names = {name.lower() for name in spec.columns}
    refused = {name: ANOTHER for name in told.result if name not in promised and name.lower() in names}
    refused |= {name: UNFIT for name, kind in told.result.items() if kind and unfit_fields(kind)}
    refused |= {name: KEYED for name, kind in told.result.items() if kind and keyed_otherwise(kind)}
    taken = {name for name in told.result if name not in promised and name not in refused}
    differences = tuple(
        replace(d, outcome="quarantined", advice=refused[d.column]) if d.outcome == "widened" and d.column in refused else d
        for d in told.differences
    )
    told = replace(told, differences=differences)
    widened = {d.column for d in differences if d.outcome == "widened"}
    own = {safe_name(spec.source_column(name)) for name in spec.evolved_columns}
    kept = {*taken, *(name for name in arrived if name in own or name in widened)}
    # What cannot be taken stays as it was promised, also where a person lets the batch in.
    result = {name: promised[name] if name in refused and name in promised else kind for name, kind in told.result.items()}
    evolved = {name: sql_type(kind) if (kind := result.get(name)) else "string" for name in kept}
    after = _with(spec, {name: _known(text) for name, text in evolved.items()})
    return Plan(after, with_uses(told, _by_source(spec, readers or {})), dict(sorted(evolved.items())))


def staging_spec(spec: TableSpec, known: Iterable[Decision], records: Sequence[ExtractionRecord]) -> TableSpec:
    """The contract by which these batches are staged together: what stands, and what each of them would add."""
    found = effective(spec, known)
    for record in sorted(records, key=lambda r: r.p_extracted_at):
        found = plan(found, record).spec
    return found


def together(spec: TableSpec, known: Iterable[Decision], waiting: Sequence[ExtractionRecord]) -> int:
    """How many of these, oldest first, can be judged at once: up to the first that changes the contract, which goes alone."""
    stands = effective(spec, known)
    for place, record in enumerate(waiting):
        if plan(stands, record).changes:
            return place or 1
    return len(waiting)


def promised_columns(spec: TableSpec) -> dict[str, SparkType | None]:
    """What the contract wants, by bronze's names. A column with a `format` is made of text."""
    found: dict[str, SparkType | None] = {}
    for name, column in spec.columns.items():
        found.setdefault(safe_name(spec.source_column(name)), _promised(column))
    return found


def arrived_columns(record: ExtractionRecord, spec: TableSpec) -> dict[str, SparkType | None]:
    """What a batch had, by bronze's names; one that came in other letter case as it came, where that matters."""
    wanted = {safe_name(spec.source_column(name)) for name in spec.columns}
    found: dict[str, SparkType | None] = {}
    for name in record.columns:
        kind = _known(record.types.get(name))
        other = record.respelled.get(name)
        if other is None or safe_name(other) in wanted:
            found[name if other is None else safe_name(other)] = kind
            continue
        if name not in wanted:
            found[name] = kind
        if name in wanted or spec.schema_policy.new_columns != "ignore":
            found[safe_name(other)] = kind
    return found


def readable_as_text(column: Column, arrived: SparkType | None) -> bool:
    """Whether text is what the column is made of, so that it is not another type."""
    return bool(column.format) and arrived is not None and sql_type(arrived) == "string"


def _promised(column: Column) -> SparkType | None:
    return None if column.format else parse_type(column.type)


def _known(text: str | None) -> SparkType | None:
    return parse_type(text) if text else None


def _with_twice_read(told: Comparison, spec: TableSpec, arrived: Mapping[str, SparkType | None]) -> Comparison:
    """The comparison with those of columns that are made of a source's column of which another is made too."""
    seen: set[str] = set()
    more: list[Difference] = []
    for name, column in spec.columns.items():
        source = safe_name(spec.source_column(name))
        if source in seen and source in arrived:
            more += compare({source: _promised(column)}, {source: arrived[source]}, spec.schema_policy).differences
        seen.add(source)
    new = [d for d in dict.fromkeys(more) if d not in told.differences]
    return replace(told, differences=(*told.differences, *new)) if new else told


def _with(spec: TableSpec, taken: Mapping[str, SparkType | None]) -> TableSpec:
    """The contract with these columns of bronze, or these types for the ones it has."""
    columns = dict(spec.columns)
    by_source: dict[str, list[str]] = {}
    for name in columns:
        by_source.setdefault(safe_name(spec.source_column(name)), []).append(name)
    lower = {name.lower() for name in columns}
    sources = {source.lower() for source in by_source}
    for source, kind in taken.items():
        for name in by_source.get(source, ()):
            was = columns[name]
            now = widest(_promised(was), kind)
            if now is not None and not was.format:
                columns[name] = was.model_copy(update={"type": sql_type(now)})
        if source.lower() not in sources and source.lower() not in lower:
            spelled = source_name(source)
            given = {"type": sql_type(kind) if kind else "string", "from": None if spelled == source else spelled}
            columns[source] = Column.model_validate(given)
            lower.add(source.lower())
    return spec.with_columns(columns)


def _by_source(spec: TableSpec, readers: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name in spec.columns:
        source = safe_name(spec.source_column(name))
        found[source] = (*found.get(source, ()), *readers.get(name, ()))
    return found
