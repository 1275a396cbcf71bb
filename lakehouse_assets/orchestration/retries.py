"""Tries that come after a failed one: the sensor that asks for them, and the check that shows where trying has ended.

Belongs here: when a failed window is run again. Does not: the first run of a window (automation), or the judgement (decisions).
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
from dagster._core.storage.tags import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.decisions.healing import Healing, due
from lakehouse_assets.decisions.naming import first_of
from lakehouse_assets.orchestration.checks import silver_check_specs
from lakehouse_assets.orchestration.following import Golds, overlooked_gold
from lakehouse_assets.orchestration.healing import FAILED, assets_of, healing_of, perhaps_overlooked, selection_of
from lakehouse_assets.reports.healings import healing_rows
from lakehouse_assets.reports.markdown import table as markdown_table
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs

CHECK = "no_window_left_failed"
SHOWN = 50
# What a run's end may take to be seen, and clocks that differ.
SLACK = timedelta(minutes=5)


def range_tags(windows: Sequence[Window]) -> dict[str, str]:
    """What tells Dagster that a run is of these windows, which must be unbroken."""
    return {ASSET_PARTITION_RANGE_START_TAG: windows[0].key, ASSET_PARTITION_RANGE_END_TAG: windows[-1].key}


def checks_of(spec: TableSpec) -> list[dg.AssetCheckKey]:
    """The checks that go with a window. Not the audit, which looks at the whole table and has a time of its own."""
    silver = dg.AssetKey(f"silver_{spec.name}")
    return [dg.AssetCheckKey(silver, name) for name in [*(check.name for check in silver_check_specs(spec)), CHECK]]


def request_of(spec: TableSpec, windows: Sequence[Window], why: str, tags: dict[str, str]) -> dg.RunRequest:
    """One run of these windows, which must be unbroken. With the same ``why``, it is asked for once."""
    return dg.RunRequest(
        run_key=f"{spec.name} {windows[0].key}..{windows[-1].key} {why}",
        asset_selection=assets_of(spec),
        asset_check_keys=checks_of(spec),
        tags={**range_tags(windows), **tags},
    )


@dataclass
class Look:
    """What one look at the failed windows asks for and tells. ``cursor``: since when failed runs are to be looked for, when
    overlooked windows were looked for, and the tables with windows that failed, each with those that are left alone.
    """

    cursor: str
    requests: list[dg.RunRequest] = field(default_factory=list)
    told: list[dg.AssetCheckEvaluation] = field(default_factory=list)
    waiting: int = 0


def look_at_failed(
    instance: dg.DagsterInstance,
    settings: Settings,
    specs: Sequence[TableSpec],
    cursor: str | None,
    now: datetime,
    golds: Golds = (),
) -> Look:
    """Which windows are to be run again now. Where no run has failed it asks the instance once, and reads nothing of the lake;
    once an hour it asks some more, and reads what was taken and decided.
    """
    by_name = {spec.name: spec for spec in specs}
    before = json.loads(cursor) if cursor else {"since": None, "hour": None, "left": {}}
    look = Look("")
    left: dict[str, list[str]] = {}
    hour = f"{now:%Y-%m-%dT%H}"
    names = {*before["left"], *failed_since(instance, by_name, before["since"])} & set(by_name)
    if hour != before["hour"]:
        names |= {name for name, spec in by_name.items() if perhaps_overlooked(instance, settings, spec)}
        look.requests += overlooked_gold(instance, settings, golds)
    for name in sorted(names):
        spec = by_name[name]
        found = healing_of(instance, settings, spec, now)
        failed = [h for h in found if h.tries]
        stopped = [h.window.key for h in failed if h.next == "stopped"]
        look.requests += [_request(settings, spec, windows, found) for windows in due(found, now)]
        look.waiting += len(failed) - len(stopped)
        if stopped != before["left"].get(name, []):
            look.told.append(evaluation(spec, found))
        if failed:
            left[name] = stopped
    look.cursor = json.dumps({"since": (now - SLACK).isoformat(), "hour": hour, "left": left}, sort_keys=True)
    return look


def retry_sensor(settings: Settings, specs: Sequence[TableSpec], golds: Golds = ()) -> dg.SensorDefinition:
    """`retry_failed`, on by default."""
    derived = dg.AssetSelection.assets(*(f"gold_{gold.name}" for gold, _ in golds))

    @dg.sensor(
        name="retry_failed",
        asset_selection=selection_of(specs) | derived if golds else selection_of(specs),
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Runs failed windows again, later each time and in ever smaller ranges, until their tries are used up; "
        "and those that nobody has run within six hours, and gold that its inputs have left behind.",
    )
    def retry_failed(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        look = look_at_failed(context.instance, settings, specs, context.cursor, datetime.now(UTC), golds)
        if not look.requests and not look.told:
            context.update_cursor(look.cursor)
            return dg.SkipReason(
                f"{look.waiting} failed windows wait for their time" if look.waiting else "nothing to try again"
            )
        return dg.SensorResult(run_requests=look.requests, asset_events=look.told, cursor=look.cursor)

    return retry_failed


def _request(settings: Settings, spec: TableSpec, windows: Sequence[Window], found: Sequence[Healing]) -> dg.RunRequest:
    tries = next(h for h in found if h.window == windows[0])
    # The same try of the same windows is asked for once, even if a tick is repeated.
    why = f"{tries.tries} {tries.at}"
    if not tries.tries:
        # What follows no failure follows a decision that was not carried out, or a change: of these there may be another.
        why += f" {max((d.number for d in logs.decisions(settings, spec.name, evidence=False)), default=0)}"
    return request_of(spec, windows, why, {"lakehouse/try": str(tries.tries + 1)})


def failed_since(instance: dg.DagsterInstance, specs: dict[str, TableSpec], since: str | None) -> set[str]:
    """Tables of which a run has failed since a time (ISO; None: ever)."""
    after = datetime.fromisoformat(since) if since else None
    found: set[str] = set()
    for run in instance.get_runs(dg.RunsFilter(statuses=list(FAILED), updated_after=after)):
        made = set(run.asset_selection or ())
        found |= {name for name, spec in specs.items() if made & set(assets_of(spec))}
    return found


def left_alone(spec: TableSpec, found: Sequence[Healing]) -> dict[str, Any]:
    """The check's result, as the keyword arguments of a result or of an evaluation."""
    stopped = [h for h in found if h.next == "stopped"]
    failing = [h for h in found if h.tries and h.next != "stopped"]
    metadata: dict[str, Any] = {"windows_left": len(stopped), "windows_tried_again": len(failing)}
    rows = healing_rows({spec.name: [h for h in found if h.tries]}, full=False)
    if rows:
        cells = [(row["windows"], row["is"], row["next"]) for row in rows]
        metadata["windows"] = dg.MetadataValue.md(markdown_table(("windows", "is", "next"), cells, SHOWN))
    names = first_of([h.window.key for h in stopped], 10)
    text = f"left alone after {spec.extraction.retries + 1} failed tries: {names}" if stopped else "no window is left alone"
    text += f"; {len(failing)} that failed are tried again" if failing else ""
    return {"passed": not stopped, "severity": dg.AssetCheckSeverity.ERROR, "description": text, "metadata": metadata}


def evaluation(spec: TableSpec, found: Sequence[Healing]) -> dg.AssetCheckEvaluation:
    """The check's result outside any run."""
    return dg.AssetCheckEvaluation(asset_key=dg.AssetKey(f"silver_{spec.name}"), check_name=CHECK, **left_alone(spec, found))


def left_failed_check(settings: Settings, spec: TableSpec) -> dg.AssetChecksDefinition:
    """`no_window_left_failed` of silver. It runs after silver, and by itself in the UI; the sensor tells it in between."""

    @dg.asset_check(
        asset=f"silver_{spec.name}",
        name=CHECK,
        description=f"No window has failed {spec.extraction.retries + 1} times and been left alone: `lakehouse heal status`.",
    )
    def no_window_left_failed(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(**left_alone(spec, healing_of(context.instance, settings, spec, datetime.now(UTC))))

    return no_window_left_failed
