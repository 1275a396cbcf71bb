"""The gate's judgement of a batch's columns: missing and undeclared ones, types, and names.

Belongs here: a comparison → outcomes. Does not: comparing (comparison), the new contract (evolution), other checks (gate).
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.source import FilesSource, safe_name, source_name
from lakehouse_assets.contracts.table import EffectiveTable
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.decisions.gate import Outcome
from lakehouse_assets.decisions.naming import any_of, first_of
from lakehouse_assets.decisions.personal import numbered_names
from lakehouse_assets.decisions.schema.comparison import KEYS, QUARANTINING, Difference, advice
from lakehouse_assets.decisions.schema.comparison import Outcome as Fate
from lakehouse_assets.decisions.schema.evolution import Plan, bronze_name

# The check that speaks of each kind of difference.
CHECKS = {"missing": "source_columns", "new": "new_columns", "type": "source_types", "case": "source_names"}
SEPARATORS = (";", "\t", "|", ",")
NAMED, MOST_DIFFERENCES = 20, 200
# Of a batch, only the names of all its files are recorded, and those that some file lacks.
MIXED = "each of these names is in some files only, and a file with none of them is not noticed"
IF_COMPLETE = "if every file has one of them, release with --override source_columns"


def schema_outcomes(
    spec: EffectiveTable,
    record: ExtractionRecord,
    planned: Plan,
    ever: Collection[str],
    failed_casts: Mapping[str, int] | None = None,
) -> list[Outcome]:
    """Failed checks of a batch's columns against the contract before it, and a passed one that names ignored columns.

    ``ever``: columns that any extraction has had. ``failed_casts``: values that could not be cast, by column. A column that no
    extraction has ever had is a mistake in the contract: the batch is quarantined.
    """
    if not record.rows or not record.columns:
        return []
    outcomes = _missing(spec, record, ever, [d for d in planned.comparison.differences if d.kind == "missing"])
    for kind in ("new", "type", "case"):
        differences = [d for d in planned.comparison.differences if d.kind == kind and d.outcome != "accepted"]
        if kind == "type":
            differences += _texts(spec, record, failed_casts or {})
        if differences:
            outcomes.append(schema_outcome(CHECKS[kind], differences, _text(kind, differences, spec)))
    ignored = [d for d in planned.comparison.differences if d.kind == "new" and d.outcome == "accepted"]
    is_reported = any(outcome.check == CHECKS["new"] for outcome in outcomes)
    if ignored and not is_reported and not spec.pii_columns:  # without a header, names may be personal values
        names = first_of([source_name(d.path) for d in ignored], NAMED)
        outcomes.append(Outcome(CHECKS["new"], "schema", "info", "passed", "none", 0, f"not declared, left in bronze: {names}"))
    return outcomes


def schema_outcome(check: str, differences: Sequence[Difference], text: str) -> Outcome:
    """The failed check of these differences: it quarantines the batch if one of them does."""
    holds = any(d.outcome in QUARANTINING for d in differences)
    observed = {
        "differences": [d.as_dict() for d in differences[:MOST_DIFFERENCES]],
        "rejected": any(d.outcome == "rejected" for d in differences),
    }
    severity, effect = ("critical", "batch") if holds else ("info", "report")
    return Outcome(check, "schema", severity, "failed", effect, 0, text, observed)


def differences_of(decision: Decision) -> list[dict[str, Any]]:
    """Every difference in a decision's checks."""
    return [each for check in decision.checks for each in check.get("observed", {}).get("differences", ())]


def is_rejected(decision: Decision) -> bool:
    """Whether a difference that must fail the materialization quarantines the batch."""
    return not decision.accepted and any(
        check.get("observed", {}).get("rejected") and check["effect"] == "batch" for check in decision.checks
    )


def lacking_columns(spec: TableContract, record: ExtractionRecord) -> list[str]:
    """Silver's columns whose source's column is in no file of the batch; none of a batch without rows."""
    return columns_not_among(spec, record.columns) if record.rows else []


def columns_not_among(spec: TableContract, columns: Collection[str]) -> list[str]:
    """Silver's columns whose source's column is not among these (safe names); none if there are none at all."""
    arrived_names = {name.lower() for name in columns}
    if not arrived_names:
        return []
    return [
        name for name in spec.columns
        if arrived_names.isdisjoint(safe_name(source).lower() for source in spec.source_columns(name))
    ]  # fmt: skip


def _missing(
    spec: EffectiveTable, record: ExtractionRecord, ever: Collection[str], within: Sequence[Difference]
) -> list[Outcome]:
    wanted = {name: bronze_name(spec, name, record.columns, ever) for name in spec.columns}
    # A column in another letter case is there; the check of names reports it.
    arrived_names, in_part = [{name.lower() for name in names} for names in (record.columns, record.lacking)]
    had = {name.lower() for name in ever}
    missing = {name: s for name, s in wanted.items() if s.lower() not in arrived_names or s.lower() in in_part}
    mode = spec.schema_policy.missing_columns
    missing, mixed = _without_other_names(spec, missing, arrived_names, in_part, mode in ("quarantine", "reject"))
    cause = _likely_cause(spec, record) if len(missing) == len(wanted) else ""
    never = [f"{name} (from {any_of(spec.source_columns(name))})" for name, s in missing.items() if s.lower() not in had]
    if never:
        has = ", ".join(sorted(map(source_name, record.columns)))
        text = f"no source has ever had the column of {', '.join(never)}; it has {has}. {cause or 'Mend `from:` in defs.yaml'}"
        fate: Fate = "rejected" if mode == "reject" else "quarantined"
        way = "correct source.delimiter, and run again" if cause else "mend `from:` in defs.yaml, and release"
        absent = {name: source for name, source in missing.items() if source.lower() not in had}
        lacking = [Difference(s, spec.columns[name].type, "", fate, way, "missing", s) for name, s in absent.items()]
        return [schema_outcome(CHECKS["missing"], lacking, text)]
    nested = [d for d in within if d.path != d.column]
    if not missing and not nested:
        text = f"{MIXED}: {'; '.join(mixed)}"
        return [schema_outcome(CHECKS["missing"], [], text)] if mixed else []
    # Nobody has promised that a column which evolved will come again.
    declared = [name for name in missing if name not in spec.evolved_columns]
    holds = mode in ("quarantine", "reject") and bool(declared or nested)
    fate = "accepted" if not holds else "rejected" if mode == "reject" else "quarantined"
    uses, way = {d.column: d.used_by for d in within}, advice("missing", fate)
    lacking = [
        Difference(source, spec.columns[name].type, "", fate, way, "missing", source, uses.get(source, ()))
        for name, source in missing.items()
    ]
    names = first_of([*missing, *(d.path for d in nested)], NAMED)
    # Other files of it may have them all.
    in_all_files = nested or any(source.lower() not in arrived_names for source in missing.values())
    part = "this batch" if in_all_files else "a part of this batch"
    sources = {safe_name(source).lower() for source in spec.all_source_columns}
    # One of them may be a missing one under another name. (Without a header, names may be personal values.)
    others = [source_name(name) for name in record.columns if name.lower() not in sources]
    others = others if missing and not spec.pii_columns else []
    has = f"; undeclared columns: {first_of(others, NAMED)}" if others else ""
    text = f"{part} lacks {names} (schema.missing_columns: {mode}){has}{_uses(lacking + nested)}{cause and f'. {cause}'}"
    text += f"; {MIXED}: {'; '.join(mixed)}; {IF_COMPLETE}" if mixed and holds else ""
    return [schema_outcome(CHECKS["missing"], lacking + nested, text)]


def _without_other_names(
    spec: EffectiveTable, missing: Mapping[str, str], arrived: Collection[str], in_part: Collection[str], all_files: bool
) -> tuple[dict[str, str], list[str]]:
    """Return the columns that no other of their names fills, and the names of those which have several, each in some files.

    ``arrived``, ``in_part``: the batch's names, and those that some file lacks, in small letters. ``all_files``: a column is
    filled only by a name that all files have.
    """
    lacking: dict[str, str] = {}
    mixed: list[str] = []
    for name, source in missing.items():
        present = [each for each in spec.source_columns(name) if safe_name(each).lower() in arrived]
        in_all_files = [each for each in present if safe_name(each).lower() not in in_part]
        if len(present) > 1 and not in_all_files:
            mixed.append(any_of(present))
        if not in_all_files and (all_files or len(present) < 2):
            lacking[name] = source
    return lacking, mixed


def _likely_cause(spec: TableContract, record: ExtractionRecord) -> str:
    """Return what may be wrong about a file that has none of the columns; empty where it is not known."""
    if not isinstance(spec.source, FilesSource) or spec.source.format != "csv" or len(record.columns) != 1:
        return ""
    if record.columns == numbered_names(record.columns):
        return "It has one column: is `source.delimiter` right?"  # the header may have personal values
    [only] = map(source_name, record.columns)
    signs = [json.dumps(sign) for sign in SEPARATORS if sign in only and sign != spec.source.delimiter]  # as in YAML
    return f"Its only column is a header that is not split: is `source.delimiter` {signs[0]}?" if signs else ""


def _texts(spec: EffectiveTable, record: ExtractionRecord, failed: Mapping[str, int]) -> list[Difference]:
    """Columns of a source without types whose values are of another type than declared."""
    mode = spec.schema_policy.type_changes
    if mode not in ("quarantine", "reject"):
        return []
    fate: Fate = "rejected" if mode == "reject" else "quarantined"
    way = "declare the type that it has, or set type_changes: cast, and release, or have the source mended"
    differences = []
    for name, column in spec.columns.items():
        source = bronze_name(spec, name, record.columns)
        if failed.get(name) and source not in record.types:
            arrived = f"text, {failed[name]} no {column.type}"
            differences.append(Difference(source, column.type, arrived, fate, way, "type", source))
    return differences


def _text(kind: str, differences: Sequence[Difference], spec: EffectiveTable) -> str:
    if kind == "case":
        pairs = first_of([f"{source_name(d.path)} and {source_name(d.promised)}" for d in differences], NAMED)
        return f"names that differ in letter case only, which Spark cannot tell apart: {pairs}"
    key = KEYS[kind].split(":")[0]
    mode = f"(schema.{key}: {getattr(spec.schema_policy, key)})"
    if kind == "type":
        pairs = first_of([f"{source_name(d.path)} is {d.arrived}, promised {d.promised}" for d in differences], NAMED)
        return f"{pairs} {mode}{_uses(differences)}"
    names = first_of([source_name(d.path) for d in differences], NAMED)
    if all(d.outcome == "widened" for d in differences):
        return f"new columns {names}, taken over {mode}; nothing reads them yet"
    return f"undeclared columns {names} {mode}"


def _uses(differences: Sequence[Difference]) -> str:
    readers = list(dict.fromkeys(reader for d in differences for reader in d.used_by))
    return f"; read by {first_of(readers, NAMED)}" if readers else ""
