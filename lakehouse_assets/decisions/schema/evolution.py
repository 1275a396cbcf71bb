"""The effective contract of a table (declared columns, and additions of accepted decisions), and the staged one of batches.

Belongs here: the columns that batches add or widen. Does not: whether that quarantines one (schema/gate).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakehouse_assets.contracts.columns import Column, declared_type
from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.source import safe_name, source_name
from lakehouse_assets.contracts.spark_types import SparkType, keyed_otherwise, parse_type, sql_type, unfit_fields
from lakehouse_assets.contracts.surrogate_key import form_of
from lakehouse_assets.contracts.table import EffectiveTable, StagedTable, TableSpec
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.schema.comparison import Comparison, Difference, compare, widest, with_uses

ANOTHER = "the table has another column of this name: declare it under a name of its own, with `from`, and release"

UNFIT = "a field within has a name with spaces or any of ,;{}()=, which Delta refuses: have it renamed at the source"
HASHED = "the surrogate key is a hash of the column, and would change: have the type changed at the source"
UNSTORED = "silver has no such type: declare the column as string, have it sent as another type, or ignore it"
FOLDERS = "layout: partition_by has the column, and this type makes no folders: have the type changed at the source"
KEYED = "a map within has keys that are no text, which JSON does not have: have it changed at the source, or ignore the column"


@dataclass(frozen=True)
class Plan:
    """The contract as it is once a batch is accepted; ``evolved``: the types of the columns it adds or widens."""

    after: EffectiveTable
    comparison: Comparison
    evolved: dict[str, str]

    @property
    def changes(self) -> bool:
        """Whether the batch changes the contract."""
        return any(d.outcome == "widened" for d in self.comparison.differences)


def effective_table(spec: TableSpec, decisions: Iterable[Decision]) -> EffectiveTable:
    """The contract with the additions of the accepted decisions among these, in their order. Declarations win: a column that is
    declared by now, or a type that the recorded one does not widen.
    """
    decisions = decisions if isinstance(decisions, Sequence) else list(decisions)
    table = EffectiveTable.of(spec)
    if not ledger.has_evolution(decisions):
        return table
    added: dict[str, SparkType | None] = {}
    for decision in sorted(ledger.live_decisions(decisions).publishing.values(), key=lambda d: d.number):
        for name, text in decision.evolved.items():
            added[name] = widest(added.get(name), _parse_known_type(text))
    return _with(table, added)


def plan(spec: EffectiveTable, record: ExtractionRecord, readers: Mapping[str, Sequence[str]] | None = None) -> Plan:
    """Compare a batch with the contract. ``readers``: readers of each column, by its name there."""
    if not record.rows or not record.columns:
        return Plan(spec, Comparison((), {}), {})
    if any(len(spec.source_columns(name)) > 1 for name in spec.columns):
        planned = _plan(*_as_arrived(spec, record), readers)
        return replace(planned, after=_with(spec, {n: _parse_known_type(text) for n, text in planned.evolved.items()}))
    return _plan(spec, record, readers)


def _as_arrived(spec: EffectiveTable, record: ExtractionRecord) -> tuple[EffectiveTable, ExtractionRecord]:
    """Return contract and record with one source for each column: of several names the one that this batch has."""
    chosen = {name: bronze_name(spec, name, record.columns) for name in spec.columns}
    others = {safe_name(source) for source in spec.all_source_columns} - {*chosen.values()}
    columns = {
        name: column.model_copy(update={"source_name": source_name(chosen[name])}) for name, column in spec.columns.items()
    }
    declared = spec.declared.model_copy(update={"columns": {name: columns[name] for name in spec.declared.columns}})
    read = tuple(name for name in record.columns if name not in others)
    return EffectiveTable.of(declared, columns), replace(record, columns=read)


def _plan(spec: EffectiveTable, record: ExtractionRecord, readers: Mapping[str, Sequence[str]] | None) -> Plan:
    promised, arrived = _promised_types(spec), arrived_columns(record, spec)
    comparison = compare(promised, arrived, spec.schema_policy)
    comparison = _with_twice_read(comparison, spec, arrived)
    refused = _refused_columns(spec, promised, comparison.result)
    added = {name for name in comparison.result if name not in promised and name not in refused}
    comparison = replace(comparison, differences=tuple(
        replace(d, outcome="quarantined", advice=refused[d.column]) if d.outcome == "widened" and d.column in refused else d
        for d in comparison.differences
    ))  # fmt: skip
    widened = {d.column for d in comparison.differences if d.outcome == "widened"}
    own = {safe_name(spec.source_column(name)) for name in spec.evolved_columns}
    # Each batch that has a wider type records it: the first one that did may be judged again, and no longer say so.
    declared = {n: kind for n, kind in _promised_types(spec.declared).items() if n in arrived and promised.get(n) != kind}
    beyond = compare(declared, {n: arrived[n] for n in declared}, spec.schema_policy).differences
    own |= {d.column for d in beyond if d.outcome == "widened"}
    recorded = {*added, *(name for name in arrived if name in own or name in widened)}
    # What cannot be added stays as it was promised, also where a person lets the batch in.
    result = {**comparison.result, **{name: promised[name] for name in refused if name in promised}}
    evolved = {name: sql_type(kind) if (kind := result.get(name)) else "string" for name in recorded}
    after = _with(spec, {name: _parse_known_type(text) for name, text in evolved.items()})
    return Plan(after, with_uses(comparison, _by_source(spec, readers or {})), dict(sorted(evolved.items())))


def _refused_columns(
    spec: EffectiveTable, promised: Mapping[str, SparkType | None], types: Mapping[str, SparkType | None]
) -> dict[str, str]:
    """Return columns of bronze that cannot have these types, each with the advice. ``promised``: the contract's types."""
    names = {name.lower() for name in spec.published_columns}
    refused = {name: UNSTORED for name, kind in types.items() if kind and not _is_declarable(kind)}
    refused |= {name: ANOTHER for name in types if name not in promised and name.lower() in names}
    refused |= {name: UNFIT for name, kind in types.items() if kind and unfit_fields(kind)}
    refused |= {name: KEYED for name, kind in types.items() if kind and keyed_otherwise(kind)}
    changed = {name: kind for name, kind in types.items() if promised.get(name) != kind}
    refused |= {name: FOLDERS for name, kind in changed.items() if _unfits_folders(spec, name, kind)}
    return refused | dict.fromkeys(_hashed_otherwise(spec, types), HASHED)


def _is_declarable(kind: SparkType) -> bool:
    """Whether a column may be declared with this type."""
    try:
        declared_type(sql_type(kind))
    except ValueError:
        return False
    return True


def _unfits_folders(spec: EffectiveTable, source: str, kind: SparkType | None) -> bool:
    """Whether silver could no longer be partitioned as declared, if this column of bronze had this type."""
    layout = spec.layout
    read = {spec.source_column(name) for each in layout.columns for name in layout.sources_of(each)} if layout else set[str]()
    if layout is None or not layout.partition_by or source not in {safe_name(name) for name in read}:
        return False
    types = {name: column.type for name, column in _with(spec, {source: kind}).published_columns.items()}
    return layout.mistake(types, spec.pii_columns, spec.key) is not None


def staged_table(spec: TableSpec, log: Iterable[Decision], records: Iterable[ExtractionRecord]) -> StagedTable:
    """The contract by which these batches are staged together: the effective one with the additions of each."""
    table = effective_table(spec, log)
    for record in sorted(records, key=lambda r: r.p_extracted_at):
        table = plan(table, record).after
    return StagedTable.of(spec, table.columns)


def count_batches_together(spec: TableSpec, log: Iterable[Decision], waiting: Sequence[ExtractionRecord]) -> int:
    """How many of these, oldest first, can be judged at once: up to the first that changes the contract, which goes alone."""
    table = effective_table(spec, log)
    return next((index or 1 for index, record in enumerate(waiting) if plan(table, record).changes), len(waiting))


def bronze_name(spec: TableContract, name: str, *arrived: Collection[str]) -> str:
    """Return bronze's name of a column's source: of several the first that has arrived, else the newest. ``arrived``: names in
    bronze, tried in turn.
    """
    names = [safe_name(source) for source in spec.source_columns(name)]
    for some in arrived if len(names) > 1 else ():
        lower = {each.lower() for each in some}
        if present := [each for each in names if each.lower() in lower]:
            return present[0]
    return names[0]


def _promised_types(spec: TableContract) -> dict[str, SparkType | None]:
    """The contract's types by bronze's names; of columns that share a source, the first one's."""
    by_source: dict[str, SparkType | None] = {}
    for name, column in spec.columns.items():
        by_source.setdefault(safe_name(spec.source_column(name)), _promised_type(column))
    return by_source


def arrived_columns(record: ExtractionRecord, spec: TableContract) -> dict[str, SparkType | None]:
    """A batch's types by bronze's names; a column in other letter case as it came, where that matters."""
    wanted = {safe_name(spec.source_column(name)) for name in spec.columns}
    evolved_types: dict[str, SparkType | None] = {}
    for name in record.columns:
        kind = _parse_known_type(record.types.get(name))
        other = record.respelled.get(name)
        if other is None or safe_name(other) in wanted:
            evolved_types[name if other is None else safe_name(other)] = kind
            continue
        if name not in wanted:
            evolved_types[name] = kind
        if name in wanted or spec.schema_policy.new_columns != "ignore":
            evolved_types[safe_name(other)] = kind
    return evolved_types


def _promised_type(column: Column) -> SparkType | None:
    """The column's type; none where a `format` makes it of text."""
    return None if column.format else parse_type(column.type)


def _parse_known_type(text: str | None) -> SparkType | None:
    """The type that a record has; none also of a text that is no type: records of earlier versions have such."""
    try:
        return parse_type(text) if text else None
    except ValueError:
        return None


def _with_twice_read(comparison: Comparison, spec: EffectiveTable, arrived: Mapping[str, SparkType | None]) -> Comparison:
    """The comparison, also of columns whose source's column another one reads first."""
    read: set[str] = set()
    more: list[Difference] = []
    for name, column in spec.columns.items():
        source = safe_name(spec.source_column(name))
        if source in read and source in arrived:
            more += compare({source: _promised_type(column)}, {source: arrived[source]}, spec.schema_policy).differences
        read.add(source)
    return replace(comparison, differences=tuple(dict.fromkeys((*comparison.differences, *more))))


def _with(spec: EffectiveTable, added: Mapping[str, SparkType | None]) -> EffectiveTable:
    """The contract with these columns of bronze, or these types for the ones it has."""
    columns = dict(spec.columns)
    by_source: dict[str, list[str]] = {}
    for name in columns:
        for source in spec.source_columns(name):
            by_source.setdefault(safe_name(source), []).append(name)
    lower = {name.lower() for name in spec.published_columns}
    sources = {source.lower() for source in by_source}
    for source, kind in added.items():
        for name in by_source.get(source, ()):
            was = columns[name]
            now = widest(_promised_type(was), kind)
            if now is not None and not was.format:
                columns[name] = was.model_copy(update={"type": sql_type(now)})
        if source.lower() not in sources and source.lower() not in lower:
            spelled = source_name(source)
            declared_names = {"type": sql_type(kind) if kind else "string", "from": None if spelled == source else spelled}
            columns[source] = Column.model_validate(declared_names)
            lower.add(source.lower())
    return EffectiveTable.of(spec.declared, columns)


def _hashed_otherwise(spec: EffectiveTable, types: Mapping[str, SparkType | None]) -> list[str]:
    """Return columns of bronze that the surrogate key hashes, and whose new type writes the same values otherwise."""
    hashed = spec.surrogate_key.columns if spec.surrogate_key else ()
    forms = {safe_name(spec.source_column(name)): form_of(parse_type(spec.columns[name].type)) for name in hashed}
    return [source for source, form in forms.items() if (kind := types.get(source)) and form_of(kind) != form]


def _by_source(spec: EffectiveTable, readers: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    by_source: dict[str, tuple[str, ...]] = {}
    for name in spec.columns:
        source = safe_name(spec.source_column(name))
        by_source[source] = (*by_source.get(source, ()), *readers.get(name, ()))
    return by_source
