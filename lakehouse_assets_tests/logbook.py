"""Decisions in a real log without the flow that makes them: for tests of what only reads the log. No JVM.

Belongs here: made-up decisions, and writing them as a run does. Does not: what a run decides.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from lakehouse_assets.contracts.decision import Counts, Decision, Reason
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.decisions.order_span import OrderSpan, definition_of, span_as_text
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs

DECIDED = datetime(2024, 6, 1, 12, tzinfo=UTC)
RULES = '{"extraction": {"cadence": "daily"}}'


def outcome(name: str, **changes: Any) -> dict[str, Any]:
    """One check's result as the log keeps it, passed unless it is said otherwise."""
    fields = {"check": name, "kind": "in_range", "severity": "critical", "status": "passed", "effect": "none"}
    return {**fields, "failed_rows": 0, "message": "", "observed": {"rows": 3}, "waived": False, **changes}


FAILED = outcome("value_in_range", status="failed", effect="rows", failed_rows=1, message="1 of 3 rows fail")


def decided(number: int, table: str = "readings", **changes: Any) -> Decision:
    """The decision of this number, about the day of this number: published, with a check that passed and one that held a row.

    Of a gold table there is no window.
    """
    gold = table.startswith("gold_")
    fields: dict[str, Any] = {
        "table": table,
        "p_extracted_at": None if gold else datetime(2023, 12, 31, tzinfo=UTC) + timedelta(days=number),
        "extraction_seq": number if gold else 1,
        "number": number,
        "kind": "judged",
        "verdict": "published_with_warnings",
        "counts": Counts(3, 2, 0, 1, 0),
        "reasons": (Reason("value_in_range", "critical", "failed", "rows", 1, "1 of 3 rows fail"),),
        "ruleset_hash": "0123456789abcdef",
        "ruleset": RULES,
        "bronze_version": None if gold else number,
        "baseline_version": None,
        "run_id": f"run-{number}",
        "decided_at": DECIDED + timedelta(minutes=number),
        "checks": (outcome("not_empty", kind="not_empty"), FAILED),
    }
    return Decision(**{**fields, **changes})


def apply(settings: Settings, decisions: Iterable[Decision]) -> None:
    """The mark of these decisions, as one run writes it."""
    decisions = list(decisions)
    logs.mark_applied(settings, decisions, decisions[-1].number + 1, DECIDED + timedelta(hours=1, minutes=decisions[-1].number))


def write(settings: Settings, decisions: Iterable[Decision], *, applied: bool = True) -> list[Decision]:
    """Log these decisions in one commit, and mark them applied."""
    decisions = list(decisions)
    logs.log_decisions(settings, decisions)
    if applied:
        apply(settings, [d for d in decisions if d.superseded_by is None])
    return decisions


def recorded_span(spec: TableContract, span: OrderSpan) -> str | None:
    """The span as a decision by this contract has it."""
    definition = definition_of(spec)
    return definition and span_as_text(definition, span)
