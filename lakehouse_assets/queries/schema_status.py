"""The contract beside the table: declared columns, the table's, and the last extraction's.

Belongs here: reading them side by side, without a JVM. Does not: changing a table (migrate), comparing (decisions/schema), or
how the schema changed (schema_history).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.declarations import DeclarationChange
from lakehouse_assets.contracts.layout import layout_text
from lakehouse_assets.contracts.silver import BOOKKEEPING_TYPES, silver_types
from lakehouse_assets.contracts.source import safe_name, source_name
from lakehouse_assets.contracts.table import EffectiveTable, TableSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.schema import evolution
from lakehouse_assets.decisions.schema.comparison import Difference
from lakehouse_assets.decisions.schema.gate import schema_outcomes
from lakehouse_assets.queries.earlier_contracts import bronze_names, earlier_sources, find_unread, lower_names
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.layout import read_layout
from lakehouse_assets.storage.silver_contract import pending_changes, recorded_computed_columns

Columns = tuple[tuple[str, str], ...]
RECENT = 20  # extractions before the last whose undeclared columns are named


@dataclass(frozen=True)
class SchemaStatus:
    """``promised``: silver's columns by the effective contract; ``table``: its columns on disk, None if there is none yet.
    ``last``: the newest extraction with rows and columns, else the newest. ``arrived``: how it differs from the contract,
    with the gate's outcome. ``earlier``: columns that recent extractions before it had, and the contract does not declare.
    ``filled``: declared columns with values from accepted batches. ``foreign``: columns of the table whose values no source
    brought. ``layout``: how the table's files lie, and how they should, as text. ``unread``: columns of which an earlier
    contract read another source's column, with how many rows would be NULL; `*`: all numbers, read with other marks.
    ``pending``: comments, properties and constraints that the table does not have as declared.
    """

    spec: EffectiveTable
    promised: Columns
    table: Columns | None
    last: ExtractionRecord | None
    arrived: tuple[Difference, ...]
    filled: frozenset[str]
    foreign: frozenset[str]
    same_values: bool
    layout: tuple[str, str]
    unread: Mapping[str, str]
    pending: tuple[DeclarationChange, ...] = ()
    earlier: tuple[tuple[ExtractionRecord, Difference], ...] = ()

    @property
    def matches(self) -> bool:
        """Whether the table has the promised columns, or does not exist yet."""
        return self.table is None or (self.table == self.promised and self.same_values and not self.pending)


def read_schema_status(settings: Settings, spec: TableSpec, readers: Mapping[str, Sequence[str]] | None = None) -> SchemaStatus:
    """Return contract, table and last extraction. ``readers``: what reads a column downstream."""
    decisions, records = logs.decisions(settings, spec.name), logs.extractions(settings, spec.name)
    contract, path = evolution.effective_table(spec, decisions), settings.path("silver", spec.name)
    newest_first = sorted(records, key=lambda r: (r.extracted_at, r.p_extracted_at), reverse=True)
    last = next((r for r in newest_first if r.rows and r.columns), newest_first[0] if newest_first else None)
    arrived = _as_judged(contract, last, records, readers) if last else ()
    before = newest_first[newest_first.index(last) + 1 :] if last else []
    live = ledger.live_decisions(decisions).publishing
    arrived_names = lower_names(r for r in records if r.batch in live)
    filled = [name for name in contract.columns if arrived_names & bronze_names(contract.source_columns(name))]
    # A former surrogate key or derived column is computed again once it is declared again.
    computed = frozenset(recorded_computed_columns(path))
    table = tuple(delta.schema_types(path)) if delta.exists(path) else None
    same_values = table is None or delta.properties(path).get(delta.MEANING, spec.meaning) == spec.meaning
    layout = contract.layout.describe() if contract.layout else layout_text((), ())
    return SchemaStatus(
        contract,
        promised=tuple(silver_types(contract).items()),
        table=table,
        last=last,
        arrived=arrived,
        earlier=tuple(_undeclared_earlier(contract, [r for r in before if r.rows][:RECENT], arrived, readers)),
        filled=frozenset((*filled, *contract.computed_columns)),
        foreign=frozenset(_foreign([name for name, _ in table or ()], contract, decisions, records)) - computed,
        same_values=same_values,
        layout=(layout if table is None else layout_text(*read_layout(path)), layout),
        unread={} if same_values else find_unread(contract, decisions, records, live),
        pending=tuple(pending_changes(path, contract)) if table else (),
    )


def _foreign(
    table: Sequence[str], contract: EffectiveTable, decisions: Sequence[Decision], records: Sequence[ExtractionRecord]
) -> list[str]:
    """Return undeclared columns that bronze could not fill, neither under their name nor under an earlier contract's source.
    Letter case does not count.
    """
    sources = {name: {name} for name in table if name not in contract.published_columns and name not in BOOKKEEPING_TYPES}
    for name, earlier in earlier_sources(sources, decisions).items():
        sources[name].update(earlier)
    arrived_names = lower_names(records)
    return [name for name, names in sources.items() if not bronze_names(names) & arrived_names]


def _as_judged(
    contract: EffectiveTable,
    last: ExtractionRecord,
    records: Sequence[ExtractionRecord],
    readers: Mapping[str, Sequence[str]] | None,
) -> tuple[Difference, ...]:
    planned = evolution.plan(contract, last, readers)
    ever = {column for record in records for column in record.columns}
    differences = [
        d for outcome in schema_outcomes(contract, last, planned, ever) for d in outcome.observed.get("differences", ())
    ]
    judged = [Difference(**{**each, "used_by": tuple(each["used_by"])}) for each in differences]
    # What the gate has nothing to say of.
    accepted = [d for d in planned.comparison.differences if d.outcome == "accepted" and d.kind != "missing"]
    return (*judged, *accepted)


def _undeclared_earlier(
    contract: EffectiveTable,
    records: Sequence[ExtractionRecord],
    arrived: Sequence[Difference],
    readers: Mapping[str, Sequence[str]] | None,
) -> Iterator[tuple[ExtractionRecord, Difference]]:
    """Yield each undeclared column of these extractions that has not ``arrived`` now, with the newest one that had it."""
    paths = {d.path for d in arrived}
    for record in records:
        for difference in evolution.plan(contract, record, readers).comparison.differences:
            if difference.kind == "new" and difference.path not in paths:
                paths.add(difference.path)
                yield record, difference


def effective_spec(settings: Settings, spec: TableSpec) -> EffectiveTable:
    """Return the current contract, from the log."""
    return evolution.effective_table(spec, logs.decisions(settings, spec.name))


def column_rows(status: SchemaStatus) -> list[dict[str, str]]:
    """Return one row per column: declared, the table's, the last extraction's (`text` if the source has no type)."""
    spec, last, has = status.spec, status.last, dict(status.table or ())
    published = spec.published_columns
    names = [name for name, _ in status.promised if name in published]
    names += [name for name in has if name not in names and name not in BOOKKEEPING_TYPES]
    arrived = last.columns if last else ()
    sources = {name: evolution.bronze_name(spec, name, arrived) for name in names if name in spec.columns}
    rows = [
        {
            "column": name,
            "promised": published[name].type if name in published else "",
            "by": _declarer(spec, name),
            "table": has.get(name, ""),
            "arrived": _arrived(last, sources.get(name)),
        }
        for name in names
    ]
    rest = [name for name in arrived if name not in {*sources.values(), *map(safe_name, spec.all_source_columns)}]
    empty = {"promised": "", "by": "", "table": ""}
    return rows + [{"column": source_name(name), **empty, "arrived": _arrived(last, name)} for name in rest]


def _declarer(spec: EffectiveTable, name: str) -> str:
    """Return who declares a column of silver: nobody, a batch, `surrogate_key`, `layout` or the columns of the YAML."""
    if name in spec.computed_columns:
        return "layout" if name in spec.derived_columns else "surrogate_key"
    return "" if name not in spec.columns else "a batch" if name in spec.evolved_columns else "defs.yaml"


def _arrived(last: ExtractionRecord | None, source: str | None) -> str:
    if last is None or source is None or source not in last.columns:
        return ""
    return last.types.get(source, "text")


def table_differences(status: SchemaStatus, readers: Mapping[str, Sequence[str]] | None = None) -> list[Difference]:
    """Return the table's differences from the contract, its layout last. ``readers``: what reads a column downstream."""
    if status.table is None:
        return []
    has, wants = dict(status.table), dict(status.promised)
    differences = []
    for name in dict.fromkeys([*wants, *has]):
        if has.get(name) != wants.get(name):
            kind = "missing" if name not in has else "new" if name not in wants else "type"
            types = (wants.get(name, ""), has.get(name, ""))
            used = tuple((readers or {}).get(name, ()))
            differences.append(
                Difference(name, *types, "accepted", "the next batch brings it about; or migrate", kind, name, used)
            )
    lies, declared = status.layout
    if lies != declared:
        advice = "it was changed by hand: migrate" if status.same_values else "the next batch brings it about; or migrate"
        differences.append(Difference("layout", declared, lies, "accepted", advice, "type", "layout"))
    return differences
