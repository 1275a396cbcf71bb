"""A guard's run: the versions that nobody has judged, oldest first, each through the gate and into the lake's log.

Belongs here: the order of versions, what is on record before and after each, and what a killed run left. Does not: the steps
(pipeline/gate), or which rows a version brought (decisions/guard).
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.contracts.guard_windows import GuardWindows
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.decide import Knowledge
from lakehouse_assets.decisions.guard import VersionBatch, after_vacuum
from lakehouse_assets.decisions.guard_decision import is_of_kind
from lakehouse_assets.errors import LakehouseError, SourceError, java_causes
from lakehouse_assets.frames.log import FrameLog
from lakehouse_assets.frames.session import require_frame
from lakehouse_assets.frames.staging_folder import StagingFolder
from lakehouse_assets.guards.clean_state import has_lost_rows
from lakehouse_assets.guards.guard_run import GuardRun, clean_exists, located_run, writer_of
from lakehouse_assets.guards.observed_table import (
    GuardState,
    VersionObservation,
    newest_observation,
    observe,
    physical_names,
    table_path,
)
from lakehouse_assets.guards.recorded_version import is_still_there, recorded_batch, target_of_decision
from lakehouse_assets.guards.target import GuardTarget
from lakehouse_assets.guards.version_rows import added_row_count, read_batch
from lakehouse_assets.guards.window_run import at_newest_version, record_again, record_changes, waiting_batches
from lakehouse_assets.measures.error_text import ABSENT_FILE, error_text
from lakehouse_assets.pipeline.gate import JUDGING, Step, log, mark_applied, profiles, quarantine, run_steps, stage, write
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.baseline import write_profiles
from lakehouse_assets.storage.baseline_state import read_baseline
from lakehouse_assets.storage.check_results import project_check_results
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets.storage.staging_folder import staging_path

# The gate's steps for a version. Without `publish`, nothing is written but the log and the baseline.
APPLYING: tuple[Step, ...] = (quarantine, write, profiles, mark_applied)
STEPS: tuple[Step, ...] = (*JUDGING, log, *APPLYING)


@dataclass
class JudgedVersions:
    """``new``: this run's decisions, oldest first. ``samples``: failing values by check, at most five each. ``is_behind``:
    other versions wait for the next run.
    """

    new: list[Decision] = field(default_factory=list)
    samples: dict[str, list[str]] = field(default_factory=dict)
    is_behind: bool = False


@contextmanager
def hold_lock(run: GuardRun) -> Iterator[None]:
    """Hold the guard's lock, and complete first what a killed run logged and did not apply; at the end, remove its staging."""
    with table_lock(run.settings, run.table):
        try:
            complete_earlier_runs(run)
            yield
        finally:
            delta.remove_folder(staging_path(run.settings, run.table))


def complete_earlier_runs(run: GuardRun) -> None:
    """Apply decisions that an earlier run has logged: their rows, if the guard publishes, their profiles and marks."""
    settings, table = run.settings, run.table
    state = GuardState.read(settings, run.guard)
    if unapplied := ledger.unapplied_decisions(state.decisions):
        for decision in logs.with_evidence(settings, table, unapplied):
            if run.guard.publish is None or not publish_decision(run, state, decision):
                if run.guard.publish and run.guard.windows and decision.accepted:
                    record_again(run, run.guard.windows, state, decision)
                apply(run, [decision], state.decisions)
        project_check_results(settings, table)


def publish_decision(run: GuardRun, state: GuardState, decision: Decision) -> bool:
    """Apply a decision with its rows, which are read again; return False, and do nothing, where they cannot be read any more,
    the decision moves no row, or the clean table lacks the rows of earlier ones.
    """
    if decision.kind == "discarded" or not is_still_there(run, state, decision):
        return False
    if has_lost_rows(run.guard, run.settings, state, clean_exists(run)):
        return False
    try:
        with target_of_decision(run, state, decision, decision.waived) as target:
            target.publish = writer_of(run, target)
            run_steps(target, (stage, *APPLYING))
    except Exception as error:
        if not _is_vacuumed(error):
            raise
        return False
    return True


def apply(run: GuardRun, decisions: Sequence[Decision], earlier: Sequence[Decision]) -> None:
    """Add the profiles of accepted decisions to the baseline, then mark all as applied. ``earlier``: all of the guard."""
    if joining := [d for d in decisions if d.accepted and d.teaches]:
        write_profiles(run.settings, run.table, joining)
    for decision in decisions:
        # A discard moves no row: what was published of the version still is.
        published = [d.silver_version for d in earlier if d.batch == decision.batch and d.silver_version is not None]
        version = published[-1] if published and decision.kind == "discarded" else None
        logs.mark_applied(run.settings, [decision], version, run.clock())


def judge_versions(run: GuardRun) -> JudgedVersions:
    """Judge the table's versions since the last one judged, at most `versions_per_run`. Judged versions stay as they are.

    Raises SourceError where the table cannot be read: then nothing is decided on it.
    """
    judgement, run = JudgedVersions(), located_run(run)
    with hold_lock(run):
        if run.guard.windows:
            _judge_windows(run, run.guard.windows, judgement)
            project_check_results(run.settings, run.table)
            return judgement
        passed = -1
        while True:
            state = GuardState.read(run.settings, run.guard)
            observation = observe(run.guard, run.settings, state, passed, clean_exists(run))
            if observation.batch is None:
                if observation.is_complete:
                    break
                passed = observation.up_to
                continue
            if len(judgement.new) >= run.guard.versions_per_run:
                judgement.is_behind = True
                break
            target = _judge(run, state, observation, observation.batch)
            judgement.new += target.own
            judgement.samples = {**target.samples, **judgement.samples}
        project_check_results(run.settings, run.table)
    return judgement


def _judge_windows(run: GuardRun, windows: GuardWindows, judgement: JudgedVersions) -> None:
    """Judge the windows that versions touched since the last run, and those that have closed since."""
    try:
        record_changes(run, windows, GuardState.read(run.settings, run.guard))
        while waiting := waiting_batches(run, windows, state := GuardState.read(run.settings, run.guard)):
            if len(judgement.new) >= run.guard.versions_per_run:
                judgement.is_behind = True
                break
            record = at_newest_version(run, windows, waiting[0])
            target = _judge_record(run, state, record, recorded_batch(record))
            judgement.new += target.own
            judgement.samples = {**target.samples, **judgement.samples}
    except Exception as error:
        raise _in_words(run, error) from error


def _judge(run: GuardRun, state: GuardState, observation: VersionObservation, batch: VersionBatch) -> GuardTarget:
    """Judge one version. Where its files are gone, the table as it is now is judged in its place."""
    try:
        return _judge_batch(run, state, observation, batch)
    except Exception as error:
        if not _is_vacuumed(error) or batch.version >= observation.now.newest:
            raise _in_words(run, error) from error
    substitute = after_vacuum(batch, observation.now, state.last)
    return _judge_batch(run, state, newest_observation(run.guard, run.settings, observation.now, substitute), substitute)


def _judge_batch(run: GuardRun, state: GuardState, observation: VersionObservation, batch: VersionBatch) -> GuardTarget:
    return _judge_record(run, state, _record(run, observation, batch), batch)


def _judge_record(run: GuardRun, state: GuardState, record: ExtractionRecord, batch: VersionBatch) -> GuardTarget:
    if not same_record(state.records.get(record.batch), record):
        logs.record_extractions(run.settings, [record])
        run.step("observed_done")
    path = table_path(run.guard, run.settings)
    folder = StagingFolder(run.spark, staging_path(run.settings, run.table))
    try:
        rows = require_frame(read_batch(run.spark, run.guard, path, batch, f"{folder.path}/added"))
        target = GuardTarget(
            run, list(state.decisions), rows=rows, batch=record.batch, number=ledger.last_number(state.decisions) + 1,
            knowledge=knowledge_of(run.settings, run.guard, state, record), folder=folder, guard=run.guard,
            version_batch=batch, rows_logged=added_row_count(run.guard, path, batch), history=state.decisions,
        )  # fmt: skip
        target.publish = writer_of(run, target)
        run_steps(target, STEPS)
        return target
    finally:
        folder.remove()


def knowledge_of(settings: Settings, guard: GuardSpec, state: GuardState, record: ExtractionRecord) -> Knowledge:
    """Return what a version is judged by: accepted versions of its kind, since a whole table is not like an appended part."""
    rows = json.loads(record.position or "{}")["rows"]
    alike = [d for d in state.decisions if is_of_kind(state.records.get(d.batch), rows)]
    of_kind, number = FrameLog(settings, guard, alike), ledger.last_number(state.decisions)
    # A request on the baseline counts from the decision after it, of whatever kind. A seed's windows are parts of a table.
    seeds = rows != "table"
    baseline = read_baseline(settings, guard, of_kind.current, number, seeds=seeds) if guard.drift else None
    return of_kind.knowledge(record.p_extracted_at, baseline)


def _record(run: GuardRun, observation: VersionObservation, batch: VersionBatch) -> ExtractionRecord:
    """Return the batch as `ops/extractions` records it before it is read."""
    schema = observation.schema
    position = {"after": batch.after, "rows": batch.rows, "event": batch.event, "text": batch.text}
    position |= {"removes": True} if batch.removes else {}
    # Of a table whose versions a catalog keeps, each version has another file.
    position |= {"location": run.guard.path} if run.guard.table and not run.guard.is_of_catalog else {}
    return ExtractionRecord(
        table=run.table, p_extracted_at=batch.window, extraction_seq=1, rows=0,
        fingerprint=f"{schema.table_id}@{observation.digest}", columns=tuple(field["name"] for field in schema.fields),
        bronze_version=batch.version, run_id=run.run_id, extracted_at=run.clock(), types=schema.types,
        position=json.dumps({**position, "names": physical_names(schema)}, sort_keys=True),
    )  # fmt: skip


def same_record(one: ExtractionRecord | None, other: ExtractionRecord) -> bool:
    """Whether two records are of the same batch in the same state, whichever run wrote them."""
    return one is not None and replace(one, run_id=other.run_id, extracted_at=other.extracted_at) == other


def _is_vacuumed(error: BaseException) -> bool:
    texts = [str(error), str(error.__cause__ or "")]
    texts += [str(each.getMessage()) for each in java_causes(error.__cause__ or error)]
    return any(ABSENT_FILE.search(text) for text in texts)


def _in_words(run: GuardRun, error: Exception) -> Exception:
    if isinstance(error, LakehouseError) or not isinstance(error, SCAN_ERRORS):
        return error
    return SourceError(f"{run.table}: the guarded table cannot be read: {error_text(error, run.personal)}")
