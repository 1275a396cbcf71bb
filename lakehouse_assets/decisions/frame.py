"""Decide on one frame: from its numbers and what is known by then to its decision.

Belongs here: the order of a frame's checks, and the end of its window. Does not: a table's batches (decide), or any check's own
judgement.
"""

from datetime import datetime
from functools import partial

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.sql.text import literal
from lakehouse_assets.contracts.batch import Batch, start_of
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.frame_rules import FrameRules
from lakehouse_assets.contracts.windows import next_start, window_start
from lakehouse_assets.decisions import gate
from lakehouse_assets.decisions.decide import BatchEvidence, Knowledge, drift_verdict, make_decision
from lakehouse_assets.decisions.drift.verdict import DriftVerdict
from lakehouse_assets.decisions.gate import Outcome

KEY_CHECK = "key_not_null"


def batch_start(rules: FrameRules, at: datetime) -> datetime:
    """Return the start of the window that a moment is in: by `cadence`; without one, the moment itself."""
    return at if rules.cadence is None else window_start(at, rules.cadence)


def frame_context(rules: FrameRules, start: datetime) -> CheckContext:
    """Return the context of the frame's checks. Without a `cadence`, its window is a moment."""
    end = next_start(start, rules.cadence) if rules.cadence else start
    return CheckContext(rules.key, literal(start), literal(end), "batch", rules.last_modified)


def judge_rows(
    rules: FrameRules, start: datetime, evidence: BatchEvidence, knowledge: Knowledge
) -> tuple[list[Outcome], DriftVerdict | None]:
    """Return the results on measured rows, in their order: the key, the checks, drift; and the drift verdict of its own."""
    numbers, personal = evidence.numbers, rules.pii_columns
    outcomes: list[Outcome] = []
    if rules.key:
        outcomes = [gate.row_check_outcome(KEY_CHECK, "key", "row(s) without a whole key", numbers, bool(personal))]
    before = partial(knowledge.history.before, start)
    outcomes += gate.judge_checks(rules.checks, frame_context(rules, start), numbers, personal, before=before)
    drift = drift_verdict(start, evidence, knowledge)
    return [*outcomes, *gate.drift_outcome(drift, numbers)], drift


def decide_frame(
    rules: FrameRules,
    batch: Batch,
    evidence: BatchEvidence,
    knowledge: Knowledge,
    *,
    number: int,
    run_id: str,
    at: datetime,
) -> Decision:
    """Return the decision on a frame. ``batch``: the start of its window, and which frame of that window it is."""
    outcomes, drift = judge_rows(rules, start_of(batch), evidence, knowledge)
    return make_decision(
        outcomes,
        evidence,
        drift,
        table=rules.name,
        p_extracted_at=start_of(batch),
        extraction_seq=batch[1],
        number=number,
        ruleset_hash=rules.ruleset_hash,
        ruleset=rules.ruleset(),
        baseline_version=number - 1 if rules.drift else None,
        run_id=run_id,
        decided_at=at,
        teaches=drift is not None and drift.learns,
    )
