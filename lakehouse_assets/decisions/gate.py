"""The gate's judgement of one batch: every check's outcome, then the verdict and what becomes of the rows.

Belongs here: numbers → outcomes → verdict, all pure. Does not: measuring, drift's statistics, or applying a verdict.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakehouse_assets.checks.base import LOOKED_AT, Check, CheckContext, Judgement, RowCheck
from lakehouse_assets.checks.consequences import consequence, judge_rows
from lakehouse_assets.checks.dependencies import in_order
from lakehouse_assets.checks.history import HistoryCheck, Past
from lakehouse_assets.contracts.decision import Counts, Decision, Reason, Verdict, finite
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.drift import DriftVerdict
from lakehouse_assets.decisions.numbers import BatchNumbers

# What no override can waive: there is nothing that could be published.
UNWAIVABLE = ("readable_row", "key_not_null")
MASKED = "(masked: pii)"
SCHEMA_CHECKS = ("source_columns", "new_columns", "source_types", "source_names")


@dataclass(frozen=True)
class Outcome:
    """One check of one batch. ``effect``: what it does to the batch: none, rows, batch or report."""

    check: str
    kind: str
    severity: str
    status: str
    effect: str
    failed_rows: int
    message: str
    observed: dict[str, Any] = field(default_factory=dict)
    waived: bool = False

    def as_dict(self) -> dict[str, Any]:
        """JSON-safe. `asdict` would copy what was observed, which takes a millisecond for the checks of one window."""
        return dict(vars(self))


def built_in(spec: TableSpec, numbers: BatchNumbers) -> list[Outcome]:
    """Outcomes of the checks that every table has: readable rows, castable values, keys that are there."""
    found = []
    personal = bool(spec.pii_columns)
    whole_file = numbers.unreadable > 0
    bad = numbers.failed_rows.get("readable_row", 0)
    message = f"{numbers.unreadable} file(s) could not be read" if whole_file else f"{bad} record(s) could not be read"
    effect = "batch" if whole_file else "rows"
    found.append(_counted("readable_row", "readable", bad, effect, message, numbers, personal))
    for name, column in spec.columns.items():
        failed = numbers.failed_rows.get(f"cast_{name}", 0)
        message = f"{failed} value(s) of {name} are no {column.type}"
        found.append(_counted(f"cast_{name}", "cast", failed, "rows", message, numbers, name in spec.pii_columns))
    if spec.key:
        failed = numbers.failed_rows.get("key_not_null", 0)
        message = f"{failed} row(s) without a whole key"
        found.append(_counted("key_not_null", "key", failed, "rows", message, numbers, personal))
    return found


def _counted(check: str, kind: str, failed: int, effect: str, message: str, numbers: BatchNumbers, hidden: bool) -> Outcome:
    error = numbers.errors.get(check)
    if error:
        return Outcome(check, kind, "critical", "error", "batch", 0, MASKED if hidden else error)
    if not failed:
        return Outcome(check, kind, "critical", "passed", "none", 0, "")
    return Outcome(check, kind, "critical", "failed", effect, failed, message, {"rows": numbers.rows_in})


def judge_checks(
    checks: Sequence[Check],
    context: CheckContext,
    numbers: BatchNumbers,
    pii: Collection[str],
    waived: Collection[str] = (),
    before: Callable[[HistoryCheck], Sequence[Past]] = lambda _: (),
    judged: Iterable[Outcome] = (),
    lacking: Collection[str] = (),
) -> list[Outcome]:
    """Outcomes of these checks, in their order. One that depends on another is judged after it, or skipped.

    ``before``: the windows that a check compares its batch with. ``judged``: outcomes of checks that were judged already.
    ``lacking``: columns that the batch does not have, of which no check says that it passed.
    """
    found = {outcome.check: outcome for outcome in judged}
    for check in in_order(checks):
        why = _in_the_way(check, checks, found, waived)
        if why:
            found[check.id] = Outcome(check.id, check.check, check.severity, "skipped", "none", 0, f"not judged: {why}")
        else:
            found[check.id] = _of_columns(check, _judged(check, context, numbers, pii, before), lacking)
    return [found[check.id] for check in checks]


def _of_columns(check: Check, outcome: Outcome, lacking: Collection[str]) -> Outcome:
    named = {name.lower() for name in check.columns_named} if lacking else set()
    if outcome.status != "passed" or not (used := sorted(name for name in lacking if name.lower() in named)):
        return outcome
    return replace(outcome, status="skipped", message=f"not judged: the batch lacks {', '.join(used)}")


def is_hidden(check: Check, pii: Collection[str]) -> bool:
    """Whether what a check tells may quote a value of these columns: what SQL over a whole batch reads is not known."""
    of_batch = isinstance(check, RowCheck) and check.scope != "row"
    return bool(set(check.columns_used) & set(pii)) or (of_batch and bool(pii))


def _in_the_way(check: Check, checks: Sequence[Check], found: Mapping[str, Outcome], waived: Collection[str]) -> str:
    """What a check depends on and did not hold; nothing where it can be judged."""
    rows = {other.id for other in checks if other.scope == "row"}
    for name in check.depends_on:
        first = found.get(name)
        if first is None:
            return f"{name} was not judged"
        if is_waived(name, waived) or first.status == "passed":
            continue
        if first.status in ("error", "skipped"):
            return f"{name} {'is in error' if first.status == 'error' else 'was skipped'}"
        # Rows that were removed are not in what a batch check measures; a row check passes over them one by one.
        if first.effect == "rows" or (first.effect != "batch" and {name, check.id} <= rows):
            continue
        return f"{name} failed"
    return ""


def _judged(
    check: Check,
    context: CheckContext,
    numbers: BatchNumbers,
    pii: Collection[str],
    before: Callable[[HistoryCheck], Sequence[Past]],
) -> Outcome:
    by_row = isinstance(check, RowCheck) and check.scope == "row"
    try:
        if check.id in numbers.errors:
            judged = Judgement("error", {}, numbers.errors[check.id], 0)
        elif isinstance(check, RowCheck) and by_row:
            judged = judge_rows(check, _rows_of(check, numbers), numbers.failed_rows.get(check.id, 0))
        elif isinstance(check, HistoryCheck):
            judged = check.judge_against(numbers.metrics.get(check.id, {}), context, before(check))
        else:
            judged = check.judge(numbers.metrics.get(check.id, {}), context)
    except Exception as error:
        # Fail closed: whatever a check stumbles over, the batch has not passed it.
        judged = Judgement("error", {}, f"{type(error).__name__}: {error}", 0)
    hidden = is_hidden(check, pii)
    return Outcome(
        check=check.id,
        kind=check.check,
        severity=check.severity,
        status=judged.status,
        effect=consequence(check, judged),
        failed_rows=judged.failed_rows,
        message=_said(check, judged.status, judged.message, hidden),
        observed={name: MASKED if hidden else finite(value) for name, value in judged.observed.items()},
    )


def _rows_of(check: RowCheck, numbers: BatchNumbers) -> int:
    """What a check's threshold is a share of. Raises KeyError where rows that it looks at were to be counted, and were not."""
    if not check.counts_where or not numbers.rows_in:
        return numbers.rows_in
    return int(numbers.metrics[check.id][LOOKED_AT])


def drift_outcome(verdict: DriftVerdict | None) -> list[Outcome]:
    """The drift decision as one more check."""
    if verdict is None:
        return []
    status = {"pass": "passed", "warn": "failed", "hold": "failed"}[verdict.action]
    if verdict.status == "error":
        status = "error"
    effect = {"pass": "none", "warn": "report", "hold": "batch"}[verdict.action]
    severity = "warning" if verdict.action == "warn" else "critical"
    observed = {
        "p_value": verdict.p_value,
        "score": verdict.score,
        "windows_known": verdict.windows_known,
        "status": verdict.status,
    }
    return [Outcome("drift", "drift", severity, status, effect, 0, verdict.message, observed)]


def waive(outcomes: Sequence[Outcome], waived: Collection[str]) -> list[Outcome]:
    """Take the effect from the checks that an override names (``*``: all that can be waived).

    A column whose expression stops the scan is not among them: its values are not known, and no later reading could have them.
    """
    return [
        replace(o, effect="none", waived=True)
        if o.effect in ("rows", "batch") and (o.kind, o.status) != ("cast", "error") and is_waived(o.check, waived)
        else o
        for o in outcomes
    ]


def is_waived(check: str, waived: Collection[str]) -> bool:
    """Whether an override names this check, by itself or by the name under which the UI shows it with others."""
    if check in UNWAIVABLE:
        return False
    return bool({check, "*", group_of(check)} & set(waived))


def group_of(check: str) -> str:
    """The one check that the UI shows for several: `casts` for each column's cast, `source_columns` for the schema."""
    if check.startswith("cast_"):
        return "casts"
    return "source_columns" if check in SCHEMA_CHECKS else check


def verdict_of(outcomes: Sequence[Outcome], numbers: BatchNumbers) -> tuple[Verdict, Counts]:
    """What is said of the batch, and where each of its rows goes."""
    if any(outcome.effect == "batch" for outcome in outcomes):
        return "quarantined", Counts(numbers.rows_in, 0, 0, numbers.rows_in, 0)
    counts = Counts(numbers.rows_in, numbers.newest, numbers.older, numbers.failing, 0)
    troubled = any(outcome.status in ("failed", "error") for outcome in outcomes)
    return ("published_with_warnings" if troubled else "published"), counts


def masked_now(decision: Decision, checks: Sequence[Check], pii: Collection[str]) -> Decision:
    """The decision as it is shown: what its checks told of columns that have been marked since is masked."""
    hidden = {check.id: check for check in checks if pii and is_hidden(check, pii)}
    shown = tuple(
        {
            **told,
            "observed": dict.fromkeys(told["observed"], MASKED),
            "message": _said(hidden[told["check"]], told["status"], told["message"], True),
        }
        if told["check"] in hidden
        else told
        for told in decision.checks
    )
    return replace(decision, checks=shown) if hidden else decision


def _said(check: Check, status: str, message: str, hidden: bool) -> str:
    # A row check counts; what else is said of a batch, or of an error, may quote a value.
    counts = isinstance(check, RowCheck) and check.scope == "row" and status != "error"
    return MASKED if hidden and message and not counts else message


def completed(decision: Decision, later: Sequence[Outcome]) -> Decision:
    """The decision, read with what its checks said, and what its batch's later checks said: they hold nothing, and can make a
    warning of it.
    """
    if not later:
        return decision
    reasons = reasons_of(later)
    verdict = "published_with_warnings" if decision.verdict == "published" and reasons else decision.verdict
    told = (*decision.checks, *(outcome.as_dict() for outcome in later))
    return replace(decision, verdict=verdict, reasons=(*decision.reasons, *reasons), checks=told)


def reasons_of(outcomes: Sequence[Outcome]) -> tuple[Reason, ...]:
    """What did not pass, blocking ones first."""
    order = {"batch": 0, "rows": 1, "report": 2, "none": 3}
    bad = [o for o in outcomes if o.status in ("failed", "error")]
    return tuple(
        Reason(o.check, o.severity, o.status, "waived" if o.waived else o.effect, o.failed_rows, o.message)
        for o in sorted(bad, key=lambda o: order[o.effect])
    )
