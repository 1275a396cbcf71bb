"""`lakehouse run`: what the daemon does, once, in this process and on the same instance, with one JVM.

Belongs here: finding what is pending, and running it by contiguous range, oldest first. Does not: the flow itself.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from graphlib import TopologicalSorter
from typing import Any

import dagster as dg

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions.healing import at_rest, ranges
from lakehouse_assets.errors import EnvironmentMissing, LakehouseError, LockedError, RunFailedError
from lakehouse_assets.layers.others import tables_read
from lakehouse_assets.measures.isolate import plain
from lakehouse_assets.orchestration.announce import announce
from lakehouse_assets.orchestration.component import LakehouseTable
from lakehouse_assets.orchestration.following import gold_is_current
from lakehouse_assets.orchestration.healing import assets_of, healing_of
from lakehouse_assets.orchestration.in_process import execute_assets
from lakehouse_assets.orchestration.publish import publish_decisions
from lakehouse_assets.orchestration.retries import evaluation, range_tags
from lakehouse_assets.orchestration.watcher import Unsettled, look
from lakehouse_assets.settings import Settings

SETTLING_SECONDS = 1.0


@dataclass
class Report:
    """What a headless run did: windows newly reported, ranges run, gold rewritten; sources that could not be reached, troubles
    that stopped nothing, and windows that were left alone.
    """

    reported: int = 0
    ranges: list[tuple[str, str, str, int]] = field(default_factory=list)
    gold: list[str] = field(default_factory=list)
    unreachable: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def report_sources(
    instance: dg.DagsterInstance, settings: Settings, specs: Sequence[TableSpec]
) -> tuple[int, list[str], Unsettled]:
    """Two looks, then the windows that were the same in both are reported to the instance. Returns how many, troubles, and what
    changes just now.
    """
    seen = look(instance, settings, specs, {}, datetime.now(UTC)).seen
    if seen:
        time.sleep(SETTLING_SECONDS)
    looked = look(instance, settings, specs, seen, datetime.now(UTC))
    for event in looked.events:
        instance.report_runless_asset_event(event)
    return len(looked.events), looked.troubles, looked.seen


def pending(instance: dg.DagsterInstance, settings: Settings, spec: TableSpec) -> list[Window]:
    """Windows that have arrived and are not, in their newest version, in bronze, judged, applied and on record. No JVM."""
    return [h.window for h in healing_of(instance, settings, spec, datetime.now(UTC)) if h.todo]


def run_once(
    definitions: dg.Definitions,
    instance: dg.DagsterInstance,
    settings: Settings,
    tables: Sequence[LakehouseTable],
    chosen: Callable[[Window], bool] | None = None,
    progress: Callable[[str], Any] = lambda _: None,
) -> Report:
    """Look, heal every pending window of these tables, let gold follow, tell of what was held and of what was decided.

    ``chosen``: the windows asked for, where not all are. A range that fails does not hold up the others; raises RunFailedError
    at the end, naming each that did.
    """
    report = Report()
    failed: list[tuple[str, Exception]] = []
    tables = in_order(tables)
    specs = [table.spec for table in tables]
    progress("looking at the sources")
    report.reported, report.unreachable, unsettled = report_sources(instance, settings, specs)
    for spec in specs:
        found = healing_of(instance, settings, spec, datetime.now(UTC))
        todo = [h for h in found if h.todo and (chosen is None or chosen(h.window))]
        # What has used up its tries is left alone here too, unless it is asked for by name.
        left = [h.window.key for h in todo if h.next == "stopped" and chosen is None]
        report.left += left
        if left:
            report.troubles.append(f"{spec.name}: left alone after failed tries: {', '.join(left)} (`lakehouse heal status`)")
        before = len(failed)
        heeded = [h for h in todo if h.window.key not in left]
        for windows in ranges(heeded, at_rest(found, unsettled.get(spec.name, {}))):
            first, last, count = windows[0].key, windows[-1].key, len({h.window for h in heeded} & set(windows))
            progress(f"{spec.name}: {first} to {last} ({count} windows)")
            error = _execute(definitions, instance, assets_of(spec), range_tags(windows))
            if error is None:
                report.ranges.append((spec.name, first, last, count))
                continue
            failed.append((f"{spec.name} {first} to {last}", error))
            if isinstance(error, EnvironmentMissing | LockedError):
                break
        if len(failed) > before:
            instance.report_runless_asset_event(evaluation(spec, healing_of(instance, settings, spec, datetime.now(UTC))))
    for table in tables:
        for gold in table.spec.gold:
            name = f"gold_{gold.name}"
            if gold_is_current(settings, instance, gold, table.query_of(gold, specs)):
                continue
            progress(f"{name}: rewriting")
            if error := _execute(definitions, instance, [dg.AssetKey(name)], {}):
                failed.append((name, error))
            else:
                report.gold.append(name)
    _, troubles = announce(instance, settings, specs)
    report.troubles += troubles
    published = publish_decisions(instance, settings)
    report.troubles += [f"{trouble}; `lakehouse run` or the daemon tries again" for trouble in published.troubles]
    if failed:
        raise _failure(failed, report.unreachable)
    return report


def in_order(tables: Sequence[LakehouseTable]) -> list[LakehouseTable]:
    """By name, but each after the tables that its checks look into (of those given)."""
    by_name = {table.spec.name: table for table in sorted(tables, key=lambda t: t.spec.name)}
    before = {name: [t for t in tables_read(table.spec.checks) if t in by_name] for name, table in by_name.items()}
    return [by_name[name] for name in TopologicalSorter(before).static_order()]


# The log of a run is kept by the instance; on the terminal it would bury what a person wants to know.
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def _execute(
    definitions: dg.Definitions, instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey], tags: dict[str, str]
) -> Exception | None:
    """Run these assets here; None, or what their step raised."""
    try:
        execute_assets(definitions, instance, keys, tags, QUIET)
    except Exception as error:
        return error
    return None


def _failure(failed: Sequence[tuple[str, Exception]], unreachable: Sequence[str]) -> LakehouseError:
    """One error for all that failed: that of the steps where it is one kind (Java is missing, a table is locked)."""
    # A failure of our own is told in full: it has a line for each difference.
    lines = [f"{what}: {error if isinstance(error, dg.Failure) else plain(error)}" for what, error in failed]
    kinds = {type(error) for _, error in failed}
    if len(kinds) == 1 and isinstance(failed[0][1], EnvironmentMissing | LockedError):
        return type(failed[0][1])("\n".join([*lines, *unreachable]))
    return RunFailedError("\n".join([*lines, *unreachable, "The runs' logs are in the UI (`make dev`); run again to retry"]))


def run_job(definitions: dg.Definitions, instance: dg.DagsterInstance, name: str, op: str, config: dict[str, Any]) -> Any:
    """Run one of the act jobs here and return its result. Raises what its op raised."""
    job = definitions.resolve_job_def(name)
    return job.execute_in_process(instance=instance, run_config={"ops": {op: {"config": config}}, **QUIET})
