"""One judgement of a frame, from its refusals to its result; with a plan, also its exchange.

Belongs here: the order of a call: what is known, the gate's steps, what a failure leaves. Does not: the steps (pipeline/gate).
"""

import secrets
from collections.abc import Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from lakehouse_assets.contracts.frame_document import FrameDocument
from lakehouse_assets.contracts.frame_rules import frame_mistakes, unknown_references
from lakehouse_assets.contracts.windows import as_utc
from lakehouse_assets.decisions.decide import Knowledge
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.frame import batch_start
from lakehouse_assets.errors import LakehouseError, QuarantinedError, RefusedError
from lakehouse_assets.frames.destination import Destination
from lakehouse_assets.frames.exchange import Exchange, forget_quarantined
from lakehouse_assets.frames.log import FrameLog, empty_knowledge, locked_log, settings_at
from lakehouse_assets.frames.result import FrameResult
from lakehouse_assets.frames.session import require_frame
from lakehouse_assets.frames.staging_folder import StagingFolder
from lakehouse_assets.frames.target import FrameTarget
from lakehouse_assets.pipeline.gate import JUDGING, Step, log, mark_applied, profiles, quarantine, run_steps, write
from lakehouse_assets.pipeline.run import FrameRun
from lakehouse_assets.reports.frame import describe_decision


@dataclass(frozen=True)
class Options:
    """The options of a judgement; see `Gate`."""

    window: datetime | date | str | None = None
    log: str | Path | None = None
    baseline: Any = None
    tables: Mapping[str, DataFrame] = field(default_factory=dict)
    staging: str | Path | None = None


@dataclass(frozen=True)
class PublicationPlan:
    """Where accepted rows go, and quarantined ones."""

    to: str | Path
    mode: Any
    quarantine: str | Path | None


def judge(document: FrameDocument, frame: DataFrame, options: Options, plan: PublicationPlan | None = None) -> FrameResult:
    """Judge a frame and, by a plan, publish it. Raises QuarantinedError for a frame that a plan must not publish."""
    frame = require_frame(frame)
    document.refuse(frame_mistakes(document.rules, dict(frame.dtypes)))
    for check, table in unknown_references(document.rules, list(options.tables)):
        raise RefusedError(f"{check} reads the table {table}: pass it, as `tables={{{table!r}: frame}}`")
    exchange = Exchange(Destination.of(frame.sparkSession, plan.to), plan.mode, document.rules) if plan else None
    exists = exchange.refuse_unfit(frame) if exchange else False
    quarantine_to = _quarantine_of(frame, plan)
    at = datetime.now(UTC)
    start = batch_start(document.rules, at) if options.window is None else _read_window(options.window)
    state = _baseline_of(document, frame, options.baseline)
    folder = StagingFolder(frame.sparkSession, options.staging)
    try:
        with locked_log(options.log, document.rules) if options.log is not None else nullcontext() as frame_log:
            target = _target_of(document, frame, options, folder, frame_log, start, state, at, plan.to if plan else None)
            with closing(target):
                target.quarantine_to = quarantine_to.text if quarantine_to else None
                if exchange:
                    target.publish = lambda decision: exchange.write(target.staged_rows.clean(decision), decision, exists)
                logged: tuple[Step, ...] = (log,) if frame_log else ()
                run_steps(target, (*JUDGING, *logged))
                with _undo(target, quarantine_to):
                    run_steps(target, (quarantine, write) if exchange else ())
                if frame_log:
                    _log_applied(target, options)
    except BaseException:
        folder.remove()
        raise
    (decision,) = target.own
    result = FrameResult(
        decision, target.samples, target.staged_rows, target.knowledge.baseline, target.version, document.left_out
    )
    if exchange and result.blocked:
        raise QuarantinedError(describe_decision(decision), result)
    return result


def _target_of(
    document: FrameDocument,
    frame: DataFrame,
    options: Options,
    folder: StagingFolder,
    frame_log: FrameLog | None,
    start: datetime,
    state: BaselineState | None,
    at: datetime,
    to: str | Path | None,
) -> FrameTarget:
    rules, spark = document.rules, frame.sparkSession
    settings = frame_log.settings if frame_log else settings_at(folder.path)
    run = FrameRun(settings, rules, lambda: spark, secrets.token_hex(6), lambda: at, published_path=str(to or ""))
    # Without a log, the time tells two decisions apart.
    number = frame_log.last + 1 if frame_log else int(at.timestamp() * 1_000_000)
    seq = 1 + sum(d.p_extracted_at == start for d in frame_log.decisions) if frame_log else 1
    knowledge: Knowledge = frame_log.knowledge(start, state) if frame_log else empty_knowledge(rules, state)
    references = {name: require_frame(table) for name, table in options.tables.items()}
    return FrameTarget(
        run, list(frame_log.decisions) if frame_log else [], rows=frame, batch=(start, seq), number=number, knowledge=knowledge,
        folder=folder, references=references,
    )  # fmt: skip


def _log_applied(target: FrameTarget, options: Options) -> None:
    try:
        run_steps(target, (profiles, mark_applied))
    except Exception as error:
        if target.version is None:
            raise
        where = f"{target.run.published_path} has the rows, as version {target.version}"
        raise LakehouseError(f"{where}; but log={options.log} could not be written: {error}") from error


@contextmanager
def _undo(target: FrameTarget, quarantine_to: Destination | None) -> Any:
    """If the exchange fails, delete the quarantined rows that were written before it."""
    try:
        yield
    except BaseException:
        if quarantine_to is not None:
            (decision,) = target.own
            forget_quarantined(quarantine_to, decision)
        raise


def _quarantine_of(frame: DataFrame, plan: PublicationPlan | None) -> Destination | None:
    if plan is None or plan.quarantine is None:
        return None
    to = Destination.of(frame.sparkSession, plan.quarantine)
    if not to.is_path:
        raise RefusedError(f"quarantine={plan.quarantine}: a path is wanted here (with a slash), not a table's name")
    if to == Destination.of(frame.sparkSession, plan.to):
        raise RefusedError(f"quarantine={plan.quarantine}: this is the table that clean rows go to")
    if to.detail() is None and to.holds_files():
        raise RefusedError(f"quarantine={plan.quarantine}: this holds files, and is no Delta table; choose another path")
    return to


def _baseline_of(document: FrameDocument, frame: DataFrame, source: Any) -> BaselineState | None:
    if source is None or isinstance(source, BaselineState):
        return source
    from lakehouse_assets.frames.baseline import read_baseline_of

    return read_baseline_of(document.rules, source, frame.sparkSession)


def _read_window(window: datetime | date | str) -> datetime:
    if isinstance(window, str):
        try:
            window = datetime.fromisoformat(window)
        except ValueError:
            raise RefusedError(f"window={window!r}: a time is wanted, such as 2024-05-01 or 2024-05-01T06:00") from None
    return as_utc(window)
