"""A stream's `drift:`: expected false quarantines a week instead of levels, and a baseline that spans days.

Belongs here: its defaults, the level of one window, what is refused. Does not: counting windows (decisions/drift/window_rate).
"""

from datetime import timedelta
from math import ceil, log2
from typing import Any, NamedTuple

from pydantic import Field

from lakehouse_assets.checks.parameters import duration
from lakehouse_assets.contracts.drift import DriftSpec, drift_default

WEEK, DAY = 604_800.0, 86_400.0
# Of a stream that declares none. One quarantine a week is looked at by a person; a warning a day is read with the others.
QUARANTINES_PER_WEEK, WARNINGS_PER_WEEK, REMEMBER_DAYS, LEARN_FOR = 1.0, 7.0, 14, "3d"
# Whatever the rate, one window has at most the level that it has in a table without a stream.
MOST_HOLD, MOST_WARN = drift_default("hold_at"), drift_default("warn_at")
# In place of which key of a table without a stream.
INSTEAD = {"hold_at": "quarantines_per_week", "warn_at": "warnings_per_week"}
NOT_FOR_STREAMS = ("lasting_at", "lasting_over", "min_volume_change")
ONLY_FOR_STREAMS = ("quarantines_per_week", "warnings_per_week", "remember_days", "learn_for")


class Levels(NamedTuple):
    """What one window is judged by: p-values, and the windows a week that they follow from."""

    hold_at: float
    warn_at: float
    windows_per_week: float


class StreamDriftSpec(DriftSpec):
    """`drift:` of a stream with its defaults. `hold_at` and `warn_at` are those of one window once `at_rate` has set them."""

    trigger_seconds: float = Field(default=5.0, gt=0)
    """The least time between two windows."""
    windows_per_week: float | None = None
    """The rate that the levels are for; None while they are set for no window."""

    @classmethod
    def of(cls, drift: DriftSpec, trigger: timedelta) -> "StreamDriftSpec":
        """Return ``drift`` as a table with this trigger is judged by it."""
        fields = {name: getattr(drift, name) for name in DriftSpec.model_fields}
        defaults = dict(zip(ONLY_FOR_STREAMS, (QUARANTINES_PER_WEEK, WARNINGS_PER_WEEK, REMEMBER_DAYS, LEARN_FOR), strict=True))
        fields |= {name: value for name, value in defaults.items() if fields[name] is None}
        # Sums over neighbours in a baseline of one window an hour are of different hours.
        return cls.model_construct(**{**fields, "lasting_at": 0.0}, trigger_seconds=trigger.total_seconds())

    def at_rate(self, windows_per_week: float) -> "StreamDriftSpec":
        """Return the same with the levels of one window, where there are so many a week. At most as many as triggers count."""
        most = WEEK / self.trigger_seconds
        rate = min(max(windows_per_week, 1.0), most)
        hold = min(MOST_HOLD, (self.quarantines_per_week or 0.0) / rate)
        warn = min(MOST_WARN, (self.warnings_per_week or 0.0) / rate)
        return self.model_copy(update={"hold_at": hold, "warn_at": warn, "windows_per_week": rate})

    @property
    def levels(self) -> Levels | None:
        """What this window is judged by."""
        return None if self.windows_per_week is None else Levels(self.hold_at, self.warn_at, self.windows_per_week)

    @property
    def learning_time(self) -> timedelta:
        """How long a time the baseline's windows span before anything is reported."""
        return duration(self.learn_for or LEARN_FOR)

    @property
    def longest_slot(self) -> float:
        """Seconds. The baseline holds one window of each such time, so that `remember` windows span `remember_days`."""
        return (self.remember_days or REMEMBER_DAYS) * DAY / self.remember

    @property
    def shortest_slot(self) -> float:
        """Seconds: `longest_slot`, halved until no two triggers share one."""
        return self.longest_slot / 2 ** max(0, ceil(log2(self.longest_slot / self.trigger_seconds)))


def refuse_keys(drift: DriftSpec, *, is_stream: bool) -> None:
    """Raise ValueError for a key that does not apply to a stream, or only to one."""
    if not is_stream:
        if wrong := next((name for name in ONLY_FOR_STREAMS if getattr(drift, name) is not None), None):
            more = next((f"; use {batch}" for batch, stream in INSTEAD.items() if stream == wrong), "")
            raise ValueError(f"drift.{wrong}: applies to a stream only (extraction.stream){more}")
        return
    for name in (*INSTEAD, *NOT_FOR_STREAMS):
        if name in drift.model_fields_set:
            more = f"; write {INSTEAD[name]}, a number of windows a week" if name in INSTEAD else ""
            raise ValueError(f"drift.{name}: does not apply to a stream{more}")
    if drift.remember < 2 * drift.hold_from:
        # Two slots become one, again and again: between half of them and all have a window.
        raise ValueError(f"drift.remember: {drift.remember} is below twice hold_from {drift.hold_from}, which a stream needs")
    resolved = StreamDriftSpec.of(drift, timedelta(seconds=5))
    if 2 * resolved.learning_time > timedelta(days=resolved.remember_days or 0):
        # A baseline of so many days hardly spans that time, and then no window would be judged.
        raise ValueError(f"drift.learn_for: {resolved.learn_for} is more than half of remember_days {resolved.remember_days}")
    if (resolved.warnings_per_week or 0.0) < (resolved.quarantines_per_week or 0.0):
        raise ValueError(
            f"drift.warnings_per_week: {resolved.warnings_per_week:g} is below quarantines_per_week"
            f" {resolved.quarantines_per_week:g}; a warning must come first"
        )


def without_rates(drift: DriftSpec) -> DriftSpec:
    """Return a stream's `drift` for rows that are no stream's, as it is for any other table."""
    return drift.model_copy(update=dict.fromkeys(ONLY_FOR_STREAMS))


def left_out_of_rules(drift: DriftSpec | None) -> dict[str, Any]:
    """Return the keys of a stream's `drift` that its rule set leaves out, since nothing is judged by them."""
    return dict.fromkeys((*INSTEAD, *NOT_FOR_STREAMS), True) if drift else {}
