"""Staging: bronze rows cast to their types, each with its reasons and its flags. Built as one lazy frame.

Belongs here: facts of a row by itself and within its batch. Does not: writing it, or judging the batch.

Columns besides the declared ones: `p_extracted_at`, `extraction_seq`, `_content_hash`, `_absent` (declared columns that
the row's file lacks), `_failed_<n>` (bits of the row checks), `_reasons` (NULL for none), `_clean`,
`_newest`, `_conflict`, `_ordinal`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.base import Check, CheckContext
from lakehouse_assets.checks.dependencies import row_prerequisites
from lakehouse_assets.checks.families import RowCheck
from lakehouse_assets.checks.kinds.references import ForeignKey
from lakehouse_assets.checks.sql.text import identifier, literal, parse_expression
from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.check_context import check_context
from lakehouse_assets.contracts.source import safe_name
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.decisions.gate import is_waived
from lakehouse_assets.decisions.personal import MASKED, may_be_misplaced
from lakehouse_assets.measures.batches import batches_sql
from lakehouse_assets.measures.duplicates import flag_distinct, flag_duplicates
from lakehouse_assets.measures.frames import all_of
from lakehouse_assets.measures.hints import READABLE_MESSAGE, Hints, number_hints, record_hints, with_hints
from lakehouse_assets.measures.scan import BITS, READABLE, bit, fails_any
from lakehouse_assets.measures.typed import typed_columns

SHOWN = 200
REASONS = "array<struct<check: string, column: string, severity: string, value: string, message: string>>"


@dataclass(frozen=True)
class RowRule:
    """One row check of a staging: declared, or built in (readable rows, casts, keys). ``column``: the columns that it looks at,
    with commas between. ``removes``: failing rows leave.
    ``hints``: SQL of when the message has an addition, and the addition.
    """

    id: str
    failing: str
    value: str
    column: str
    message: str
    removes: bool
    severity: str = "critical"
    hints: Hints = ()


def row_rules(spec: TableContract, waived: Collection[str] = ()) -> list[RowRule]:
    """Return every row rule in bit order: the built-in ones, then the declared row checks in the order of the YAML.

    ``waived``: ids that an override ignores; checks that depend on them also check their failing rows.
    """
    corrupt = "_corrupt_record"
    unreadable, hints = f"{corrupt} IS NOT NULL", record_hints(spec)
    rules = [RowRule(READABLE, unreadable, corrupt, corrupt, READABLE_MESSAGE, True, hints=hints)]
    for name, column in spec.columns.items():
        failed, raw = identifier(f"_uncast_{name}"), identifier(f"_raw_{name}")
        message = f"{name} can be read as {column.type}"
        rules.append(RowRule(f"cast_{name}", failed, raw, name, message, True, hints=number_hints(spec, column, raw)))
    rules += [replace(rule, failing=f"({corrupt} IS NULL AND {rule.failing})") for rule in key_rules(spec.key)]
    if spec.extraction.delete_when:
        rules.append(_delete_rule(spec.extraction.delete_when))
    declared = declared_rules(spec.checks, check_context(spec), waived)
    return rules + [replace(rule, failing=f"({corrupt} IS NULL AND {rule.failing})") for rule in declared]


def key_rules(key: Sequence[str]) -> list[RowRule]:
    """Return the rule that a row has its whole key; none without a key."""
    missing, names = " OR ".join(f"{identifier(name)} IS NULL" for name in key), ", ".join(key)
    return [RowRule("key_not_null", f"({missing})", "NULL", names, f"key ({names}) is not null", True)] if key else []


def _delete_rule(delete_when: str) -> RowRule:
    """Return a rule that no row fails: it evaluates the condition at staging, so that an error is this batch's. Else the fold
    would fail for ever.
    """
    condition = parse_expression(delete_when, "delete_when").sql(dialect="spark")
    # Spark cannot optimize the condition away, since it does not know the length of the text `true` or `false`.
    failing = f"(coalesce(length(CAST(({condition}) AS STRING)), 0) > 5)"
    return RowRule("delete_when", failing, "NULL", "", "delete_when can be evaluated", True)


def declared_rules(checks: Sequence[Check], context: CheckContext, waived: Collection[str] = ()) -> list[RowRule]:
    """Return the declared row checks as rules, in their order. Rows that fail a check's prerequisites do not fail it, and it is
    not evaluated on them: its expression may be an error there.
    """
    ignored = {check.id for check in checks if is_waived(check.id, waived)}
    rules = []
    for check in checks:
        if isinstance(check, RowCheck) and check.scope == "row":
            column = check.value_column or ""
            value = f"CAST({identifier(column)} AS STRING)" if column else "NULL"
            failing = check.failing(context)
            if first := row_prerequisites(check, checks, ignored):
                skipped = " ".join(f"WHEN {other.failing(context)} THEN FALSE" for other in first)
                failing = f"CASE {skipped} ELSE {failing} END"
            columns = ", ".join(check.own_columns)  # whether one of them is personal says what a reason may show
            rules.append(RowRule(check.id, failing, value, columns, check.message(), check.removes_rows, check.severity))
    return rules


def stage(
    bronze: DataFrame,
    spec: TableContract,
    *,
    waived: Collection[str] = (),
    broken: Mapping[str, Collection[Batch]] | None = None,
    only: str | None = None,
    others: Mapping[str, DataFrame] | None = None,
    all_differ: bool = False,
    all_readable: bool = False,
) -> DataFrame:
    """Return the staged frame of a bronze frame. ``waived``: checks that an override ignores (``*``: all that can be).

    ``others``: the silver of the tables of foreign keys; a key of any other table has no match.

    ``broken``: rules (or ``column:<name>``) that are not evaluated in these batches, since their expression stops the scan.
    ``all_differ``: no key is on two rows of a batch, so the rows are not sorted.
    ``all_readable``: no record is corrupt, so neither its text nor its file's columns are read.
    ``only``: return the flag of this one rule and nothing else, to test whether it stops the scan.
    """
    broken = broken or {}
    rules = [rule for rule in row_rules(spec, waived) if only in (None, rule.id)]
    typed = typed_columns(spec, bronze.columns)
    cells, uncast = [], []
    for column in typed:
        unread = broken.get(f"column:{column.name}", ())
        value = _unless(unread, column.value, f"CAST(NULL AS {spec.columns[column.name].type})")
        cells += [_named(value, column.name), _named(column.raw, f"_raw_{column.name}")]
        uncast.append(_named(_unless(unread, column.failed, "false"), f"_uncast_{column.name}"))
    corrupt = "CAST(NULL AS STRING) AS _corrupt_record" if all_readable else "_corrupt_record"
    rows = bronze.selectExpr(*cells, "p_extracted_at", "extraction_seq", "_content_hash", corrupt, "_columns")
    rows = with_matches(rows.selectExpr("*", *uncast), spec.checks, others or {})
    flags = [_named(_unless(broken.get(rule.id, ()), rule.failing, "false"), f"_c{i}") for i, rule in enumerate(rules)]
    if only is not None:
        return rows.selectExpr(*flags)
    # Only the row of an unreadable file has no columns.
    unreadable = "_corrupt_record IS NOT NULL AND size(_columns) = 0 AS _unreadable"
    rows = with_reasons(rows.selectExpr("*", *flags), rules, spec.pii_columns, waived)
    rows = rows.selectExpr("*", _absent(spec), unreadable)
    columns = [*spec.columns, "p_extracted_at", "extraction_seq", "_content_hash", "_absent", "_unreadable"]
    columns += [c for c in rows.columns if c.startswith("_failed_")] + ["_reasons", "_clean"]
    rows = rows.selectExpr(*map(identifier, columns))
    return flag_distinct(rows) if all_differ else flag_duplicates(rows, spec.key, spec.last_modified)


def _named(sql: str, name: str) -> str:
    """Return SQL of a column. The text may be of an extension: what ends it is on a line of its own, after any comment."""
    return f"({sql}\n) AS {identifier(name)}"


def _absent(spec: TableContract) -> str:
    """Return SQL: the declared columns that the row's file lacks."""
    sources = {name: [literal(safe_name(each).lower()) for each in spec.source_columns(name)] for name in spec.columns}
    declared = ", ".join(f"named_struct('n', {literal(name)}, 's', array({', '.join(s)}))" for name, s in sources.items())
    present = "transform(_columns, x -> lower(x))"
    return f"transform(filter(array({declared}), x -> NOT arrays_overlap({present}, x.s)), x -> x.n) AS _absent"


def with_matches(rows: DataFrame, checks: Sequence[Check], others: Mapping[str, DataFrame]) -> DataFrame:
    """Add for each foreign key whether the other table has its match. No row is added: the matches are distinct."""
    for check in checks:
        if not isinstance(check, ForeignKey):
            continue
        other = others.get(check.table)
        if other is None:
            rows = rows.withColumn(check.match_column, F.lit(False))
            continue
        names = [f"_to_{index}" for index, _ in enumerate(check.columns)]
        matches = other.select(*[F.col(identifier(c)).alias(n) for c, n in zip(check.reads.columns, names, strict=True)])
        matches = matches.distinct().withColumn(check.match_column, F.lit(True))
        same = all_of(F.col(identifier(own)) == F.col(name) for own, name in zip(check.columns, names, strict=True))
        rows = rows.join(matches, same, "left").drop(*names)
    return rows


def flag_typed_rows(
    rows: DataFrame,
    checks: Sequence[Check],
    context: CheckContext,
    pii: Collection[str],
    others: Mapping[str, DataFrame],
    broken: Mapping[str, Collection[Batch]] | None = None,
    built_in: Sequence[RowRule] = (),
) -> DataFrame:
    """Add to typed rows (gold's, published ones, a frame's) the flags of these checks, their reasons and `_clean`. ``broken``:
    as in `stage`. ``built_in``: rules before those of the checks.
    """
    broken = broken or {}
    rules = [*built_in, *declared_rules(checks, context)]
    rules = [replace(r, failing=_unless(broken.get(r.id, ()), r.failing, "false")) for r in rules]
    rows = with_matches(rows, checks, others)
    rows = rows.selectExpr("*", *[_named(rule.failing, f"_c{index}") for index, rule in enumerate(rules)])
    return with_reasons(rows, rules, pii).drop(*[f"_c{index}" for index in range(len(rules))])


def with_reasons(rows: DataFrame, rules: Sequence[RowRule], pii: Collection[str], waived: Collection[str] = ()) -> DataFrame:
    """Turn the flags `_c0`, `_c1`, … of these rules into bits, reasons and `_clean`."""
    # The bits first, and the rest from them: Spark would store or recompute a flag that is used twice.
    rows = rows.selectExpr("*", *_bits(len(rules)))
    removing = [index for index, rule in enumerate(rules) if rule.removes and not is_waived(rule.id, waived)]
    return rows.selectExpr("*", _reasons(pii, rules), f"NOT {fails_any(removing)} AS _clean")


def _unless(batches: Collection[Batch], sql: str, otherwise: str) -> str:
    if not batches:
        return sql
    return f"CASE WHEN {batches_sql(batches)} THEN {otherwise} ELSE {sql} END"


# As text, since each call on a column is a message to Java: of thirty rules two thousand took half a second.
def _bits(count: int) -> list[str]:
    columns = []
    for start in range(0, count, BITS):
        positions = range(start, min(start + BITS, count))
        flags = [f"CASE WHEN _c{position} THEN {bit(position)[1]}L ELSE 0L END" for position in positions]
        columns.append(f"{' | '.join(flags)} AS {bit(start)[0]}")
    return columns


def _reasons(pii: Collection[str], rules: Sequence[RowRule]) -> str:
    misplacing = [index for index, rule in enumerate(rules) if may_be_misplaced(rule.id, rule.column.split(", "), pii)]
    entries = []
    for position, rule in enumerate(rules):
        # A row with misplaced values shows none of them.
        value = literal(MASKED) if position in misplacing else f"left({rule.value}, {SHOWN})"
        if misplacing and position not in misplacing:
            value = f"CASE WHEN {fails_any(misplacing)} THEN {literal(MASKED)} ELSE {value} END"
        texts = {"check": rule.id, "column": rule.column, "severity": rule.severity}
        cells = [f"'{name}', {literal(text)}" for name, text in texts.items()]
        cells += [f"'value', CAST({value} AS STRING)", f"'message', {with_hints(rule.message, rule.hints)}"]
        entries.append(f"CASE WHEN {fails_any([position])} THEN named_struct({', '.join(cells)}) END")
    # Typed, since Delta refuses the untyped array of no rules.
    reasons = f"filter(CAST(array({', '.join(entries)}) AS {REASONS}), reason -> reason IS NOT NULL)"
    # Nearly every row has no reason: nothing is built or written for it.
    return f"CASE WHEN {fails_any(range(len(rules)))} THEN {reasons} END AS _reasons"


def quarantine_reasons() -> Column:
    """Return `reasons` of a quarantined row: an empty list if only its batch is quarantined."""
    return F.coalesce(F.col("_reasons"), F.array().cast(REASONS)).alias("reasons")
