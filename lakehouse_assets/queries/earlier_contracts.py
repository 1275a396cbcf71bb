"""What earlier contracts read of a source otherwise than today's: columns under other names, and numbers with other marks.

Belongs here: what of it becomes NULL, by decisions and extractions. Does not: silver's columns (schema_status).
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence

from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.number_marks import NumberMarks, is_number
from lakehouse_assets.contracts.source import safe_name
from lakehouse_assets.contracts.table import EffectiveTable
from lakehouse_assets.decisions.naming import any_of


def lower_names(records: Iterable[ExtractionRecord]) -> set[str]:
    """Return the columns of these extractions in small letters: Spark and Delta ignore letter case."""
    return {name.lower() for record in records for name in record.columns}


def bronze_names(sources: Iterable[str]) -> set[str]:
    """Return bronze's names of these columns of a source, in small letters."""
    return {safe_name(source).lower() for source in sources}


def earlier_sources(names: Collection[str], decisions: Sequence[Decision]) -> dict[str, list[str]]:
    """Return the source's names of these columns in the contracts of these decisions, those of the newest first."""
    sources: dict[str, list[str]] = {name: [] for name in names}
    newest_first = sorted(decisions, key=lambda decision: decision.number, reverse=True) if sources else ()
    for ruleset in dict.fromkeys(decision.ruleset for decision in newest_first):
        columns = json.loads(ruleset or "{}").get("columns") or {}
        by_lower_name = {name.lower(): declared for name, declared in columns.items()}
        for name in sources:
            if (declared := by_lower_name.get(name.lower())) is None:
                continue
            spelled = declared.get("from") or name if isinstance(declared, dict) else name
            sources[name] += [spelled] if isinstance(spelled, str) else spelled
    return {name: list(dict.fromkeys(spellings)) for name, spellings in sources.items()}


def find_unread(
    contract: EffectiveTable,
    decisions: Sequence[Decision],
    records: Sequence[ExtractionRecord],
    publishing: Mapping[Batch, Decision],
) -> dict[str, str]:
    """Return `unread_columns` of the accepted batches; `*`: `describe_other_marks` of them."""
    columns = unread_columns(contract, decisions, [r for r in records if r.batch in publishing])
    text = describe_other_marks(contract, publishing.values())
    return {**columns, **({"*": text} if text else {})}


def describe_other_marks(contract: EffectiveTable, accepted: Iterable[Decision]) -> str:
    """Return what becomes of numbers that these decisions accepted with other marks than the contract's; "" if none did."""
    if not any(is_number(column.type) for column in contract.columns.values()):
        return ""
    by_ruleset: dict[str | None, list[Decision]] = {}
    for decision in accepted:
        by_ruleset.setdefault(decision.ruleset, []).append(decision)
    marks = NumberMarks.of(contract.source)
    changed = [d for ruleset, some in by_ruleset.items() if _recorded_marks(ruleset) != marks for d in some]
    rows, windows = sum(d.counts.rows_published for d in changed), len({d.p_extracted_at for d in changed})
    if not rows:
        return ""
    had = f"{windows} accepted window(s) with {rows:,} rows were judged with another source.decimal or source.thousands"
    change = "if silver was made anew since, their numbers stay; else they may become others, or NULL"
    return f"{had}: {change}; if only some files have these marks, have those converted"


def _recorded_marks(ruleset: str | None) -> NumberMarks:
    source = json.loads(ruleset or "{}").get("source") or {}
    return NumberMarks(source.get("decimal", "."), source.get("thousands"))


def unread_columns(
    contract: EffectiveTable, decisions: Sequence[Decision], accepted: Sequence[ExtractionRecord]
) -> dict[str, str]:
    """Return columns that accepted extractions have under a name which the contract no longer reads: what becomes NULL, and how
    to keep it. Letter case does not count.
    """
    texts = {}
    arrived_names = {columns: frozenset(map(str.lower, columns)) for columns in {r.columns for r in accepted}}
    arrived = [(r, arrived_names[r.columns]) for r in accepted if r.rows]
    for name, earlier in earlier_sources(contract.declared.columns, decisions).items():
        sources = contract.source_columns(name)
        read = bronze_names(sources)
        spellings: dict[str, str] = {}
        for spelled in earlier:
            spellings.setdefault(safe_name(spelled).lower(), spelled)
        former = [spelled for small, spelled in spellings.items() if small not in read]
        if not former:
            continue
        lacking = [r for r, names in arrived if names.isdisjoint(read) and names & {*spellings}]
        if lacking:
            rows, windows = sum(r.rows for r in lacking), len({r.p_extracted_at for r in lacking})
            had = f"{windows} accepted window(s) with {rows:,} rows have {any_of(former)} and no {any_of(sources)}"
            way = f"to keep the values, declare `from: [{', '.join([*sources, *former])}]`"
            texts[name] = f"{had}: {name} becomes NULL there; {way}"
    return texts
