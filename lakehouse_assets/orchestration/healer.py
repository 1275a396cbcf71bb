"""The sensor `heal_and_follow`, which evaluates the conditions of all assets.

Belongs here: how it is evaluated, and what of it must not be lost. Does not: the conditions (automation).
"""

import json
from collections.abc import Sequence
from typing import Any

import dagster as dg
from dagster._core.definitions.run_request import InstigatorType

from lakehouse_assets.settings import Settings

HEALS = "heal_and_follow"
# Dagster evaluates no more conditions than these in one tick of a sensor like the others.
MOST_CONDITIONS = 500


class InTurn(dg.AutomationConditionSensorDefinition):
    """Conditions that are evaluated as any sensor is, and keep what they have seen.

    Of a tick that was killed while its runs were being asked for, Dagster asks for the rest, and then forgets the cursor: what
    had changed meanwhile would be taken for old. It is kept here beside it. (So a cursor that somebody clears comes back.)
    """

    place: str

    def evaluate_tick(self, context: dg.SensorEvaluationContext) -> Any:
        """The tick, from where the one before has ended."""
        stored = context.instance.daemon_cursor_storage
        before = context.cursor
        if before is None:
            kept = json.loads(stored.get_cursor_values({self.place}).get(self.place, "{}"))
            # Of the first tick of all it cannot be told whether it was carried out: it is evaluated again.
            before = kept["after"] if kept.get("resumed") else None
            context._cursor = before
        found = super().evaluate_tick(context)
        stored.set_cursor_values({self.place: json.dumps({"resumed": before is not None, "after": found.cursor})})
        return found


def healing_sensor(settings: Settings, definitions: Sequence[dg.Definitions]) -> dg.SensorDefinition:
    """The sensor, on by default, over the conditions of all these.

    Dagster's daemon takes sensors in turn, but evaluates conditions beside them unless they are evaluated as one of them is:
    while `watch_sources` reports what it saw, window by window, half of a gap would be asked for, and the other half later, in
    a run of its own. Over more than `MOST_CONDITIONS` conditions (some hundred tables) they have to be evaluated beside.
    """
    given: dict[str, Any] = {
        "name": HEALS,
        "target": dg.AssetSelection.all(),
        "default_status": dg.DefaultSensorStatus.RUNNING,
        "minimum_interval_seconds": 30,
        "description": "Asks for windows that are missing or stale, and for gold after its inputs.",
    }
    if sum(map(_conditions, definitions)) > MOST_CONDITIONS:
        return dg.AutomationConditionSensorDefinition(**given)
    sensor = InTurn(**given, use_user_code_server=True)
    # Projects may share an instance; each has a lake of its own.
    sensor.place = f"{HEALS} {settings.root}"
    return sensor


def is_healed(instance: dg.DagsterInstance) -> bool:
    """Whether nobody has switched off the sensor that asks for windows: then nothing is to be asked for elsewhere either."""
    if instance.schedule_storage is None:
        return True  # an instance without a daemon
    states = instance.all_instigator_state(instigator_type=InstigatorType.SENSOR)
    return all(state.is_running for state in states if state.instigator_name == HEALS)


def _conditions(definitions: dg.Definitions) -> int:
    specs = [spec for part in [*(definitions.assets or ()), *(definitions.asset_checks or ())] for spec in _specs(part)]
    return sum(spec.automation_condition is not None for spec in specs)


def _specs(part: object) -> list[dg.AssetSpec | dg.AssetCheckSpec]:
    if isinstance(part, dg.AssetsDefinition):
        return [*part.specs, *part.check_specs]
    return [part] if isinstance(part, dg.AssetSpec) else []
