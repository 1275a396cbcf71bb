"""Rows of chosen batches, and the batches in which an expression fails, so that one bad value affects no other batch or check.

Belongs here: selecting batches, bisection to single ones, staging without the failing rules. Does not: what is tried, or an
error's text (error_text).
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.base import Check
from lakehouse_assets.checks.dependencies import row_prerequisites
from lakehouse_assets.checks.sql.text import literal
from lakehouse_assets.contracts.batch import Batch, start_of
from lakehouse_assets.measures.error_text import error_text
from lakehouse_assets.measures.frames import any_of, moment
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage.disk_errors import find_disk_fault

# Spark looks for more values than these by their hashes, and does not name them either (spark.sql.optimizer.
# inSetConversionThreshold).
MOST_LISTED = 10
# Rules (or ``column:<name>``) that cannot be evaluated, each with its failing batches and their errors.
Broken = Mapping[str, Mapping[Batch, str]]
Build = Callable[[DataFrame, Broken], DataFrame]


def batches_sql(batches: Collection[Batch]) -> str:
    """Return SQL that is true for the rows of these batches."""
    return " OR ".join(f"(p_extracted_at = {literal(at)} AND extraction_seq = {int(seq)})" for at, seq in sorted(batches))


def select_batches(rows: DataFrame, batches: Collection[Batch]) -> DataFrame:
    """Return the rows of these extractions: one predicate per distinct sequence number. It skips no file of a Delta table:
    `storage.delta_reads.read_windows` does.
    """
    by_seq: dict[int, set[datetime]] = {}
    for batch in batches:
        by_seq.setdefault(batch[1], set()).add(start_of(batch))
    return rows.where(any_of(_is_one_of(starts) & (F.col("extraction_seq") == seq) for seq, starts in sorted(by_seq.items())))


def without_batches(rows: DataFrame, batches: Collection[Batch]) -> DataFrame:
    """Return the rows of all other extractions."""
    return rows.where(f"NOT ({batches_sql(batches)})")


def _is_one_of(starts: Collection[datetime]) -> Column:
    """Whether `p_extracted_at` is one of these moments. The program that Spark makes of it does not name them, so that it is
    made and compiled once, and not for each window anew.
    """
    moments = ", ".join(literal(start) for start in sorted(starts))
    few = len(starts) <= MOST_LISTED
    return F.expr(f"array_contains(array({moments}), p_extracted_at)" if few else f"p_extracted_at IN ({moments})")


def batches_of(rows: DataFrame) -> list[Batch]:
    """Return the batches of these rows, sorted. Collects a row each."""
    distinct = rows.select(F.unix_micros("p_extracted_at").alias("window"), "extraction_seq").distinct().collect()
    return sorted((moment(row["window"]), row["extraction_seq"]) for row in distinct)


def one_of_each_window(batches: Collection[Batch]) -> list[list[Batch]]:
    """Return the batches in groups without two of one window: queries by window cannot distinguish them. Usually one group."""
    groups: list[list[Batch]] = []
    count: Counter[datetime | None] = Counter()
    for batch in sorted(batches):
        if count[batch[0]] == len(groups):
            groups.append([])
        groups[count[batch[0]]].append(batch)
        count[batch[0]] += 1
    return groups


def error_of(attempt: Callable[[], object], *, personal: bool) -> str | None:
    """Return the error of an attempt as text; None if it succeeds. A disk's error is raised.

    ``personal``: the rows have personal values, which no error may quote.
    """
    try:
        attempt()
    except SCAN_ERRORS as error:
        if find_disk_fault(error):
            raise
        return error_text(error, personal)
    return None


def isolate_failures(
    batches: Sequence[Batch], attempt: Callable[[Sequence[Batch]], object], *, personal: bool
) -> dict[Batch, str]:
    """Return the single batches for which ``attempt`` fails, with their errors (`error_of`). Bisects: good ones cost little."""
    error = error_of(partial(attempt, batches), personal=personal) if batches else None
    if error is None:
        return {}
    if len(batches) == 1:
        return {batches[0]: error}
    half = len(batches) // 2
    first = isolate_failures(batches[:half], attempt, personal=personal)
    return first | isolate_failures(batches[half:], attempt, personal=personal)


def stage_or_isolate(
    rows: DataFrame,
    batches: Collection[Batch],
    build: Build,
    probes: Callable[[], Mapping[str, Build]],
    store: Callable[[DataFrame], DataFrame],
    missing: Broken,
    *,
    personal: bool,
) -> tuple[DataFrame, Broken]:
    """Return the staged rows of these batches, stored once, and the broken rules. An expression that stops the staging puts
    only its rule in error, in the batches where it fails.

    ``build``: rows, and rules not to evaluate → staged rows. ``probes``: for each rule, what computes it alone. ``missing``:
    rules that cannot be evaluated anyway.
    """
    try:
        return store(build(rows, missing)), missing
    except SCAN_ERRORS:
        broken = failing_rules(rows, batches, probes(), missing, personal=personal)
        if broken.keys() <= missing.keys():
            raise
        return store(build(rows, broken)), broken


def failing_rules(
    rows: DataFrame, batches: Collection[Batch], probes: Mapping[str, Build], missing: Broken, *, personal: bool
) -> Broken:
    """Return the broken rules, bisected by batch. Each probe evaluates one expression over the rows, and writes nothing."""
    broken = dict(missing)

    def attempt(probe: Build, some: Sequence[Batch]) -> None:
        evaluate(probe(select_batches(rows, some), broken))

    for name, probe in probes.items():
        if name not in missing:
            failures = isolate_failures(sorted(batches), partial(attempt, probe), personal=personal)
            broken |= {name: failures} if failures else {}
    return broken


def row_probes(checks: Sequence[Check], build: Callable[[DataFrame, Sequence[Check]], DataFrame]) -> dict[str, Build]:
    """Return a probe for each row check, which computes it and its prerequisites."""

    def probe(check: Check, rows: DataFrame, _: Broken) -> DataFrame:
        return build(rows, [*row_prerequisites(check, checks), check])

    return {check.id: partial(probe, check) for check in checks if check.scope == "row"}


def errors_by_batch(broken: Broken) -> dict[Batch, dict[str, str]]:
    """Return the broken rules by batch: ``{check: message}``. A column that cannot be evaluated is an error of its cast."""
    errors: dict[Batch, dict[str, str]] = {}
    for name, failures in broken.items():
        check = f"cast_{name.removeprefix('column:')}" if name.startswith("column:") else name
        for batch, message in failures.items():
            errors.setdefault(batch, {})[check] = message
    return errors


def errors_of(attempts: Mapping[str, Callable[[], object]]) -> dict[str, str]:
    """Return the attempts that fail, by name, each with its error (`error_of`), which may quote a row."""
    errors = {name: error_of(attempt, personal=False) for name, attempt in attempts.items()}
    return {name: error for name, error in errors.items() if error is not None}


def evaluate(frame: DataFrame) -> None:
    """Compute every row, and store none."""
    frame.write.format("noop").mode("overwrite").save()
