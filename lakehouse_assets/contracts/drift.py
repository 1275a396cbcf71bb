"""A table's `drift:`: which features are watched, by which stratum, and when the gate warns or quarantines.

Belongs here: the shape, all its defaults, and what can be validated from it alone. Does not: the statistics (decisions).
"""

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from lakehouse_assets.checks.drift_rows import DRIFT_ROWS
from lakehouse_assets.checks.parameters import Duration, require_java
from lakehouse_assets.checks.sql.text import columns_of, parse_expression
from lakehouse_assets.checks.strict_model import StrictModel
from lakehouse_assets.contracts.columns import Column
from lakehouse_assets.contracts.source import Zone

RELATIONS, VOLUME, SLICES = "relations", "volume", "(slices)"
MOST_ADDED = 60
MOST_RELATED = 20  # features of one `by`: each pair of them is an aggregate of its own
Season = Literal["auto", "none", "hour", "weekday", "weekend", "hour_and_weekday", "hour_by_weekend", "day", "month"]
# What is estimated of each season, one part after the other.
SEASON_PARTS: dict[Season, tuple[str, ...]] = {
    "hour": ("hour",),
    "weekday": ("weekday",),
    "weekend": ("weekend",),
    "hour_and_weekday": ("hour", "weekday"),
    "hour_by_weekend": ("hour_by_weekend",),
    "day": ("day",),
    "month": ("month",),
}
MEANS_THE_SAME = ("unit", "description", "pii")  # what may change of a column without changing its values


class FeatureSpec(StrictModel):
    """One value per row whose distribution is compared."""

    name: str = Field(min_length=1)
    """The column of that name, or the name of the expression."""
    expr: str = Field(default="", min_length=1)
    """SQL over the columns, one value per row; without it, the column called `name`. Window functions see their own batch
    only. Round computed values: equal values must stay equal, whatever the order of a sum. It must not use a `pii` column."""
    by: str | None = None
    """A column whose values are strata, each judged separately; at most 64."""
    unit: str | None = None
    """The unit of a value in messages; without it, the unit of the column called `name`, if any."""
    season: Season | None = Field(default=None, exclude_if=lambda season: season is None)
    """As the table's `season`, for this feature. Without it, a plain column without `by` has the table's, others have none."""

    @model_validator(mode="before")
    @classmethod
    def _column_of_that_name(cls, value: Any) -> Any:
        if isinstance(value, dict) and "name" in value and value.get("expr") is None:
            return {**value, "expr": value["name"]}
        return value

    @field_validator("expr")
    @classmethod
    def _parsed(cls, value: str, info: ValidationInfo) -> str:
        require_java(parse_expression(value, "expr", allow_windows=True), info)
        return value

    @property
    def is_plain(self) -> bool:
        """Whether it is a column as it is, of all rows."""
        return self.by is None and self.expr.isidentifier()

    @property
    def columns_used(self) -> set[str]:
        """The columns that it is computed from, its stratum's included."""
        columns = columns_of(parse_expression(self.expr, self.name, allow_windows=True))
        return columns | ({self.by} if self.by else set())


def _bare_column(value: Any) -> Any:
    return {"name": value, "expr": value} if isinstance(value, str) else value


class DriftSpec(StrictModel):
    """When a batch differs too much from earlier accepted windows. Shares and levels are in [0, 1]; counts are of windows.

    >>> DriftSpec(features=["pressure_kpa"]).features[0].expr
    'pressure_kpa'
    """

    features: tuple[Annotated[FeatureSpec, BeforeValidator(_bare_column)], ...] = Field(min_length=1)
    """Columns, or `{name, expr, by}`."""
    hold_at: float = Field(default=0.01, gt=0, lt=1)
    """A p-value up to this quarantines the window. A stream has `quarantines_per_week` instead."""
    warn_at: float = Field(default=0.05, gt=0, lt=1)
    """A p-value up to this is reported. A stream has `warnings_per_week` instead."""
    quarantines_per_week: float | None = Field(default=None, gt=0, le=1000, exclude_if=lambda value: value is None)
    """Of a stream: how many clean windows are expected to be quarantined in a week; 1 without it. The level of one window
    follows from the windows that the table has had in the last seven days."""
    warnings_per_week: float | None = Field(default=None, gt=0, le=10_000, exclude_if=lambda value: value is None)
    """Of a stream: how many clean windows are expected to be reported in a week; 7 without it."""
    remember_days: int | None = Field(default=None, ge=1, le=3660, exclude_if=lambda value: value is None)
    """Of a stream: how many days its baseline spans; 14 without it. It has at most `remember` windows, evenly over time."""
    learn_for: Duration | None = Field(default=None, exclude_if=lambda value: value is None)
    """Of a stream: nothing is reported or quarantined before its baseline spans this time; `3d` without it, so that each hour
    of the day has recurred; at most half of `remember_days`. Where traffic follows the week, `14d` and `remember_days: 28`."""
    # From 20 on a merged baseline is large enough to be compared with (twenty times the batch).
    warn_from: int = Field(default=20, ge=20, le=10_000)
    """Nothing is reported before this many windows are known."""
    hold_from: int = Field(default=28, ge=20, le=100_000)
    """Nothing is quarantined before this many windows are known. Below 1 / (windows + 1) a p-value is extrapolated."""
    min_effect: float = Field(default=0.05, ge=0, lt=10)
    """A feature with a tail-weighted distance up to this is never the reason, however rare it is."""
    min_volume_change: float = Field(default=0.2, ge=0, lt=1)
    """A window whose row count is within this share of the median is never quarantined for it: 0.2 is 80 % to 125 %."""
    cold_start: Literal["learn", "warn", "stop"] = "learn"
    """What happens to a window while no window is known: it is learnt, learnt with a warning, or quarantined (until a baseline
    is seeded)."""
    on_drift: Literal["quarantine_window", "quarantine_rows"] = Field(
        default="quarantine_window", exclude_if=lambda value: value == "quarantine_window"
    )
    """What drift up to `hold_at` quarantines: the window; or, by `quarantine_rows`, only the rows that the message names, if an
    estimated 90 % of them are more than usual and the rest is accepted when it is judged by itself. Otherwise the window."""
    lasting_at: float = Field(default=0.02, ge=0, lt=1)
    """A p-value up to this of a sum over the last windows is reported; 0 turns it off."""
    lasting_over: tuple[int, ...] = Field(default=(3,), min_length=1)
    """How many windows are added up; each length is tested."""
    remember: int = Field(default=400, ge=20, le=100_000)
    """The number of newest accepted windows in the baseline."""
    max_shift: float = Field(default=0.1, gt=0, le=1)
    """The largest KS distance of the baseline from the pinned one (`lakehouse baseline pin`); beyond it, no window joins."""
    season: Season = Field(default="auto", exclude_if=lambda season: season == "auto")
    """What windows are compared with: those of the same `hour` of the day, `weekday`, half of the week (`weekend`), `hour` and
    `weekday` as two effects (`hour_and_weekday`), hour on workdays or weekends (`hour_by_weekend`), `day` of the month or
    `month` (in `timezone`, by their start); `auto` finds out which, also by the window before; `none`: all windows alike."""
    timezone: Zone = Field(default="UTC", exclude_if=lambda zone: zone == "UTC")
    """The time zone of hours and days, such as `America/New_York`: the pattern of a day follows the local clock."""
    relations: bool = True
    """Whether the numeric features of one `by`, at most 20, are also compared together: their means and covariances."""
    slices: bool = Field(default=True, exclude_if=bool)
    """Whether parts of a batch are compared with the rest of it: the rows of one category, or of one in each of two columns.
    So a fault in some rows is found, and the message names them. The columns are features that are texts, and those that
    features are split `by`, at most four. Numbers without `by` and without a window function are compared."""
    sketch_k: int = Field(default=4096, ge=8, le=65535)
    """Accuracy of the sketches (KLL): 4096 is a rank error of 0.0007, 80 KB for ten million rows."""

    @model_validator(mode="after")
    def _consistent(self) -> "DriftSpec":
        names: set[str] = set()
        for feature in self.features:
            if feature.name.lower() in names:
                raise ValueError(f"two features are called {feature.name!r}; give one of them another name")
            names.add(feature.name.lower())
            if is_reserved(feature.name):
                raise ValueError(f"{feature.name!r} is a name that the gate itself uses; give the feature another one")
        if any(not 2 <= length <= MOST_ADDED for length in self.lasting_over):
            raise ValueError(f"lasting_over: each length is between 2 and {MOST_ADDED} windows")
        if self.remember < self.hold_from:
            raise ValueError(f"remember {self.remember} is below hold_from {self.hold_from}: no window would be quarantined")
        if self.warn_at < self.hold_at:
            raise ValueError(f"warn_at {self.warn_at} is below hold_at {self.hold_at}; a warning must come first")
        if self.hold_from < self.warn_from:
            raise ValueError(f"hold_from {self.hold_from} is below warn_from {self.warn_from}")
        return self

    @property
    def divides(self) -> bool:
        """Whether drift may quarantine some rows of a window and publish the others."""
        return self.on_drift == "quarantine_rows"

    def season_of(self, feature: str) -> Season:
        """The season of a feature, of relations, or of the volume."""
        declared = next((each for each in self.features if each.name == feature), None)
        if declared is not None:
            return declared.season or (self.season if declared.is_plain else "none")
        has_plain = feature == VOLUME or all(each.is_plain for each in self.features if each.by is None)
        return self.season if has_plain and not feature.startswith(f"{RELATIONS} by ") else "none"


def drift_default(name: str) -> Any:
    """Return the default of a field of `DriftSpec`.

    >>> drift_default("hold_from")
    28
    """
    return DriftSpec.model_fields[name].default


def least_windows(level: float) -> int:
    """Return the least number of known windows for a rank, at least 1/(known + 1), to reach a level.

    >>> least_windows(0.05), least_windows(0.01)
    (19, 99)
    """
    # The small allowance: 1/0.05 is not exactly 20 in floating point for every level.
    return ceil(1 / level - 1e-9) - 1


class DriftRules:
    """What a table's rules and a frame's have in common: features, and the hash of the rule set."""

    if TYPE_CHECKING:
        name: str
        drift: DriftSpec | None
        columns: dict[str, Column]
        checks: tuple[Any, ...]

        @property
        def pii_columns(self) -> frozenset[str]:
            """Columns whose values are never shown."""
            ...

        def ruleset(self) -> str:
            """Return what is judged by, as canonical JSON."""
            ...

    @property
    def ruleset_hash(self) -> str:
        """The first 16 hex digits of the rule set's SHA-256."""
        return hash_of_rules(self.ruleset())

    @property
    def features(self) -> tuple[FeatureSpec, ...]:
        """The features of `drift`; none without it."""
        return self.drift.features if self.drift else ()

    @property
    def drift_in_units(self) -> DriftSpec | None:
        """`drift`, with each feature that is a bare column in that column's unit."""
        if self.drift is None:
            return None
        bare = {f.name: self.columns[f.expr].unit for f in self.features if f.unit is None and f.expr in self.columns}
        features = [f.model_copy(update={"unit": bare[f.name]}) if f.name in bare else f for f in self.features]
        return self.drift.model_copy(update={"features": tuple(features)})

    def refuse_personal_features(self) -> None:
        """Raise ValueError for the first feature with a personal column, whose values a baseline would keep."""
        for index, feature in enumerate(self.features):
            if personal := sorted({*feature.columns_used} & self.pii_columns):
                where = f"drift.features.{index} ({feature.name})"
                raise ValueError(f"{where}: a baseline would keep values of {', '.join(personal)}, which is pii")


def is_reserved(name: str) -> bool:
    """Whether the gate has a result of its own by this name."""
    return name.lower() in (VOLUME, SLICES) or name.lower().split(" by ")[0] == RELATIONS


@lru_cache(maxsize=256)
def warning_level(ruleset: str) -> float:
    """Return `warn_at` of a rule set; 0 where it has no drift. ``ruleset``: `TableSpec.ruleset()`."""
    return float((json.loads(ruleset).get("drift") or {}).get("warn_at", 0.0))


@lru_cache(maxsize=256)
def is_divided(ruleset: str) -> bool:
    """Return whether a rule set has a check of the rows that drift named: its batch was published without them."""
    return DRIFT_ROWS in ruleset and DRIFT_ROWS in json.loads(ruleset)


@lru_cache(maxsize=256)
def undivided_hash(ruleset: str) -> str:
    """Return the hash of a rule set without the check of the rows that drift named: the rules as they are declared."""
    text = ruleset
    if is_divided(ruleset):
        text = ruleset[: ruleset.rindex(f',"{DRIFT_ROWS}":')] + "}"
    return hash_of_rules(text)


def hash_of_rules(ruleset: str) -> str:
    """Return the first 16 hex digits of the rule set's SHA-256."""
    return hashlib.sha256(ruleset.encode()).hexdigest()[:16]


@lru_cache(maxsize=256)
def is_of_stream(ruleset: str) -> bool:
    """Return whether a rule set is a stream's. ``ruleset``: `TableSpec.ruleset()`."""
    return bool((json.loads(ruleset).get("extraction") or {}).get("stream"))


@lru_cache(maxsize=256)
def feature_meanings(ruleset: str) -> dict[str, str]:
    """Return each feature's meaning as JSON: its expression, its stratum, and the declarations of the columns it uses.

    Windows are comparable by a feature if its meaning is the same. ``ruleset``: `TableSpec.ruleset()`.
    """
    rules = json.loads(ruleset)
    meanings = {}
    for feature in (rules.get("drift") or {}).get("features", []):
        used = columns_of(parse_expression(feature["expr"], feature["name"], allow_windows=True)) | {feature.get("by")}
        columns = {name: rules["columns"][name] for name in sorted(used & set(rules["columns"]))}
        declarations = {n: {k: v for k, v in column.items() if k not in MEANS_THE_SAME} for n, column in columns.items()}
        meanings[feature["name"]] = json.dumps([feature["expr"], feature.get("by"), declarations], sort_keys=True)
    return meanings


def column_meanings(meanings: Mapping[str, str]) -> dict[str, Any]:
    """Return the declaration of each column that any feature uses. ``meanings``: of `feature_meanings`."""
    return {name: column for meaning in meanings.values() for name, column in json.loads(meaning)[2].items()}
