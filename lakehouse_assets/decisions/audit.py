"""The judgement of one table's audit: each rule's answer, then the verdict; and the coverage ledger over all tables.

Belongs here: answers → verdicts, what is not covered (pure). Does not: shares and their intervals (audit_share), measuring.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lakehouse_assets.contracts.audit import AuditRule
from lakehouse_assets.contracts.audit_binding import Bound, matches
from lakehouse_assets.decisions.audit_share import Share

Verdict = Literal["passed", "passed_with_infos", "passed_with_warnings", "stopped"]
Status = Literal["pass", "fail", "inconclusive", "exception"]
ORDER = ("passed", "passed_with_infos", "passed_with_warnings", "stopped")


@dataclass(frozen=True)
class RuleResult:
    """A rule at its columns. ``share``: None where it counts no rows (uniqueness) or could not be evaluated. ``examples``:
    failing values, masked for personal columns. ``escalated``: the sample left it open, and the whole table was looked at.
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


def judge(bound: Bound, share: Share, *, escalated: bool = False, examples: Sequence[str] = ()) -> RuleResult:
    """A rule of single rows, by its share."""
    threshold = bound.rule.threshold
    status = share.answer(threshold)
    if status == "pass":
        message = ""
    elif share.exact:
        message = (
            f"{share.failed} of {share.looked_at} rows fail: {percent(share.estimate)} pass, {percent(threshold)} promised"
        )
    else:
        told = f"about {percent(share.estimate)} pass ({percent(share.low)} to {percent(share.high)})"
        open_ = "; the sample cannot tell" if status == "inconclusive" else ""
        message = f"{share.failed} of {share.looked_at} sampled rows fail: {told}, {percent(threshold)} promised{open_}"
    return _result(bound, status, message, share, escalated, examples)


def judge_unique(bound: Bound, rows: int, duplicates: int) -> RuleResult:
    """Uniqueness, counted in full. ``duplicates``: values that stand on more than one of the table's rows."""
    what = f"({', '.join(bound.columns)})"
    message = f"{duplicates} value(s) of {what} stand on more than one of {rows} rows" if duplicates else ""
    return _result(bound, "fail" if duplicates else "pass", message, None, True, ())


def in_exception(bound: Bound, message: str) -> RuleResult:
    """A rule that could not be evaluated: never a pass."""
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


def verdict_of(results: Sequence[RuleResult], error: str | None = None, lost: Collection[Any] = ()) -> Verdict:
    """An exception or a critical failure stops; else the table passes, with what was found. What is left open, a rule that lost
    its columns, and a table of which nothing was asked, are warned of.
    """
    bad = [r for r in results if r.status == "fail"]
    if error or any(r.status == "exception" for r in results) or any(r.severity == "critical" for r in bad):
        return "stopped"
    left_open = [r for r in results if r.status == "inconclusive" and r.severity != "info"]
    if left_open or lost or not results or any(r.severity == "warning" for r in bad):
        return "passed_with_warnings"
    return "passed_with_infos" if bad or any(r.status == "inconclusive" for r in results) else "passed"


@dataclass(frozen=True)
class Unmatched:
    """A rule, or one of its patterns (``pattern``), that fits no column of any table. ``fails``: the audit, for it."""

    rule: str
    pattern: str | None
    severity: str
    fails: bool


def unmatched(rules: Sequence[AuditRule], columns: Mapping[str, Collection[str]], bound: Collection[str]) -> list[Unmatched]:
    """``columns``: the leaves of every table there is, by table. ``bound``: names of rules that are bound somewhere.

    A critical rule that is bound nowhere fails the audit, unless it says `allow_unmatched`; one pattern of several that fits
    nothing is told.
    """
    found = []
    for rule in rules:
        if rule.name not in bound:
            fails = rule.severity == "critical" and not rule.allow_unmatched
            found.append(Unmatched(rule.name, None, rule.severity, fails))
            continue
        names = {name for table, leaves in columns.items() if rule.of_table(table) for name in leaves}
        for pattern in rule.columns:
            alone = rule.model_copy(update={"columns": (pattern,), "not_columns": ()})
            if not any(matches(alone, name) for name in names):
                found.append(Unmatched(rule.name, pattern, rule.severity, False))
    return found


def lost_columns(
    before: Sequence[tuple[str, str]], now: Sequence[tuple[str, str]], known: Collection[str]
) -> list[tuple[str, str]]:
    """``(rule, column)`` that the last audit looked at and this one does not. ``known``: rules that there still are: one that
    was taken away has lost nothing.
    """
    there = set(now)
    return sorted({pair for pair in before if pair not in there and pair[0] in known})


def worst(verdicts: Sequence[str]) -> str:
    """The worst of several verdicts."""
    return max(verdicts, key=ORDER.index, default="passed")


def percent(share: float) -> str:
    """A share for people; one that is not quite whole never reads as 100 %."""
    text = f"{share:.2%}"
    if text == "100.00%" and share < 1:
        return "just under 100%"
    return "just over 0%" if text == "0.00%" and share > 0 else text
