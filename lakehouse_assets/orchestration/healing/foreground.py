"""`lakehouse run`: what the daemon does, once, in this process and on the same instance, with one JVM.

Belongs here: which windows are pending, and running them by contiguous range, oldest first. Does not: the flow (pipeline).
"""

import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from graphlib import TopologicalSorter
from typing import Any

import dagster as dg

from lakehouse_assets.checks.dependencies import tables_read
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window, contiguous
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.failure_isolation import FailureIsolation
from lakehouse_assets.decisions.healing import WindowStatus, plan_ranges, settled_windows, split_range
from lakehouse_assets.decisions.naming import first_of
from lakehouse_assets.errors import EnvironmentMissing, EvidenceError, LakehouseError, LockedError, RunFailedError
from lakehouse_assets.events.lineage_tables import LineageTable
from lakehouse_assets.measures.error_text import plain_text
from lakehouse_assets.orchestration.asset_keys import asset_key
from lakehouse_assets.orchestration.assets.written_table import WrittenTable
from lakehouse_assets.orchestration.dagster_internals import execute_in_process
from lakehouse_assets.orchestration.healing.ranges import partitions_of_ranges, range_tags
from lakehouse_assets.orchestration.healing.reading_attempts import reading_tags
from lakehouse_assets.orchestration.healing.retries import stopped_evaluation
from lakehouse_assets.orchestration.healing.source_state import SHOWN, Fingerprints, poll_sources
from lakehouse_assets.orchestration.healing.stale_gold import gold_is_current
from lakehouse_assets.orchestration.healing.window_state import ONE_TRY, read_statuses, window_assets
from lakehouse_assets.orchestration.jobs.audits import CHECK as AUDIT_CHECK
from lakehouse_assets.orchestration.jobs.operation_job import QUIET
from lakehouse_assets.orchestration.lineage import publish_lineage
from lakehouse_assets.orchestration.notify import publish_decisions, send_alerts
from lakehouse_assets.orchestration.own_process import process_tags
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs

SETTLING_SECONDS = 1.0
# After one of these, nothing else of the table runs.
FATAL = (EnvironmentMissing, LockedError, EvidenceError)


@dataclass
class RunReport:
    """What `lakehouse run` did: the number of windows newly ``reported``, the ``ranges`` run (table, first, last, count),
    ``gold`` judged again, the ``verdicts`` on each of these tables with their numbers, ``unreachable`` sources and
    ``warnings``. Windows were ``skipped`` because their tries are used up.
    """

    reported: int = 0
    ranges: list[tuple[str, str, str, int]] = field(default_factory=list)
    gold: list[str] = field(default_factory=list)
    verdicts: dict[str, Counter[str]] = field(default_factory=dict)
    unreachable: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


@dataclass
class ForegroundRun:
    """One run. ``selected``: whether a window was requested, where not all are. ``progress``: receives what is being done.
    ``lineage``: the datasets of the whole project, also of tables that do not run; without them, no lineage is sent.
    """

    definitions: dg.Definitions
    instance: dg.DagsterInstance
    settings: Settings
    tables: Sequence[WrittenTable]
    selected: Callable[[Window], bool] | None = None
    progress: Callable[[str], Any] = lambda _: None
    lineage: Mapping[str, LineageTable] | None = None
    report: RunReport = field(default_factory=RunReport)
    failures: list[tuple[str, Exception]] = field(default_factory=list)

    def run(self) -> RunReport:
        """Poll the sources, run every pending window of these tables, rewrite stale gold, send alerts, decisions and lineage.

        A range that fails does not stop the others; raises RunFailedError at the end, naming each that did.
        """
        tables = order_by_reference(self.tables)
        specs = [table.spec for table in tables]
        self.progress("polling the sources")
        unsettled = self.report_sources(specs)
        for spec in specs:
            try:
                self._run_windows(spec, unsettled.get(spec.name, {}))
            except Exception as error:  # a table that cannot be read stops no other
                self.failures.append((spec.name, error))
        for table in tables:
            self._rewrite_gold(table, specs)
        _, warnings = send_alerts(self.instance, self.settings, specs)
        self.report.warnings += warnings
        deliveries = [publish_decisions(self.instance, self.settings)]
        if self.lineage is not None:
            deliveries.append(publish_lineage(self.instance, self.settings, self.lineage))
        for warning in (warning for delivery in deliveries for warning in delivery.warnings):
            self.report.warnings.append(f"{warning}; `lakehouse run` or the daemon tries again")
        if self.failures:
            raise _joined_error(self.failures, self.report.unreachable)
        return self.report

    def report_sources(self, specs: Sequence[TableSpec]) -> Fingerprints:
        """Poll the sources, twice unless one poll is enough, and report the settled windows. Returns the other fingerprints."""
        poll = poll_sources(self.instance, self.settings, specs, {}, datetime.now(UTC))
        if poll.unsettled:
            time.sleep(SETTLING_SECONDS)
            poll = poll_sources(self.instance, self.settings, specs, poll.unsettled, datetime.now(UTC))
        self.report.warnings += [f"{waiting}; not ingested yet" for waiting in poll.waiting]
        for name, keys in poll.changing_windows.items():
            windows = first_of(keys, SHOWN)
            self.report.warnings.append(f"{name}: {windows}: its data changed a moment ago; not ingested yet, run again")
        for event in poll.events:
            self.instance.report_runless_asset_event(event)
        self.report.reported, self.report.unreachable = len(poll.events), poll.warnings
        return poll.unsettled

    def _statuses(self, spec: TableSpec) -> list[WindowStatus]:
        return read_statuses(self.instance, self.settings, spec, datetime.now(UTC))

    def _run_windows(self, spec: TableSpec, unsettled: dict[str, str]) -> None:
        statuses = self._statuses(spec)
        pending = [s for s in statuses if s.is_pending and (self.selected is None or self.selected(s.window))]
        # A window whose tries are used up runs here only if it is requested by name.
        skipped = [s.window.key for s in pending if s.next_step == "stopped" and self.selected is None]
        self.report.skipped += skipped
        if skipped:
            self.report.warnings.append(
                f"{spec.name}: skipped after failed tries: {', '.join(skipped)} (`lakehouse heal status`)"
            )
        to_run = [s for s in pending if s.window.key not in skipped]
        failures_before, ended = len(self.failures), list[datetime]()
        planned = plan_ranges(to_run, settled_windows(statuses, unsettled))
        partition = spec.extraction.partition
        for windows in partitions_of_ranges(spec, planned):
            first, last, count = windows[0].key, windows[-1].key, sum(partition(s.window) in windows for s in to_run)
            self.progress(f"{spec.name}: {first} to {last} ({count} windows)")
            failures = isolate_in_runs(
                windows,
                lambda some, tags: execute_assets(
                    self.definitions, self.instance, window_assets(spec), range_tags(spec, some) | reading_tags(spec) | tags
                ),
                lambda some: sorted({partition(s.window) for s in self._statuses(spec) if s.is_pending} & set(some)),
            )
            if not failures:
                self.report.ranges.append((spec.name, first, last, count))
                ended += [s.window.start for s in to_run if partition(s.window) in windows]
            self.failures += [(f"{spec.name} {some[0].key} to {some[-1].key}", error) for some, error in failures]
            if any(isinstance(error, FATAL) for _, error in failures):
                break
        if ended:
            self.report.verdicts[spec.name] = count_verdicts(logs.decisions(self.settings, spec.name), ended)
        if len(self.failures) > failures_before:
            self.instance.report_runless_asset_event(stopped_evaluation(self.instance, spec, self._statuses(spec)))

    def _rewrite_gold(self, table: WrittenTable, specs: Sequence[TableSpec]) -> None:
        for gold in table.spec.gold:
            name = f"gold_{gold.name}"
            try:
                if gold_is_current(self.settings, self.instance, gold, table.query_of(gold, specs)):
                    continue
            except Exception as error:  # an input that cannot be read stops no other gold
                self.failures.append((name, error))
                continue
            self.progress(f"{name}: rewriting")
            if error := execute_assets(self.definitions, self.instance, [asset_key(gold, name)], {}):
                self.failures.append((name, error))
            else:
                self.report.gold.append(name)
                self.report.verdicts[name] = Counter(d.verdict for d in logs.decisions(self.settings, name)[-1:])


def count_verdicts(decisions: Iterable[Decision], starts: Collection[datetime]) -> Counter[str]:
    """Return how many of these windows have each verdict: that of the window's newest extraction."""
    of_windows = ledger.of_windows(decisions, set(starts)).values()
    return Counter(max(of_window, key=lambda d: (d.extraction_seq, d.number)).verdict for of_window in of_windows)


def execute_assets(
    definitions: dg.Definitions, instance: dg.DagsterInstance, assets: Collection[dg.AssetKey], tags: Mapping[str, str]
) -> Exception | None:
    """Run these assets in this process and return the error that their step raised.

    Their checks run too, except the audit: it reads the whole table and has a schedule of its own.
    """
    checks = definitions.resolve_asset_graph().asset_check_keys
    checks = {key for key in checks if key.asset_key in assets and key.name != AUDIT_CHECK}
    job = definitions.resolve_implicit_global_asset_job_def()
    job = job.get_subset(asset_selection=set(assets), asset_check_selection=checks).as_ephemeral_job({}, {})
    try:
        execute_in_process(job, instance, assets, process_tags(tags), QUIET)
    except Exception as error:
        return error
    return None


def isolate_in_runs(
    windows: Sequence[Window],
    execute: Callable[[Sequence[Window], dict[str, str]], Exception | None],
    unfinished: Callable[[Sequence[Window]], Sequence[Window]],
) -> list[tuple[Sequence[Window], Exception]]:
    """Run these windows, and what is ``unfinished`` after a failure in ever smaller ranges (`decisions.failure_isolation`).
    Returns the smallest ranges that failed, each with its error. All of these runs count as one try.
    """
    tags = {ONE_TRY: uuid.uuid4().hex}

    def split(some: Sequence[Window]) -> list[list[Window]]:
        return [part for unbroken in contiguous(some) for part in split_range(unbroken)]

    return FailureIsolation(lambda some: execute(some, tags), unfinished, split, FATAL).isolate(windows)


def order_by_reference(tables: Sequence[WrittenTable]) -> list[WrittenTable]:
    """Return these tables by name, but each after those of them that its checks refer to."""
    by_name = {table.spec.name: table for table in sorted(tables, key=lambda t: t.spec.name)}
    before = {name: [t for t in tables_read(table.spec.checks) if t in by_name] for name, table in by_name.items()}
    return [by_name[name] for name in TopologicalSorter(before).static_order()]


def _joined_error(failures: Sequence[tuple[str, Exception]], unreachable: Sequence[str]) -> LakehouseError:
    """Return one error for all failures: of the steps' own type where that is one (Java is missing, a table is locked)."""
    # A Dagster failure of ours is shown in full, and damage: they have a line for each difference, or for each finding.
    lines = [
        f"{name}: {error if isinstance(error, dg.Failure | EvidenceError) else plain_text(error)}" for name, error in failures
    ]
    types = {type(error) for _, error in failures}
    if len(types) == 1 and isinstance(failures[0][1], FATAL):
        return type(failures[0][1])("\n".join([*lines, *unreachable]))
    return RunFailedError("\n".join([*lines, *unreachable, "The runs' logs are in the UI (`make dev`); run again to retry"]))
