"""The judgement of one table's audit: each rule's answer, then the verdict; and the coverage over all tables.

Belongs here: answers → verdicts, and uncovered rules (pure). Does not: shares and their intervals (share), measuring (audit).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lakehouse_assets.contracts.audit import AuditRule
from lakehouse_assets.contracts.audit_binding import Bound, matches
from lakehouse_assets.decisions.audit.share import Share

Verdict = Literal["passed", "passed_with_infos", "passed_with_warnings", "stopped"]
Status = Literal["pass", "fail", "inconclusive", "exception"]


@dataclass(frozen=True)
class RuleResult:
    """A rule at its columns. ``share``: None if it counts no rows (uniqueness) or failed. ``examples``: failing values, masked
    for personal columns. ``escalated``: the sample was inconclusive, and the whole table was read.
    """

    rule: str
    columns: tuple[str, ...]
    kind: str
    severity: str
    threshold: float
    promise: str
    status: Status
    message: str
    share: Share | None = None
    escalated: bool = False
    examples: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The rule and its columns."""
        return f"{self.rule}({', '.join(self.columns)})"

    def as_dict(self) -> dict[str, Any]:
        """JSON-safe."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def judge_share(bound: Bound, share: Share, *, escalated: bool = False, examples: Sequence[str] = ()) -> RuleResult:
    """Return the result of a rule of single rows, from its share."""
    threshold = bound.rule.threshold
    status, promised = share.answer(threshold), f"{format_percent(threshold)} promised"
    if status == "pass":
        message = ""
    elif share.exact:
        message = f"{share.failed} of {share.looked_at} rows fail: {format_percent(share.estimate)} pass, {promised}"
    else:
        interval = f"{format_percent(share.low)} to {format_percent(share.high)}"
        undecided = "; the sample cannot tell" if status == "inconclusive" else ""
        estimate = f"about {format_percent(share.estimate)} pass ({interval})"
        message = f"{share.failed} of {share.looked_at} sampled rows fail: {estimate}, {promised}{undecided}"
    return _result(bound, status, message, share, escalated, examples)


def judge_unique(bound: Bound, rows: int, duplicates: int) -> RuleResult:
    """Return the result of a uniqueness rule, counted in full. ``duplicates``: values on more than one of the table's rows."""
    what = f"({', '.join(bound.columns)})"
    message = f"{duplicates} value(s) of {what} stand on more than one of {rows} rows" if duplicates else ""
    return _result(bound, "fail" if duplicates else "pass", message, None, True, ())


def exception_result(bound: Bound, message: str) -> RuleResult:
    """Return the result of a rule that could not be evaluated: never a pass."""
    return _result(bound, "exception", message, None, False, ())


def _result(
    bound: Bound, status: Status, message: str, share: Share | None, escalated: bool, examples: Sequence[str]
) -> RuleResult:
    rule = bound.rule
    check: Any = bound.check
    promise = check.message() if hasattr(check, "message") else f"({', '.join(bound.columns)}) on one row only"
    return RuleResult(
        rule.name, bound.columns, check.check, rule.severity, rule.threshold, promise, status, message, share, escalated,
        tuple(examples),
    )  # fmt: skip


def decide_verdict(results: Sequence[RuleResult], lost: Collection[Any] = ()) -> Verdict:
    """Return the verdict of a table whose audit ended. A rule's exception or a critical failure stops it. An inconclusive rule,
    a rule that lost its columns, and a table without any rule are warnings.
    """
    bad = [r for r in results if r.status == "fail"]
    if any(r.status == "exception" for r in results) or any(r.severity == "critical" for r in bad):
        return "stopped"
    left_open = [r for r in results if r.status == "inconclusive" and r.severity != "info"]
    if left_open or lost or not results or any(r.severity == "warning" for r in bad):
        return "passed_with_warnings"
    return "passed_with_infos" if bad or any(r.status == "inconclusive" for r in results) else "passed"


@dataclass(frozen=True)
class Unmatched:
    """A rule, or one of its patterns (``pattern``), that matches no column of any table. ``fails``: whether the audit fails."""

    rule: str
    pattern: str | None
    severity: str
    fails: bool


def find_unmatched(
    rules: Sequence[AuditRule], columns: Mapping[str, Collection[str]], bound: Collection[str]
) -> list[Unmatched]:
    """Return unmatched rules. ``columns``: the leaves of every table. ``bound``: names of rules that are bound somewhere. A
    critical rule that is bound nowhere fails the audit, unless it sets `allow_unmatched`; one pattern of several never does.
    """
    results = []
    for rule in rules:
        if rule.name not in bound:
            fails = rule.severity == "critical" and not rule.allow_unmatched
            results.append(Unmatched(rule.name, None, rule.severity, fails))
            continue
        names = {name for table, leaves in columns.items() if rule.of_table(table) for name in leaves}
        for pattern in rule.columns:
            alone = rule.model_copy(update={"columns": (pattern,), "not_columns": ()})
            if not any(matches(alone, name) for name in names):
                results.append(Unmatched(rule.name, pattern, rule.severity, False))
    return results


def find_lost_columns(
    before: Sequence[tuple[str, str]], now: Sequence[tuple[str, str]], table_names: Collection[str]
) -> list[tuple[str, str]]:
    """Return ``(rule, column)`` of the last audit that this one lacks, of rules that still exist (``table_names``)."""
    return sorted({pair for pair in {*before} - {*now} if pair[0] in table_names})


def format_percent(share: float) -> str:
    """A share for people; one that is not quite whole never reads as 100 %."""
    text = f"{share:.2%}"
    if text == "100.00%" and share < 1:
        return "just under 100%"
    return "just over 0%" if text == "0.00%" and share > 0 else text
