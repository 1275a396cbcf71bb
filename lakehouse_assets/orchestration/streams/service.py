"""The process of the streams: its tables in turn, one Spark session for a while, then what is new is reported to Dagster.

Belongs here: the loop, stopping, changed definitions, a new process. Does not: one table's turn (table_stream), or the
reports to Dagster (report).
"""

import logging
import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import dagster as dg
from pyspark.sql import SparkSession

from lakehouse_assets.contracts.references import readers_of
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.errors import ConfigError, LakehouseError, RunFailedError
from lakehouse_assets.orchestration.assets.described_table import golds_of
from lakehouse_assets.orchestration.assets.evidence_check import report_findings
from lakehouse_assets.orchestration.assets.written_table import WrittenTable
from lakehouse_assets.orchestration.streams.failures import failure_text, recorded_text, resume_failure
from lakehouse_assets.orchestration.streams.recorded_report import record_error
from lakehouse_assets.orchestration.streams.report import report_windows
from lakehouse_assets.orchestration.streams.table_stream import TableStream
from lakehouse_assets.orchestration.workers.dependencies import Dependencies
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.session import build_session
from lakehouse_assets.storage.session_reset import kill_java, session_of_one_run

# What is new is reported to Dagster this often, and at once where a window is not plainly published. Gold follows it.
REPORT = timedelta(seconds=60)
# The longest wait between two looks at who is due.
LOOK_SECONDS = 0.25
log = logging.getLogger("lakehouse.stream")


@dataclass
class StreamService:
    """``load``: the project's tables, read anew. ``is_served``: whether a table is one of these streams. ``available_now``: end
    with what waits now. ``say``: receives what has been done, a line each.
    """

    settings: Settings
    instance: dg.DagsterInstance
    load: Callable[[], Sequence[WrittenTable]]
    is_served: Callable[[TableSpec], bool]
    available_now: bool = False
    say: Callable[[str], Any] = log.info
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    stopping: threading.Event = field(default_factory=threading.Event)
    streams: dict[str, TableStream] = field(default_factory=dict)
    failures: dict[str, Exception] = field(default_factory=dict)
    last_errors: dict[str, str] = field(default_factory=dict)

    def serve(self) -> None:
        """Serve until `stopping` is set, or with ``available_now`` until what waited is taken. The window that is under way is
        finished first. Raises EnvironmentMissing where Spark cannot start. With ``available_now``, a Java that dies is the end:
        RunFailedError where only gold is left.
        """
        dependencies = Dependencies(self.settings)
        self._load_streams()
        if self._is_done():
            return  # no source answers, or there is none: no Java is needed for that
        base = build_session(self.settings)
        while not self.stopping.is_set() and not self._is_done():
            if not self.available_now and (dependencies.code_changed() or not _java_answers(base)):
                self._close()
                if self.stopping.is_set():
                    return
                _become_new_process()
            if dependencies.definitions_changed():
                self._load_again()
            end = self.clock() + REPORT
            try:
                with session_of_one_run(base) as session:
                    self._take_turns(session, end)
            except Exception:
                # The session cannot be given back to a Java that has died: the next round begins as a new process.
                if _java_answers(base):
                    raise
                if self.available_now:
                    self._end_without_java()
                else:
                    log.warning("Java has ended: the service starts again with a new one")
            self._report(self.streams.values())
        self._close()

    def _end_without_java(self) -> None:
        """End a service that takes what waits now. The rest waits for the next start, and so does gold, which needs a Java.
        Raises RunFailedError where all is taken, so that only gold waits.
        """
        for stream in self._active():
            self.failures[stream.spec.name] = RunFailedError("Java has ended, and what waited is not all taken")
        was_stopping = self.stopping.is_set()
        self.stopping.set()
        # Whoever ends the command by a signal gives gold up.
        if not self.failures and not was_stopping:
            self._close()
            raise RunFailedError(
                "Java has ended: what waited is taken, but gold of it is not rewritten; `lakehouse run` does that"
            )

    def _take_turns(self, session: SparkSession, end: datetime) -> None:
        """Let each table whose window is due have its turn, until ``end`` or until Java has died."""
        make_run = partial(self._make_run, session)
        now = self.clock()
        for stream in self._active():
            stream.limit_wait(now)  # the clock may have been put back
        while not self.stopping.is_set() and not self._is_done() and now <= (now := self.clock()) < end:
            due = self._due(now)
            for stream in due:
                if self.stopping.is_set():
                    return
                self._take_turn(stream, make_run)
                if stream.failures and not _java_answers(session):
                    return
            if not due:
                self.stopping.wait(LOOK_SECONDS)

    def _due(self, now: datetime) -> list[TableStream]:
        """Return whose turn it is. A stream that fails comes after the others: each may have taken a window in this process, or
        with ``available_now`` all that waited, before it.
        """
        active = self._active()
        others = [stream for stream in active if not stream.failures]
        if any(self.available_now or not stream.is_complete for stream in others):
            active = others
        due = (stream for stream in active if stream.due_at <= now)
        return sorted(due, key=lambda stream: (stream.failures > 0, stream.due_at))

    def _take_turn(self, stream: TableStream, make_run: Callable[..., Run]) -> None:
        began = self.clock()
        try:
            published = stream.take_turn(make_run, began)
        except Exception as error:
            self._note_error(stream, error)
            if self.available_now:
                self.failures[stream.spec.name] = error
            return
        if not stream.failures and self.last_errors.pop(stream.spec.name, None):
            self._record_error(stream, None)
        for window, decision in sorted(published.items(), key=lambda item: item[0]):
            seconds = (self.clock() - began).total_seconds()
            rows = f"{decision.verdict}, {decision.counts.rows_published:,} rows published"
            self.say(f"{stream.spec.name} {window.key}: {rows} ({seconds:.1f} s)")
        if stream.is_urgent:
            self._report([stream])

    def _note_error(self, stream: TableStream, error: Exception) -> None:
        """Record an error, and say it once, until it is another one or is over. Personal values are masked."""
        recorded = recorded_text(error, stream.spec)
        if self.last_errors.get(stream.spec.name) != recorded:
            self.last_errors[stream.spec.name] = recorded
            log.warning("%s: %s (tried again)", stream.spec.name, failure_text(error, stream.spec))
        self._record_error(stream, recorded)

    def _record_error(self, stream: TableStream, text: str | None) -> None:
        """Record a stream's error, or that it is over, for `heal status`, the check and the alert."""
        try:
            record_error(self.instance, stream.spec, text, self.clock(), stream.failures if text else 0)
        except Exception as error:  # the next report records it
            log.warning("%s: its report to Dagster failed: %s", stream.spec.name, type(error).__name__)

    def _make_run(self, session: SparkSession, spec: TableSpec, readers: Mapping[str, Sequence[str]]) -> Run:
        context = SimpleNamespace(instance=self.instance, log=log)
        return Run(
            settings=self.settings,
            spec=spec,
            session=lambda: session,
            run_id=str(uuid.uuid4()),
            clock=self.clock,
            readers=readers,
            alarm=partial(report_findings, context, self.settings, spec),
        )

    def _load_again(self) -> None:
        """Read the tables, which have changed. Where that fails, as of a half-written file, streams go on as they were."""
        before = [*self.streams]
        try:
            self._load_streams()
        except LakehouseError as error:
            log.warning("the tables cannot be read, and the streams go on as they were: %s", error)
        for name in before:
            if name not in self.streams:
                why = "its stream ends: it has a mistake (`lakehouse check validate`), or is no stream any more"
                log.warning("%s: %s", name, why)
                if self.available_now:
                    self.failures[name] = ConfigError(why)  # what waits there is not taken

    def _load_streams(self) -> None:
        """Read the tables. A stream whose contract has not changed goes on as it is."""
        every = self.load()
        tables = {table.spec.name: table for table in every if self.is_served(table.spec)}
        golds = golds_of(every)
        for name in self.streams.keys() - tables.keys():
            self._report([self.streams[name]])
            self.streams.pop(name).feed.close()
        for name, table in tables.items():
            before = self.streams.get(name)
            if before is not None and before.spec == table.spec:
                continue
            stream = TableStream(table.spec, self.settings, readers_of(table.spec, golds), self.clock())
            if before is None:
                resume_failure(self.instance, stream, self.clock(), waits=not self.available_now)
            else:
                before.feed.close()
                # A change of the contract shows no more than a new process does that the next window can be taken.
                stream.windows, stream.is_urgent, stream.failures = before.windows, before.is_urgent, before.failures
            if self.available_now:
                self._limit(stream)
            self.streams[name] = stream

    def _limit(self, stream: TableStream) -> None:
        try:
            stream.limit_to_waiting(self.clock())
        except LakehouseError as error:
            self._record_error(stream, recorded_text(error, stream.spec))
            self.failures[stream.spec.name] = error

    def _active(self) -> list[TableStream]:
        return [stream for stream in self.streams.values() if stream.spec.name not in self.failures and not _is_over(stream)]

    def _is_done(self) -> bool:
        return self.available_now and not self._active()

    def _report(self, streams: Iterable[TableStream]) -> None:
        """Report what is new. What cannot be reported now is reported the next time: the logs have it."""
        for stream in streams:
            name = stream.spec.name
            # A stream that fails, and is not in `last_errors`, failed in an earlier process, and was not tried yet; unless its
            # source said in this one that nothing waits.
            if name in self.last_errors or (stream.is_complete and (not stream.failures or stream.left == 0)):
                self._record_error(stream, self.last_errors.get(name))
            try:
                report_windows(self.instance, self.settings, stream, self.clock())
                stream.is_urgent = False
            except Exception as error:
                log.warning("%s: its report to Dagster failed: %s", stream.spec.name, type(error).__name__)

    def _close(self) -> None:
        self._report(self.streams.values())
        for stream in self.streams.values():
            stream.feed.close()


def _is_over(stream: TableStream) -> bool:
    """Whether what waited at the beginning has been taken."""
    return stream.left == 0 and stream.is_complete


def _java_answers(session: SparkSession) -> bool:
    try:
        java: Any = session.sparkContext._jsc
        return not java.sc().isStopped()
    except Exception:
        return False


def _become_new_process() -> None:
    """Start this command again: the code or the extensions have changed, or Java has died."""
    kill_java()
    os.execv(sys.executable, sys.orig_argv)  # noqa: S606
