"""The conditions that request missing or stale windows and gold, and the sensor `heal_and_follow`, which evaluates them.

Belongs here: when Dagster requests a materialization, and how a killed tick is resumed. Does not: what a run does.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import dagster as dg

from lakehouse_assets.contracts.extraction import ExtractionSpec
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import LENGTHS
from lakehouse_assets.decisions.retry_policy import GOLD_RETRY_CRON
from lakehouse_assets.orchestration.dagster_internals import read_cursor, replace_requests, resume_from, write_cursors
from lakehouse_assets.orchestration.healing.one_process import in_one_process
from lakehouse_assets.orchestration.healing.ranges import merge_windows
from lakehouse_assets.orchestration.workers.configured import tick_seconds
from lakehouse_assets.settings import Settings

HEALS = "heal_and_follow"
# Dagster evaluates at most this many conditions in a tick of a user-code sensor.
MAX_CONDITIONS = 500
MONTH = timedelta(days=31)


def heal_windows(
    extraction: ExtractionSpec, referenced: Sequence[str] = (), prefix: Sequence[str] = ()
) -> dg.AutomationCondition | None:
    """Return the condition that requests a window once when it has arrived and is missing, or its source (or bronze) changed.
    None where windows share a partition (shared_partitions), and for a stream, whose own process takes its windows.

    `on_missing` and `eager` see the latest window only, so a gap would stay; bare `missing` requests a failed window at every
    tick. Here the sensor `retry_failed` requests failed windows, until their source changes, and windows whose request never
    became a run. A window that has not arrived has a missing dependency and is never requested.

    ``referenced``: other tables that checks read (foreign keys). Their pending windows go first, unless they have failed. A
    change or a gap in them is no reason to judge anything again, or to wait. ``prefix``: of the assets' keys.
    """
    if extraction.shares_partitions:
        return None
    ac = dg.AutomationCondition
    others = dg.AssetSelection.assets(*(dg.AssetKey([*prefix, f"silver_{table}"]) for table in referenced))
    own = {"any_deps_updated": ac.any_deps_updated(), "any_deps_missing": ac.any_deps_missing()}
    if referenced:
        own = {name: condition.ignore(others) for name, condition in own.items()}
    fresh = ac.newly_requested() | ac.newly_updated()
    arrived = ((ac.newly_missing() | ac.initial_evaluation()) & ~ac.execution_failed()) | own["any_deps_updated"]
    wanted = (ac.missing() & arrived.since(fresh)) | own["any_deps_updated"].since(fresh)
    condition = wanted & ~ac.in_progress() & ~own["any_deps_missing"] & ~ac.any_deps_in_progress()
    for table in referenced:
        bronze, silver = (
            dg.AssetSelection.assets(dg.AssetKey([*prefix, f"{layer}_{table}"])) for layer in ("bronze", "silver")
        )
        # `will_be_requested` does not cover assets with other partitions: their state says what they are about to do.
        pending = ac.missing() & ~ac.execution_failed()
        arrived = pending & ~ac.any_deps_missing()
        ahead = pending & (~ac.any_deps_missing().allow(bronze) | ac.any_deps_match(arrived).allow(bronze))
        condition = condition & ~ac.any_deps_match(ahead).allow(silver)
    if extraction.lookback is not None:
        condition = ac.in_latest_time_window(extraction.lookback * LENGTHS.get(extraction.cadence, MONTH)) & condition
    return condition.with_label("heal_windows")


def gold_follows() -> dg.AutomationCondition:
    """Return the condition that rewrites gold after its inputs or its SQL changed, once no input is in progress, and on
    `GOLD_RETRY_CRON` after a failure.

    A missing partition of an input does not block gold: it may never arrive. An input without any partition does, since the
    SELECT could not run.
    """
    ac = dg.AutomationCondition
    fresh = ac.newly_requested() | ac.newly_updated()
    changed = (ac.any_deps_updated() | ac.code_version_changed()).since(fresh)
    retry = ac.execution_failed() & ac.cron_tick_passed(GOLD_RETRY_CRON).since(fresh)
    begun = ac.all_deps_match(~ac.missing())
    return ((changed | retry) & begun & ~ac.in_progress() & ~ac.any_deps_in_progress()).with_label("gold_follows")


class ResumableSensor(dg.AutomationConditionSensorDefinition):
    """A sensor of conditions. It requests one run for each unbroken range, and keeps its cursor when a tick is killed.

    Dagster resumes the run requests of a killed tick, and then drops that tick's cursor: changes it had seen would count as
    old. So the cursor is stored here as well, under ``cursor_key``. (A cursor that somebody clears therefore comes back.)
    """

    def __init__(self, cursor_key: str, tables: Mapping[dg.AssetKey, TableSpec], **options: Any) -> None:
        """``tables``: by their assets that have windows. ``options``: as of Dagster's own sensor."""
        super().__init__(**options, use_user_code_server=True, emit_backfills=False)
        self._cursor_key, self._tables, self._options = cursor_key, tables, options

    def with_attributes(
        self, *, jobs: Sequence[Any] | None = None, metadata: Mapping[str, Any] | None = None
    ) -> "ResumableSensor":
        """Return a copy with other metadata. Dagster asks each sensor of a `defs` folder for one, and its own method returns a
        sensor of its own class. ``jobs``: none are used.
        """
        replaced = {} if metadata is None else {"metadata": metadata}
        return ResumableSensor(self._cursor_key, self._tables, **self._options | replaced)

    def evaluate_tick(self, context: dg.SensorEvaluationContext) -> Any:
        """Evaluate the conditions from where the tick before ended."""
        before = context.cursor
        if before is None:
            stored = json.loads(read_cursor(context.instance, self._cursor_key) or "{}")
            # Nobody knows whether the very first tick was carried out: it is evaluated again.
            before = stored["after"] if stored.get("resumed") else None
            resume_from(context, before)
        result = super().evaluate_tick(context)
        state = {"resumed": before is not None, "after": result.cursor}
        write_cursors(context.instance, {self._cursor_key: json.dumps(state)})
        requests = merge_windows(result.run_requests or (), self._tables)
        return replace_requests(result, in_one_process(requests, context.repository_def))


def automation_sensor(
    settings: Settings, definitions: Sequence[dg.Definitions], tables: Mapping[dg.AssetKey, TableSpec]
) -> dg.SensorDefinition:
    """Return the sensor, on by default, over the conditions of all these definitions. ``tables``: by asset.

    It runs as a user-code sensor, one after the other with `watch_sources`. In parallel, it would see half of a gap that
    `watch_sources` is reporting, and request the two halves in two runs. Dagster limits such sensors to `MAX_CONDITIONS`: above
    that (some hundred tables), the daemon evaluates the conditions in parallel.
    """
    options: dict[str, Any] = {
        "name": HEALS,
        # Other assets of the code location have a sensor of their own.
        "target": dg.AssetSelection.assets(*(key for each in definitions for key in _asset_keys(each))),
        "default_status": dg.DefaultSensorStatus.RUNNING,
        "minimum_interval_seconds": tick_seconds(settings),
        "description": "Requests windows that are missing or stale, and gold after its inputs.",
    }
    if sum(map(_count_conditions, definitions)) > MAX_CONDITIONS:
        return dg.AutomationConditionSensorDefinition(**options)
    # Projects may share an instance; each has a lake of its own.
    return ResumableSensor(f"{HEALS} {settings.root}", tables, **options)


def automation_is_on(instance: dg.DagsterInstance) -> bool:
    """Whether nobody has switched this sensor off: then no other sensor requests windows either."""
    if instance.schedule_storage is None:
        return True  # an instance without a daemon
    return all(state.is_running for state in instance.all_instigator_state() if state.instigator_name == HEALS)


def _asset_keys(definitions: dg.Definitions) -> Iterator[dg.AssetKey]:
    parts: list[Any] = list(definitions.assets or ())
    for part in parts:
        yield from [part.key] if isinstance(part, dg.AssetSpec) else part.keys


def _count_conditions(definitions: dg.Definitions) -> int:
    parts: list[Any] = [*(definitions.assets or ()), *(definitions.asset_checks or ())]
    specs = [[part] if isinstance(part, dg.AssetSpec) else [*part.specs, *part.check_specs] for part in parts]
    return sum(spec.automation_condition is not None for of_part in specs for spec in of_part)
