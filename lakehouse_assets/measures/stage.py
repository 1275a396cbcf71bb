"""Staging: bronze rows cast to their types, each with its reasons and its flags. Built as one lazy frame.

Belongs here: what is known of a row by itself and within its own batch. Does not: writing it, or judging the batch.

Columns beside the declared ones: `p_extracted_at`, `extraction_seq`, `_content_hash`, `_absent` (declared columns that
the row's file did not have), `_failed_<n>` (bits of the row checks), `_reasons` (NULL for none), `_clean`,
`_newest`, `_conflict`, `_ordinal`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.base import Check, CheckContext, RowCheck
from lakehouse_assets.checks.dependencies import rows_passed_over
from lakehouse_assets.checks.kinds.references import ForeignKey
from lakehouse_assets.checks.sql_text import identifier, literal
from lakehouse_assets.contracts.source import safe_name
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Cadence
from lakehouse_assets.decisions.gate import MASKED, is_waived
from lakehouse_assets.measures.duplicates import flag_duplicates, unrepeated
from lakehouse_assets.measures.scan import BITS, any_of, bit
from lakehouse_assets.measures.typed import typed_columns

Batch = tuple[datetime, int]
SHOWN = 200
REASONS = "array<struct<check: string, column: string, severity: string, value: string, message: string>>"
STEP = {"hourly": "INTERVAL 1 HOUR", "daily": "INTERVAL 1 DAY", "weekly": "INTERVAL 7 DAY", "monthly": "INTERVAL 1 MONTH"}


@dataclass(frozen=True)
class RowRule:
    """One row check of a staging: declared, or built in (readable rows, casts, keys). ``removes``: a failing row is held."""

    id: str
    failing: str
    value: str
    column: str
    message: str
    removes: bool
    severity: str = "critical"


def check_context(spec: TableSpec) -> CheckContext:
    """What a check may know of the batch it is written for."""
    return CheckContext(
        key=spec.key,
        window_start_sql="p_extracted_at",
        window_end_sql=window_end(spec.extraction.cadence),
        batch_view="batch",
        last_modified=spec.last_modified,
    )


def window_end(cadence: Cadence) -> str:
    """SQL of the end of the row's window."""
    return f"(p_extracted_at + {STEP[cadence]})"


def row_rules(spec: TableSpec, waived: Collection[str] = ()) -> list[RowRule]:
    """Every row rule in bit order: the built-in ones, then the declared row checks as they stand in the YAML.

    ``waived``: what an override ignores; who depends on these looks at their failing rows as well.
    """
    rules = [
        RowRule(
            "readable_row", "_corrupt_record IS NOT NULL", "_corrupt_record", "_corrupt_record", "the record can be read", True
        )
    ]
    for name, column in spec.columns.items():
        failed, raw = identifier(f"_uncast_{name}"), identifier(f"_raw_{name}")
        rules.append(RowRule(f"cast_{name}", failed, raw, name, f"{name} can be read as {column.type}", True))
    if spec.key:
        missing = " OR ".join(f"{identifier(name)} IS NULL" for name in spec.key)
        failing = f"(_corrupt_record IS NULL AND ({missing}))"
        rules.append(
            RowRule("key_not_null", failing, "NULL", ", ".join(spec.key), f"key ({', '.join(spec.key)}) is not null", True)
        )
    readable = [
        replace(r, failing=f"(_corrupt_record IS NULL AND {r.failing})")
        for r in declared_rules(spec.checks, check_context(spec), waived)
    ]
    return rules + readable


def declared_rules(checks: Sequence[Check], context: CheckContext, waived: Collection[str] = ()) -> list[RowRule]:
    """The declared row checks as rules, in their order. Rows that fail what a check depends on do not fail it."""
    ignored = {check.id for check in checks if is_waived(check.id, waived)}
    rules = []
    for check in checks:
        if isinstance(check, RowCheck) and check.scope == "row":
            column = check.value_column or ""
            value = f"CAST({identifier(column)} AS STRING)" if column else "NULL"
            failing = check.failing(context)
            if first := rows_passed_over(check, checks, ignored):
                failing = f"({failing} AND NOT ({' OR '.join(other.failing(context) for other in first)}))"
            rules.append(RowRule(check.id, failing, value, column, check.message(), check.removes_rows, check.severity))
    return rules


def select_batches(bronze: DataFrame, batches: Collection[Batch]) -> DataFrame:
    """The rows of these extractions, with partition pruning; one predicate per distinct sequence number."""
    by_seq: dict[int, list[datetime]] = {}
    for start, seq in batches:
        by_seq.setdefault(seq, []).append(start)
    chosen = F.lit(False)
    for seq, starts in sorted(by_seq.items()):
        moments = ", ".join(literal(start) for start in sorted(starts))
        chosen = chosen | (F.expr(f"p_extracted_at IN ({moments})") & (F.col("extraction_seq") == seq))
    return bronze.where(chosen)


def stage(
    bronze: DataFrame,
    spec: TableSpec,
    *,
    waived: Collection[str] = (),
    broken: Mapping[str, Collection[Batch]] | None = None,
    only: str | None = None,
    others: Mapping[str, DataFrame] | None = None,
    all_differ: bool = False,
    all_readable: bool = False,
) -> DataFrame:
    """The staged frame of a bronze frame. ``waived``: checks that an override ignores (``*``: all that can be).

    ``others``: the silver of the tables that foreign keys point at; a key whose table is not among them is not found.

    ``broken``: rules (or ``column:<name>``) whose expression stops the scan in these batches; there it is not evaluated.
    ``all_differ``: it is known that no key stands on two rows of a batch, so that the rows need not be sorted to find out.
    ``all_readable``: it is known that no record is corrupt, so that neither its text nor its file's columns are read for that.
    ``only``: the flag of this one rule and nothing else, to find out whether it is the one that stops the scan.
    """
    broken = broken or {}
    rules = [rule for rule in row_rules(spec, waived) if only in (None, rule.id)]
    available = set(bronze.columns)
    typed = typed_columns(spec, available)
    cells = [
        F.expr(_unless(broken.get(f"column:{c.name}", ()), c.value, f"CAST(NULL AS {spec.columns[c.name].type})")).alias(c.name)
        for c in typed
    ]
    cells += [F.expr(c.raw).alias(f"_raw_{c.name}") for c in typed]
    corrupt = F.lit(None).cast("string").alias("_corrupt_record") if all_readable else F.col("_corrupt_record")
    rows = bronze.select(*cells, "p_extracted_at", "extraction_seq", "_content_hash", corrupt, "_columns")
    uncast = [F.expr(_unless(broken.get(f"column:{c.name}", ()), c.failed, "false")).alias(f"_uncast_{c.name}") for c in typed]
    rows = with_matches(rows.select("*", *uncast), spec.checks, others or {})
    flags = [F.expr(_unless(broken.get(rule.id, ()), rule.failing, "false")).alias(f"_c{i}") for i, rule in enumerate(rules)]
    if only is not None:
        return rows.select(*flags)
    # Only the row that stands for a whole unreadable file has no columns.
    unreadable = F.col("_corrupt_record").isNotNull() & (F.size("_columns") == 0)
    rows = with_reasons(rows.select("*", *flags), rules, spec.pii_columns, waived)
    rows = rows.select("*", _absent(spec).alias("_absent"), unreadable.alias("_unreadable"))
    kept = [*spec.columns, "p_extracted_at", "extraction_seq", "_content_hash", "_absent", "_unreadable"]
    kept += [c for c in rows.columns if c.startswith("_failed_")] + ["_reasons", "_clean"]
    rows = rows.select(*[F.col(identifier(c)) for c in kept])
    return unrepeated(rows) if all_differ else flag_duplicates(rows, spec.key, spec.last_modified)


def _absent(spec: TableSpec) -> Column:
    """Declared columns that the row's file did not have."""
    sources = {name: safe_name(spec.source_column(name)).lower() for name in spec.columns}
    declared = [F.struct(F.lit(name).alias("n"), F.lit(source).alias("s")) for name, source in sources.items()]
    had = F.transform(F.col("_columns"), F.lower)
    absent = F.filter(F.array(*declared), lambda x: ~F.array_contains(had, x["s"]))
    return F.transform(absent, lambda x: x["n"])


def with_matches(rows: DataFrame, checks: Sequence[Check], others: Mapping[str, DataFrame]) -> DataFrame:
    """Rows with, for each foreign key, whether the other table has its match. No row is added: the matches are distinct."""
    for check in checks:
        if not isinstance(check, ForeignKey):
            continue
        other = others.get(check.table)
        if other is None:
            rows = rows.withColumn(check.found, F.lit(False))
            continue
        names = [f"_to_{place}" for place, _ in enumerate(check.columns)]
        matches = other.select(*[F.col(identifier(c)).alias(n) for c, n in zip(check.reads.columns, names, strict=True)])
        matches = matches.distinct().withColumn(check.found, F.lit(True))
        same = F.lit(True)
        for own, name in zip(check.columns, names, strict=True):
            same = same & (F.col(identifier(own)) == F.col(name))
        rows = rows.join(matches, same, "left").drop(*names)
    return rows


def flagged(
    rows: DataFrame,
    checks: Sequence[Check],
    context: CheckContext,
    pii: Collection[str],
    others: Mapping[str, DataFrame],
    broken: Collection[str] = (),
) -> DataFrame:
    """Rows that are typed already (gold's, or published ones) with the flags of these checks, their reasons and `_clean`.

    ``broken``: checks that are not to be evaluated.
    """
    rules = [replace(r, failing="false") if r.id in broken else r for r in declared_rules(checks, context)]
    rows = with_matches(rows, checks, others)
    rows = rows.select("*", *[F.expr(rule.failing).alias(f"_c{place}") for place, rule in enumerate(rules)])
    return with_reasons(rows, rules, pii).drop(*[f"_c{place}" for place in range(len(rules))])


def with_reasons(rows: DataFrame, rules: Sequence[RowRule], pii: Collection[str], waived: Collection[str] = ()) -> DataFrame:
    """Turn the flags `_c0`, `_c1`, … of these rules into bits, reasons and `_clean`."""
    # The bits first, and the rest from them: a flag that were used twice would be kept as a column or computed twice.
    rows = rows.select("*", *_bits(len(rules)))
    return rows.select("*", _reasons(pii, rules), _clean(rules, waived).alias("_clean"))


def _unless(batches: Collection[Batch], sql: str, otherwise: str) -> str:
    if not batches:
        return sql
    pairs = " OR ".join(
        f"(p_extracted_at = {literal(start)} AND extraction_seq = {int(seq)})" for start, seq in sorted(batches)
    )
    return f"CASE WHEN {pairs} THEN {otherwise} ELSE {sql} END"


def _bits(count: int) -> list[Column]:
    columns = []
    for start in range(0, count, BITS):
        total = F.lit(0).cast("bigint")
        for position in range(start, min(start + BITS, count)):
            flag = F.when(F.col(f"_c{position}"), F.lit(bit(position)[1]).cast("bigint")).otherwise(F.lit(0).cast("bigint"))
            total = total.bitwiseOR(flag)
        columns.append(total.alias(bit(start)[0]))
    return columns


def _reasons(pii: Collection[str], rules: Sequence[RowRule]) -> Column:
    hidden = {rule.id for rule in rules if set(pii) & set(rule.column.split(", "))}
    if pii:
        hidden.add("readable_row")  # an unreadable line may hold any column's value
    entries = []
    for position, rule in enumerate(rules):
        value = literal(MASKED) if rule.id in hidden else f"left({rule.value}, {SHOWN})"
        entry = F.struct(
            F.lit(rule.id).alias("check"),
            F.lit(rule.column).alias("column"),
            F.lit(rule.severity).alias("severity"),
            F.expr(value).cast("string").alias("value"),
            F.lit(rule.message).alias("message"),
        )
        entries.append(F.when(any_of([position]), entry))
    # Typed, since without any rule the array would be one of nothing, which Delta refuses.
    found = F.filter(F.array(*entries).cast(REASONS), lambda reason: reason.isNotNull())
    # Nearly every row has none: for those, nothing is built or written.
    return F.when(any_of(range(len(rules))), found).alias("_reasons")


def given_reasons() -> Column:
    """`reasons` as the quarantine keeps them: an empty list for a row that is held for its batch's sake alone."""
    return F.coalesce(F.col("_reasons"), F.array().cast(REASONS)).alias("reasons")


def _clean(rules: Sequence[RowRule], waived: Collection[str]) -> Column:
    return ~any_of([p for p, rule in enumerate(rules) if rule.removes and not is_waived(rule.id, waived)])
