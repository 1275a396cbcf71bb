"""A version that was judged before, as a target again: its rows are read anew, and its decision stands.

Belongs here: the log's record → the batch, the rules of then, the target. Does not: when that is needed (run, settlement).
"""

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from lakehouse_assets.checks.strict_model import RECORDED
from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.decisions.gate import is_waived
from lakehouse_assets.decisions.guard import VersionBatch
from lakehouse_assets.errors import SourceError
from lakehouse_assets.frames.log import empty_knowledge
from lakehouse_assets.frames.session import require_frame
from lakehouse_assets.frames.staging_folder import StagingFolder
from lakehouse_assets.guards.guard_run import GuardRun
from lakehouse_assets.guards.observed_table import GuardState, foreign_table, table_path
from lakehouse_assets.guards.target import GuardTarget
from lakehouse_assets.guards.version_rows import added_row_count, read_batch
from lakehouse_assets.storage.staging_folder import staging_path


def recorded_batch(record: ExtractionRecord) -> VersionBatch:
    """Return the batch of a version as `ops/extractions` has it."""
    position: dict[str, Any] = json.loads(record.position or "{}")
    named = {name: position[name] for name in ("after", "rows", "event", "text")}
    return VersionBatch(
        version=record.bronze_version,
        window=record.p_extracted_at,
        removes=bool(position.get("removes")),
        of_window=position.get("of_window", ""),
        outside=position.get("outside", 0),
        **named,
    )


def rules_without(guard: GuardSpec, ruleset: str, waived: Collection[str]) -> GuardSpec:
    """Return the guard with the rules of a decision, without the checks that an override names."""
    recorded = {**json.loads(ruleset), "path": guard.path, "format": guard.format}
    rules = GuardSpec.model_validate(recorded, context={RECORDED: True})
    chosen = [check for check in rules.checks if not is_waived(check.id, waived)]
    ids = {check.id for check in chosen}
    checks = tuple(
        check.model_copy(update={"depends_on": tuple(name for name in check.depends_on if name in ids)}) for check in chosen
    )
    return rules.model_copy(update={"checks": checks, "publish": guard.publish})


def is_still_there(run: GuardRun, state: GuardState, decision: Decision) -> bool:
    """Whether the log still has the version as it was judged. Raises SourceError where there is no table."""
    record, table = state.records.get(decision.batch), foreign_table(run.guard, run.settings)
    log = table.log()
    if record is None or record.bronze_version not in log.entries:
        return False
    digest = record.fingerprint.partition("@")[2]
    return table.commits(log, record.bronze_version, record.bronze_version)[0].digest == digest


@contextmanager
def target_of_decision(run: GuardRun, state: GuardState, decision: Decision, waived: Collection[str]) -> Iterator[GuardTarget]:
    """Return a decision's version as a target, with its decision. Raises SourceError where its rows cannot be read any more."""
    if not is_still_there(run, state, decision):
        raise SourceError(
            f"{run.table}: the rows of version {decision.bronze_version} cannot be read any more; discard it, and let the"
            " table's owner write them again"
        )
    record = state.records[decision.batch]
    guard, batch = rules_without(run.guard, decision.ruleset, waived), recorded_batch(record)
    path = table_path(run.guard, run.settings)
    folder = StagingFolder(run.spark, staging_path(run.settings, run.table))
    try:
        rows = require_frame(read_batch(run.spark, run.guard, path, batch, f"{folder.path}/added"))
        target = GuardTarget(
            replace(run, spec=guard, guard=guard), list(state.decisions), again=True, rows=rows, batch=decision.batch,
            number=decision.number, knowledge=empty_knowledge(guard, None), folder=folder, guard=guard, version_batch=batch,
            rows_logged=added_row_count(run.guard, path, batch), history=state.decisions,
        )  # fmt: skip
        target.decisions = [decision]
        yield target
    finally:
        folder.remove()
