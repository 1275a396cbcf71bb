"""The event of an applied decision: a frozen model, whose JSON Schema is `docs/decision-event.schema.json`.

Belongs here: the event's fields and how a decision fills them. Does not: sending it (events), or positions (orchestration).
"""

import json
from dataclasses import fields
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict

from lakehouse_assets.contracts.decision import Decision, Kind, Verdict, finite
from lakehouse_assets.contracts.windows import window_at


class _EventModel(BaseModel):
    """Immutable. Readers ignore unknown fields: a later minor change only adds fields."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True, json_schema_serialization_defaults_required=True)


class RowCounts(_EventModel):
    """`rows_in` is the sum of the other four."""

    rows_in: int
    rows_published: int
    rows_superseded: int
    rows_quarantined: int
    rows_discarded: int


class EventReason(_EventModel):
    """One check that did not pass."""

    check: str
    """The check's name."""
    severity: str
    """`critical`, `warning` or `info`."""
    status: str
    """`failed` or `error`."""
    effect: str
    """`batch` (the whole batch is quarantined), `rows` (failing rows are), `report`, `waived`, `none`."""
    rows: int
    """Failing rows; 0 where the check counts none."""
    message: str
    """For people. It contains no values of `pii` columns."""


class EventCheck(_EventModel):
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
    """`batch` (the whole batch is quarantined), `rows` (failing rows are), `report` or `none`."""
    failed_rows: int
    """Failing rows; 0 where the check counts none."""
    message: str
    """For people; may be empty."""
    observed: Annotated[dict[str, Any], AfterValidator(finite)]
    """The figures that were judged. Numbers that JSON lacks (`NaN`, `Infinity`, `-Infinity`) are texts."""
    waived: bool
    """Whether a person overrode it."""


class DecisionEvent(_EventModel):
    """One applied decision of the lakehouse about one batch, or the supersession of a batch by a later extraction.

    The key of the Kafka message is `table`; one event may come more than once, always with the same `event_id`.
    """

    schema_version: Literal[1] = 1
    """Changes when a field changes its meaning or is removed. A new field does not change it: ignore unknown fields."""
    event_id: str
    """The decision's id. The same event has the same id however often it is sent."""
    event_type: Literal["decision.applied", "batch.superseded"]
    """`batch.superseded`: a later extraction of the window was accepted and all of this batch's rows left silver."""
    table: str
    """The table's name; for gold, `gold_<name>`."""
    layer: Literal["silver", "gold"]
    """The layer that the batch was judged for."""
    window_start: datetime | None
    """The start of the window, UTC: of a guarded table's version, its commit. Empty for gold."""
    window_end: datetime | None
    """The end of the window, UTC, exclusive. Empty for gold, and for a version of a guarded table."""
    extraction_seq: int
    """Which extraction of the window; for gold, which run of the SQL."""
    number: int
    """Counts the table's decisions. A `batch.superseded` has the number of the decision that it follows."""
    kind: Kind
    """`judged` automatically, or `released`, `discarded` or `rejudged` by a person."""
    verdict: Verdict
    """The verdict. A `batch.superseded` keeps the batch's last verdict."""
    counts: RowCounts
    """The batch's rows by outcome."""
    reasons: tuple[EventReason, ...]
    """Checks that did not pass, blocking ones first."""
    checks: tuple[EventCheck, ...]
    """All check results, including passed checks. Empty in a `batch.superseded`: nothing was checked for it."""
    ruleset_hash: str
    """The hash of the rules that it was judged by."""
    bronze_version: int | None
    """The Delta version of bronze that was judged. Empty for gold."""
    silver_version: int | None
    """The Delta version of the silver (or gold) table once the decision was applied. Empty if a gold table was quarantined."""
    baseline_version: int | None
    """The number of the last decision in the baseline of the drift check. Empty without drift."""
    drift_p_value: float | None
    """The drift check's p-value. Empty without drift, and while no window is known."""
    inputs: dict[str, int]
    """For gold, the Delta version of each input; for silver, the last decision of each table that its checks read."""
    superseded_by: str | None
    """For a `batch.superseded`, the `event_id` of the superseding decision."""
    waived: tuple[str, ...]
    """The checks that a person overrode; `*` is all that can be overridden."""
    by: str | None
    """Who released or discarded it, or had it judged again."""
    because: str | None
    """The person's reason, as written."""
    run_id: str
    """The run that decided."""
    decided_at: datetime
    """When it was decided, UTC."""
    applied_at: datetime
    """When it was completely in the tables, UTC."""
    shortened: tuple[str, ...] = ()
    """What was left out because the event was larger than the broker accepts; `ops/check_results` has all of it. In this
    order: `observed`, `messages`, `passed checks`, `checks`."""


def event_of(decision: Decision) -> DecisionEvent:
    """Return the event of an applied decision. Raises ValueError for one that is not applied yet."""
    if decision.applied_at is None:
        raise ValueError(f"{decision.table}: decision {decision.number} is not applied")
    start, end = _bounds(decision)
    own = {each.name: getattr(decision, each.name) for each in fields(decision) if each.name in DecisionEvent.model_fields}
    derived = {
        "event_id": decision.decision_id,
        "event_type": "batch.superseded" if decision.superseded_by else "decision.applied",
        "layer": "gold" if decision.table.startswith("gold_") else "silver",
        "window_start": start,
        "window_end": end,
    }
    return DecisionEvent.model_validate(own | derived, from_attributes=True)


def _bounds(decision: Decision) -> tuple[datetime | None, datetime | None]:
    if decision.p_extracted_at is None:
        return None, None
    # By the cadence of its rule set: the table may have another one today, or be gone. A guard has no extraction.
    rules = json.loads(decision.ruleset)
    extraction = rules.get("extraction", rules)
    cadence = "moment" if extraction.get("stream") else extraction.get("cadence")
    if cadence is None:
        return decision.p_extracted_at, None
    window = window_at(decision.p_extracted_at, cadence)
    return window.start, window.end
