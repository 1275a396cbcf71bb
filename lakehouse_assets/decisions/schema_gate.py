"""The gate's judgement of a batch's columns: those that lack, those that nobody declared, types, and names.

Belongs here: a comparison → outcomes. Does not: comparing (schema), what the contract becomes (evolution), other checks (gate).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.source import safe_name, source_name
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.evolution import Plan
from lakehouse_assets.decisions.gate import Outcome
from lakehouse_assets.decisions.naming import first_of
from lakehouse_assets.decisions.schema import HOLDING, KEYS, Difference, advice
from lakehouse_assets.decisions.schema import Outcome as Fate

# The check that speaks of each kind of difference.
CHECKS = {"missing": "source_columns", "new": "new_columns", "type": "source_types", "case": "source_names"}
NAMED, KEPT = 20, 200


def schema_outcomes(
    spec: TableSpec,
    record: ExtractionRecord,
    planned: Plan,
    ever: Collection[str],
    failed_casts: Mapping[str, int] | None = None,
) -> list[Outcome]:
    """What is wrong with the columns of a batch, beside the contract as it stood before it. ``ever``: columns that any
    extraction has had. ``failed_casts``: values that could not be cast, by column.

    A column that no extraction has ever had is a mistake in the contract: the batch is held.
    """
    if not record.rows or not record.columns:
        return []
    found = _missing(spec, record, ever, [d for d in planned.comparison.differences if d.kind == "missing"])
    for kind in ("new", "type", "case"):
        differences = [d for d in planned.comparison.differences if d.kind == kind and d.outcome != "accepted"]
        if kind == "type":
            differences += _texts(spec, record, failed_casts or {})
        if differences:
            found.append(told(CHECKS[kind], differences, _text(kind, differences, spec)))
    return found


def told(check: str, differences: Sequence[Difference], text: str) -> Outcome:
    """The failed check that speaks of these differences: it holds the batch if one of them does."""
    holds = any(d.outcome in HOLDING for d in differences)
    observed = {
        "differences": [d.as_dict() for d in differences[:KEPT]],
        "rejected": any(d.outcome == "rejected" for d in differences),
    }
    severity, effect = ("critical", "batch") if holds else ("info", "report")
    return Outcome(check, "schema", severity, "failed", effect, 0, text, observed)


def differences_of(decision: Decision) -> list[dict[str, Any]]:
    """Every difference that a decision's checks speak of."""
    return [each for check in decision.checks for each in check.get("observed", {}).get("differences", ())]


def rejected(decision: Decision) -> bool:
    """Whether the batch is held by what is to fail its materialization."""
    return not decision.accepted and any(
        check.get("observed", {}).get("rejected") and check["effect"] == "batch" for check in decision.checks
    )


def lacking_columns(spec: TableSpec, record: ExtractionRecord) -> list[str]:
    """Silver's columns of which the batch, if it has rows, does not have the source's column in any of its files."""
    return without(spec, record.columns) if record.rows else []


def without(spec: TableSpec, columns: Collection[str]) -> list[str]:
    """Silver's columns whose column is not among these of a source (safe names); of a source that tells none, nothing."""
    came = {name.lower() for name in columns}
    if not came:
        return []
    return [name for name in spec.columns if safe_name(spec.source_column(name)).lower() not in came]


def _missing(spec: TableSpec, record: ExtractionRecord, ever: Collection[str], within: Sequence[Difference]) -> list[Outcome]:
    wanted = {name: safe_name(spec.source_column(name)) for name in spec.columns}
    # In another letter case it is there; that it is in another is told by its name.
    came, in_part = [{name.lower() for name in names} for names in (record.columns, record.lacking)]
    had = {name.lower() for name in ever}
    missing = {name: s for name, s in wanted.items() if s.lower() not in came or s.lower() in in_part}
    never = [f"{name} (from {spec.source_column(name)!r})" for name, s in missing.items() if s.lower() not in had]
    if never:
        has = ", ".join(sorted(map(source_name, record.columns)))
        text = f"no source has ever had the column of {', '.join(never)}; it has {has}. Mend `from:` in defs.yaml"
        fate: Fate = "rejected" if spec.schema_policy.missing_columns == "reject" else "quarantined"
        lacking = [
            Difference(source, spec.columns[name].type, "", fate, "mend `from:` in defs.yaml, and release", "missing", source)
            for name, source in missing.items()
            if source.lower() not in had
        ]
        return [told(CHECKS["missing"], lacking, text)]
    nested = [d for d in within if d.path != d.column]
    if not missing and not nested:
        return []
    mode = spec.schema_policy.missing_columns
    # What no person has declared is taken when it comes, and is no promise that it comes.
    declared = [name for name in missing if name not in spec.evolved_columns]
    holds = mode in ("quarantine", "reject") and bool(declared or nested)
    fate = "accepted" if not holds else "rejected" if mode == "reject" else "quarantined"
    uses = {d.column: d.used_by for d in within}
    lacking = [
        Difference(source, spec.columns[name].type, "", fate, advice("missing", fate), "missing", source, uses.get(source, ()))
        for name, source in missing.items()
    ] + nested
    names = _first([*missing, *(d.path for d in nested)])
    text = f"this batch lacks {names} (schema.missing_columns: {mode}){_uses(lacking)}"
    return [told(CHECKS["missing"], lacking, text)]


def _texts(spec: TableSpec, record: ExtractionRecord, failed: Mapping[str, int]) -> list[Difference]:
    """Columns of a source that says no types, whose values are of another type than declared."""
    mode = spec.schema_policy.type_changes
    if mode not in ("quarantine", "reject"):
        return []
    fate: Fate = "rejected" if mode == "reject" else "quarantined"
    way = "declare the type that it has, or set type_changes: cast, and release, or have the source mended"
    found = []
    for name, column in spec.columns.items():
        source = safe_name(spec.source_column(name))
        if failed.get(name) and source not in record.types:
            arrived = f"text, {failed[name]} no {column.type}"
            found.append(Difference(source, column.type, arrived, fate, way, "type", source))
    return found


def _text(kind: str, differences: Sequence[Difference], spec: TableSpec) -> str:
    if kind == "case":
        pairs = _first([f"{source_name(d.path)} and {source_name(d.promised)}" for d in differences])
        return f"names that differ in letter case only, which Spark cannot tell apart: {pairs}"
    key = KEYS[kind].split(":")[0]
    mode = f"(schema.{key}: {getattr(spec.schema_policy, key)})"
    if kind == "type":
        pairs = _first([f"{source_name(d.path)} is {d.arrived}, promised {d.promised}" for d in differences])
        return f"{pairs} {mode}{_uses(differences)}"
    names = _first([source_name(d.path) for d in differences])
    if all(d.outcome == "widened" for d in differences):
        return f"new columns {names}, taken over {mode}; nothing reads them yet"
    return f"undeclared columns {names} {mode}"


def _uses(differences: Sequence[Difference]) -> str:
    readers = list(dict.fromkeys(reader for d in differences for reader in d.used_by))
    return f"; read by {_first(readers)}" if readers else ""


def _first(names: Sequence[str]) -> str:
    return first_of(names, NAMED)
