"""What others hear of an applied decision: the event, as a frozen model whose JSON Schema is `docs/decision-event.schema.json`.

Belongs here: the event's fields and how a decision fills them. Does not: who is told, how, or how far (events, orchestration).
"""

import json
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from lakehouse_assets.contracts.decision import Decision, Kind, Verdict, finite
from lakehouse_assets.contracts.windows import window_at

SCHEMA_VERSION: Literal[1] = 1


class _Told(BaseModel):
    """Immutable. What a reader does not know it should pass over: a later minor change adds fields and nothing else."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, json_schema_serialization_defaults_required=True)


class RowCounts(_Told):
    """`rows_in` is the sum of the other four."""

    rows_in: int
    rows_published: int
    rows_superseded: int
    rows_quarantined: int
    rows_discarded: int


class ReasonTold(_Told):
    """One check that did not pass."""

    check: str
    """The check's name."""
    severity: str
    """`critical`, `warning` or `info`."""
    status: str
    """`failed` or `error`."""
    effect: str
    """`batch` (all is held), `rows` (those that fail are), `report`, `waived`, `none`."""
    rows: int
    """Failing rows; 0 where the check counts none."""
    message: str
    """For people. Values of `pii` columns are not in it."""


class CheckTold(_Told):
    """One check, passed or not."""

    check: str
    """The check's name."""
    kind: str
    """Its kind."""
    severity: str
    """`critical`, `warning` or `info`."""
    status: str
    """`passed`, `failed`, `error` or `skipped`."""
    effect: str
    """`batch` (all is held), `rows` (those that fail are), `report` or `none`."""
    failed_rows: int
    """Failing rows; 0 where the check counts none."""
    message: str
    """For people; empty where nothing is to be said."""
    observed: dict[str, Any]
    """The figures that were judged. What is no number in JSON (`NaN`, `Infinity`, `-Infinity`) is a text."""
    waived: bool
    """Whether a person's override took its effect from it."""


class DecisionEvent(_Told):
    """One applied decision of the lakehouse about one batch, or the supersession of a batch by a later extraction.

    The key of the Kafka message is `table`; one event may come more than once, always with the same `event_id`.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    """Changes when a field changes its meaning, or goes. A new field does not change it: pass over what you do not know."""
    event_id: str
    """The decision's id. The same event has the same id however often it is sent."""
    event_type: Literal["decision.applied", "batch.superseded"]
    """`batch.superseded`: a later extraction of the window was accepted and all of this batch's rows left silver."""
    table: str
    """The table's name; of gold, `gold_<name>`."""
    layer: Literal["silver", "gold"]
    """Where the batch was let in, or not."""
    window_start: datetime | None
    """The start of the window, UTC. Empty for gold."""
    window_end: datetime | None
    """The end of the window, UTC, itself outside. Empty for gold."""
    extraction_seq: int
    """Which extraction of the window; of gold, which derivation."""
    number: int
    """Counts the table's decisions. A `batch.superseded` has the number of the decision that it follows."""
    kind: Kind
    """`judged` by itself, or `released`, `discarded` or `rejudged` by a person."""
    verdict: Verdict
    """What is said of the batch. A `batch.superseded` keeps the verdict that stood."""
    counts: RowCounts
    """What became of the batch's rows."""
    reasons: tuple[ReasonTold, ...]
    """Checks that did not pass, blocking ones first."""
    checks: tuple[CheckTold, ...]
    """All check results, passes included. None in a `batch.superseded`: nothing was checked for it."""
    ruleset_hash: str
    """By which rules it was judged."""
    bronze_version: int | None
    """The Delta version of bronze that was judged. Empty for gold."""
    silver_version: int | None
    """The Delta version of the silver (or gold) table once the decision was applied. Empty where a gold table was held."""
    baseline_version: int | None
    """The number of the last decision in the baseline that drift was compared with. Empty without drift."""
    drift_p_value: float | None
    """The drift check's p-value. Empty without drift, and while no window is known."""
    inputs: dict[str, int]
    """Of gold, the Delta version of each input; of silver, the last decision of each table that its checks look into."""
    superseded_by: str | None
    """Of a `batch.superseded`, the `event_id` of the decision that took its place."""
    waived: tuple[str, ...]
    """Checks that a person's override names; `*` is all that can be."""
    by: str | None
    """Who released or discarded it, or had it judged again."""
    because: str | None
    """Why, in that person's words."""
    run_id: str
    """The run that decided."""
    decided_at: datetime
    """When it was decided, UTC."""
    applied_at: datetime
    """When it was wholly in the tables, UTC."""
    shortened: tuple[str, ...] = ()
    """What was left out because the event was larger than the broker takes; all of it stands in `ops/check_results`. In this
    order: `observed`, `messages`, `passed checks`, `checks`."""


def event_of(decision: Decision) -> DecisionEvent:
    """The event of an applied decision. Raises ValueError for one that is not applied: nobody may hear of it yet."""
    if decision.applied_at is None:
        raise ValueError(f"{decision.table}: decision {decision.number} is not applied")
    start, end = _bounds(decision)
    return DecisionEvent(
        event_id=decision.decision_id,
        event_type="batch.superseded" if decision.superseded_by else "decision.applied",
        table=decision.table,
        layer="gold" if decision.table.startswith("gold_") else "silver",
        window_start=start,
        window_end=end,
        extraction_seq=decision.extraction_seq,
        number=decision.number,
        kind=decision.kind,
        verdict=decision.verdict,
        counts=RowCounts(**decision.counts.__dict__),
        reasons=tuple(ReasonTold(**reason.__dict__) for reason in decision.reasons),
        checks=tuple(CheckTold(**{**check, "observed": finite(check["observed"])}) for check in decision.checks),
        ruleset_hash=decision.ruleset_hash,
        bronze_version=decision.bronze_version,
        silver_version=decision.silver_version,
        baseline_version=decision.baseline_version,
        drift_p_value=decision.drift_p_value,
        inputs=decision.inputs,
        superseded_by=decision.superseded_by,
        waived=decision.waived,
        by=decision.by,
        because=decision.because,
        run_id=decision.run_id,
        decided_at=decision.decided_at,
        applied_at=decision.applied_at,
    )


def _bounds(decision: Decision) -> tuple[datetime | None, datetime | None]:
    if decision.p_extracted_at is None:
        return None, None
    # The cadence that it was judged by: the table may have another one today, or be gone.
    window = window_at(decision.p_extracted_at, json.loads(decision.ruleset)["extraction"]["cadence"])
    return window.start, window.end
