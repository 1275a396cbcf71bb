"""The gate's judgement of one batch: the outcome of every check, and which outcomes an override waives.

Belongs here: numbers → outcomes, all pure. Does not: measuring, drift's statistics, or the verdict (verdict).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lakehouse_assets.checks.base import Check, CheckContext, Judgement
from lakehouse_assets.checks.dependencies import in_order
from lakehouse_assets.checks.drift_rows import DRIFT_ROWS
from lakehouse_assets.checks.families import ROWS_OF_WHERE, HistoryCheck, Past, RowCheck
from lakehouse_assets.checks.judgements import consequence, judge_rows
from lakehouse_assets.contracts.decision import Decision, finite
from lakehouse_assets.contracts.delta_properties import CONSTRAINT
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.decisions.drift.verdict import DriftVerdict
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.decisions.outcome import Outcome
from lakehouse_assets.decisions.personal import MASKED, mask_text, quotes

# What no override can waive: there is nothing that could be published.
UNWAIVABLE = ("readable_row", "key_not_null", "delete_when")
SCHEMA_CHECKS = ("source_columns", "new_columns", "source_types", "source_names")
Before = Callable[[HistoryCheck], Sequence[Past]]  # the windows that a check compares its batch with


def built_in(spec: TableContract, numbers: BatchNumbers) -> list[Outcome]:
    """Outcomes of the checks that every table has: readable rows, castable values, keys that are there.

    An unreadable file quarantines its window, of which it is a part. A stream's window has the files that came by chance at the
    same time: there it is one row, if others are clean. (Without any, the window itself may be unreadable.)
    """
    by_chance = spec.source.kind == "files" and spec.extraction.stream is not None and numbers.newest + numbers.older > 0
    kinds = [f"{count}: {kind}" for kind, count in numbers.metrics.get("readable_row", {}).items() if count]
    why = f" ({'; '.join(kinds)})" if kinds and not numbers.unreadable else ""
    checks = [("readable_row", "readable", f"{'file' if numbers.unreadable else 'record'}(s) could not be read{why}")]
    checks += [(f"cast_{name}", "cast", f"value(s) of {name} are no {column.type}") for name, column in spec.columns.items()]
    if spec.key:
        checks.append(("key_not_null", "key", "row(s) without a whole key"))
    if spec.extraction.delete_when:
        checks.append(("delete_when", "delete", ""))
    return [row_check_outcome(check, kind, text, numbers, bool(spec.pii_columns), by_chance) for check, kind, text in checks]


def row_check_outcome(
    check: str, kind: str, text: str, numbers: BatchNumbers, hidden: bool, by_chance: bool = False
) -> Outcome:
    """The outcome of a built-in row check, from the rows that fail it. ``hidden``: an error may quote a personal value.
    ``by_chance``: the files of the batch belong together by chance alone.
    """
    error, failed = numbers.errors.get(check), numbers.failed_rows.get(check, 0)
    if error:
        return Outcome(check, kind, "critical", "error", "batch", 0, mask_text(error) if hidden else error)
    if not failed:
        return Outcome(check, kind, "critical", "passed", "none", 0, "")
    files = numbers.unreadable if kind == "readable" else 0
    effect = "batch" if files and not by_chance else "rows"
    return Outcome(check, kind, "critical", "failed", effect, failed, f"{files or failed} {text}", {"rows": numbers.rows_in})


def judge_checks(
    checks: Sequence[Check],
    context: CheckContext,
    numbers: BatchNumbers,
    pii: Collection[str],
    waived: Collection[str] = (),
    before: Before = lambda _: (),
    earlier: Iterable[Outcome] = (),
    lacking: Collection[str] = (),
) -> list[Outcome]:
    """Outcomes of these checks, in their order. One that depends on another is judged after it, or skipped.

    ``earlier``: outcomes of checks that were judged already. ``lacking``: columns that the batch does not have; no check of
    them passes.
    """
    outcomes = {outcome.check: outcome for outcome in earlier}
    for check in in_order(checks):
        if failure := _failed_dependency(check, checks, outcomes, waived):
            outcomes[check.id] = Outcome(check.id, check.check, check.severity, "skipped", "none", 0, f"not judged: {failure}")
            continue
        outcomes[check.id] = outcome = _judge(check, context, numbers, pii, before)
        named = {name.lower() for name in check.columns_named} if lacking else set()
        if outcome.status == "passed" and (used := sorted(name for name in lacking if name.lower() in named)):
            text = f"not judged: the batch lacks {', '.join(used)}"
            outcomes[check.id] = replace(outcome, status="skipped", message=text)
    return [outcomes[check.id] for check in checks]


def is_hidden(check: Check, pii: Collection[str]) -> bool:
    """Whether a check's message may quote a value of these columns: what SQL over a whole batch reads is not known."""
    of_batch = isinstance(check, RowCheck) and check.scope != "row"
    return bool(set(check.columns_used) & set(pii)) or (of_batch and bool(pii))


def _failed_dependency(check: Check, checks: Sequence[Check], outcomes: Mapping[str, Outcome], waived: Collection[str]) -> str:
    """Why a check that depends on others cannot be judged; empty where it can."""
    rows = {other.id for other in checks if other.scope == "row"}
    for name in check.depends_on:
        first = outcomes.get(name)
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


def _judge(check: Check, context: CheckContext, numbers: BatchNumbers, pii: Collection[str], before: Before) -> Outcome:
    metrics = numbers.metrics.get(check.id, {})
    try:
        if check.id in numbers.errors:
            judgement = Judgement("error", {}, numbers.errors[check.id], 0)
        elif isinstance(check, RowCheck) and check.scope == "row":
            # The threshold is a share of the rows that the check looks at. KeyError where those were not counted.
            rows = int(metrics[ROWS_OF_WHERE]) if check.counts_where and numbers.rows_in else numbers.rows_in
            judgement = judge_rows(check, rows, numbers.failed_rows.get(check.id, 0))
        elif isinstance(check, HistoryCheck):
            judgement = check.judge_against(metrics, context, before(check))
        else:
            judgement = check.judge(metrics, context)
    except Exception as error:
        # Fail closed: whatever a check stumbles over, the batch has not passed it.
        judgement = Judgement("error", {}, f"{type(error).__name__}: {MASKED if pii else error}", 0)
    hidden = is_hidden(check, pii)
    return Outcome(
        check=check.id,
        kind=check.check,
        severity=check.severity,
        status=judgement.status,
        effect=consequence(check, judgement),
        failed_rows=judgement.failed_rows,
        message=_shown_message(check, judgement.status, judgement.message, hidden, pii),
        observed={
            name: MASKED if hidden or (pii and name in check.quoting and value is not None) else finite(value)
            for name, value in judgement.observed.items()
        },
    )


def drift_outcome(verdict: DriftVerdict | None, numbers: BatchNumbers) -> list[Outcome]:
    """The drift verdict as one more check; an error where the features could not be measured."""
    if "drift" in numbers.errors:
        return [Outcome("drift", "drift", "critical", "error", "batch", 0, numbers.errors["drift"])]
    if verdict is None:
        return []
    status, effect = {"pass": ("passed", "none"), "warn": ("failed", "report"), "hold": ("failed", "batch")}[verdict.action]
    status = "error" if verdict.status == "error" else status
    severity = "warning" if verdict.action == "warn" else "critical"
    observed = {name: getattr(verdict, name) for name in ("p_value", "score", "windows_known", "status")}
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


def is_unwaivable(check: str) -> bool:
    """Whether no override can waive this check: nothing could be published, or Delta would refuse the rows."""
    return check in UNWAIVABLE or check.startswith(CONSTRAINT)


def is_waived(check: str, waived: Collection[str]) -> bool:
    """Whether an override names this check, by itself or by the name under which the UI shows it with others."""
    if is_unwaivable(check):
        return False
    # Who accepts the rows that drift names accepts the window as it is.
    names = {check, "*", group_of(check)} | ({DRIFT_ROWS} if check == "drift" else set())
    return bool(names & set(waived))


def group_of(check: str) -> str:
    """The one check that the UI shows for several: `casts` for each column's cast, `source_columns` for the schema, `drift` for
    the rows that it names.
    """
    if check.startswith("cast_"):
        return "casts"
    if check == DRIFT_ROWS:
        return "drift"
    return "source_columns" if check in SCHEMA_CHECKS else check


def masked_now(decision: Decision, checks: Sequence[Check], pii: Collection[str]) -> Decision:
    """The decision as it is shown: what its checks say of columns that have been marked since is masked."""
    if not pii:
        return decision
    hidden = {check.id: check for check in checks if is_hidden(check, pii)}

    def mask(outcome: dict[str, Any]) -> dict[str, Any]:
        if check := hidden.get(outcome["check"]):
            message = _shown_message(check, outcome["status"], outcome["message"], True, pii)
            return {**outcome, "observed": dict.fromkeys(outcome["observed"], MASKED), "message": message}
        return {**outcome, "message": mask_text(outcome["message"])} if outcome["status"] == "error" else outcome

    return replace(decision, checks=tuple(map(mask, decision.checks)))


def _shown_message(check: Check, status: str, message: str, hidden: bool, pii: Collection[str]) -> str:
    if status == "error" and pii and (hidden or quotes(message)):
        return mask_text(message)  # a column that is not marked may hold what belongs into one that is
    # A row check only counts rows. Any other message on a batch may quote a value.
    counts = isinstance(check, RowCheck) and check.scope == "row" and status != "error"
    return MASKED if hidden and message and not counts else message
