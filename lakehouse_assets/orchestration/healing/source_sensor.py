"""The sensor `watch_sources`: reports windows that arrived or changed at the sources, and overdue windows. Windows that arrive
scattered take few runs, which pass over unchanged windows between them.

Belongs here: the sensor, and requests for ranges with more than one gap. Does not: polling (source_state), what is overdue
(overdue), single gaps (automation: Dagster makes a run of each unbroken range), or failed windows (retries).
"""

import hashlib
import json
import time
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

import dagster as dg

from lakehouse_assets.checks.dependencies import tables_read
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import contiguous
from lakehouse_assets.decisions.healing import bridge_gaps, settled_windows
from lakehouse_assets.decisions.retry_policy import MAX_SINGLE_GAPS
from lakehouse_assets.orchestration.dagster_internals import read_cursor, write_cursors
from lakehouse_assets.orchestration.healing import source_state, source_versions
from lakehouse_assets.orchestration.healing.automation import automation_is_on
from lakehouse_assets.orchestration.healing.overdue import report_overdue
from lakehouse_assets.orchestration.healing.retries import run_request
from lakehouse_assets.orchestration.healing.shared_partitions import partition_requests
from lakehouse_assets.orchestration.healing.window_state import read_statuses, window_asset_selection
from lakehouse_assets.orchestration.workers.configured import tick_seconds
from lakehouse_assets.settings import Settings


def source_sensor(settings: Settings, specs: Sequence[TableSpec]) -> dg.SensorDefinition:
    """Return the sensor, on by default. A tick costs a listing of the landing folder."""
    # A tick that Dagster ends loses its own cursor: the table whose source took too long is stored under this key.
    slow_table_key = f"watch_sources {settings.root}"

    @dg.sensor(
        name="watch_sources",
        asset_selection=window_asset_selection(specs) if specs else None,
        minimum_interval_seconds=tick_seconds(settings),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports windows that arrived or changed at a source, once two polls agree; overdue windows, where a table "
        "sets `overdue_after`; and streams that fail. With very many windows, each tick polls some tables in turn.",
    )
    def watch_sources(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        before = json.loads(context.cursor) if context.cursor else {}
        now, began = datetime.now(UTC), time.monotonic()
        unsettled = before.get("seen", {})
        slow = read_cursor(context.instance, slow_table_key)
        # A source that takes too long would lose what the others reported, tick after tick.
        turn = [spec for spec in specs if spec.name != slow]
        limits = source_state.time_budget(), before.get("next"), source_state.ANSWER_SECONDS
        poll = source_state.poll_sources(context.instance, settings, turn, unsettled, now, *limits)
        slowest = max(poll.seconds, key=lambda name: poll.seconds[name], default=None)
        late = slowest if time.monotonic() - began > source_state.TOO_LATE else None
        if slow or late:
            write_cursors(context.instance, {slow_table_key: late or ""})
        if slow:
            poll.unsettled |= {name: fingerprints for name, fingerprints in unsettled.items() if name == slow}
            poll.warnings.append(
                f"{slow}: its source took so long that Dagster ended the poll (after a minute): this poll leaves it out."
                " Put fewer folders into its path, or let extraction.start be later"
            )
        reported = before.get("overdue", {})
        arriving = {event.asset_key for event in poll.events}
        evaluations, overdue = report_overdue(context.instance, settings, specs, poll.tables, reported, now, arriving)
        for warning in poll.warnings:
            context.log.warning(warning)
        cursor = json.dumps({"seen": poll.unsettled, "overdue": overdue, "next": poll.next_table}, sort_keys=True)
        requests = _gap_requests(context, settings, poll, now)
        if not poll.events and not evaluations and not requests and cursor == context.cursor:
            settling = sum(map(len, poll.unsettled.values()))
            nothing = f"{settling} windows are settling" if settling else "nothing new at the sources"
            return dg.SkipReason("; ".join([*poll.warnings, *poll.waiting]) or nothing)
        return dg.SensorResult(asset_events=[*poll.events, *evaluations], run_requests=requests, cursor=cursor)

    return watch_sources


def _gap_requests(
    context: dg.SensorEvaluationContext, settings: Settings, poll: source_state.Poll, now: datetime
) -> list[dg.RunRequest]:
    """Return requests for runs over several gaps. Where that fails for a table, its events are reported and the conditions
    request its gaps one by one.
    """
    requests: list[dg.RunRequest] = []
    shared = [spec for spec in poll.tables if spec.extraction.shares_partitions and not spec.extraction.stream]
    if not (poll.events or shared) or not automation_is_on(context.instance):
        return requests
    for spec in shared:
        try:
            requests += partition_requests(context.instance, settings, spec, poll.events, now)
        except Exception as error:
            context.log.warning(f"{spec.name}: its partitions are requested by a later tick: {error}")
    for spec in poll.tables:
        try:
            unsettled = poll.unsettled.get(spec.name, {})
            requests += gap_requests(context.instance, settings, spec, poll.events, now, unsettled)
        except Exception as error:
            context.log.warning(f"{spec.name}: its gaps are requested one by one: {error}")
    return requests


def gap_requests(
    instance: dg.DagsterInstance,
    settings: Settings,
    spec: TableSpec,
    events: Sequence[dg.AssetMaterialization],
    now: datetime,
    unsettled: Collection[str] = (),
) -> list[dg.RunRequest]:
    """Return requests for windows that these source events report, where one run covers several gaps. No run passes over an
    ``unsettled`` window (keys). The conditions see these windows as in progress. None for a table that waits for others.
    """
    key = source_versions.source_key(spec)
    if spec.extraction.shares_partitions:
        return []  # `partition_requests`
    versions = {e.partition: (e.tags or {})[source_versions.VERSION_TAG] for e in events if e.asset_key == key}
    windows = spec.extraction.windows(now)
    in_lookback = windows[-spec.extraction.lookback :] if spec.extraction.lookback else windows
    wanted = {window for window in in_lookback if window.key in versions}
    if tables_read(spec.checks) or len(contiguous(wanted)) <= MAX_SINGLE_GAPS:
        return []
    requests = []
    between = settled_windows(read_statuses(instance, settings, spec, now), unsettled)
    for unbroken in bridge_gaps(wanted, between):
        reported = [window for window in unbroken if window in wanted]
        if len(reported) == len(unbroken):
            continue
        # The same versions of the same windows are requested once, even if a tick is repeated.
        digest = hashlib.sha256("\0".join(versions[window.key] for window in reported).encode()).hexdigest()[:16]
        requests.append(run_request(spec, unbroken, digest, {"lakehouse/gaps": str(len(contiguous(reported)))}))
    return requests
