"""Checks that run after the exchange: those that hold nothing and need a query of their own. Nobody waits for them.

Belongs here: running them on the staged rows of batches that are decided, and what becomes of their answers. Does not:
the checks that a decision waits for (judge).
"""

from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from pyspark.sql import DataFrame

from lakehouse_assets.checks.base import Check, CheckContext
from lakehouse_assets.checks.dependencies import runs_afterwards
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions import gate
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.layers.others import never_published
from lakehouse_assets.measures.special import query_failures

Batch = tuple[datetime, int]


def at_once(checks: Sequence[Check], context: CheckContext) -> list[Check]:
    """Those that the decision waits for."""
    return [check for check in checks if not runs_afterwards(check, context)]


def results_afterwards(
    checks: Sequence[Check],
    context: CheckContext,
    staged: DataFrame,
    made: Sequence[tuple[Decision, Batch]],
    pii: Collection[str],
    bounds: Callable[[Decision], CheckContext],
    lacking: Callable[[Decision], Collection[str]] = lambda _: (),
) -> list[tuple[Decision, list[gate.Outcome]]]:
    """What the late checks say of each decision's batch; nothing for a table that has none. One query for each of them.

    ``made``: decisions with all that their checks said, and where their rows stand in the staging. ``bounds``: the context of
    one batch. ``lacking``: the columns that it does not have.
    """
    late = [check for check in checks if runs_afterwards(check, context)]
    # A discarded batch was looked at when it was judged.
    made = [(decision, batch) for decision, batch in made if decision.kind != "discarded"]
    if not late or not made:
        return []
    errors: dict[Batch, dict[str, str]] = {
        batch: {
            c.id: never_published(c.reads.table) for c in late if c.reads and f"silver_{c.reads.table}" not in decision.inputs
        }
        for decision, batch in made
    }
    found = query_failures(staged, late, context, [batch for _, batch in made], errors)
    results = []
    for decision, batch in made:
        numbers = BatchNumbers(metrics=found[batch], errors=errors.get(batch, {}))
        judged = [gate.Outcome(**outcome) for outcome in decision.checks]
        told = gate.judge_checks(
            late, bounds(decision), numbers, pii, decision.waived, judged=judged, lacking=lacking(decision)
        )
        results.append((decision, told))
    return results
