"""What a table's `drift:` says: which features are watched, by which stratum, and when the gate warns or holds.

Belongs here: the shape and what can be judged from it alone. Does not: the statistics (decisions) or SQL parsing (table).
"""

import json
from functools import lru_cache
from math import ceil
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from lakehouse_assets.checks.closed import Closed
from lakehouse_assets.checks.sql_text import columns_of, parse_expression

RELATIONS, VOLUME = "relations", "volume"
MOST_ADDED = 60
MOST_RELATED = 20  # features of one `by`: each pair of them is an aggregate of its own
MEANS_THE_SAME = ("unit", "description", "pii")  # what may change of a column without changing its values


class FeatureSpec(Closed):
    """One number per row whose distribution is watched."""

    name: str = Field(min_length=1)
    """The column of that name, or what its expression is called."""
    expr: str = Field(default="", min_length=1)
    """A number per row, as SQL over the columns; without it, the column called `name`. Window functions look at their own batch
    only. Round what is computed: values that are equal must stay equal, whatever the order of a sum. It must not use a `pii`
    column."""
    by: str | None = None
    """A column whose every value is judged by itself (a stratum), at most 64."""
    unit: str | None = None
    """What a value is told in; without it, the unit of the column called `name`, where there is one."""

    @model_validator(mode="before")
    @classmethod
    def _column_of_that_name(cls, value: Any) -> Any:
        if isinstance(value, dict) and "name" in value and value.get("expr") is None:
            return {**value, "expr": value["name"]}
        return value

    @field_validator("expr")
    @classmethod
    def _parsed(cls, value: str) -> str:
        parse_expression(value, "expr", allow_windows=True)
        return value

    @property
    def columns_used(self) -> set[str]:
        """The columns that it is made of, its stratum's included."""
        found = columns_of(parse_expression(self.expr, self.name, allow_windows=True))
        return found | ({self.by} if self.by else set())


def _bare_column(value: Any) -> Any:
    return {"name": value, "expr": value} if isinstance(value, str) else value


class DriftSpec(Closed):
    """When a batch is too unlike the accepted windows before it. Shares and levels are in [0, 1]; counts are of windows.

    Levels and counts must fit: the least p-value is 1/(known + 1), so with fewer than ⌈1/level⌉ - 1 windows known a level
    could never be reached.

    >>> DriftSpec(features=["pressure_kpa"]).features[0].expr
    'pressure_kpa'
    """

    features: tuple[Annotated[FeatureSpec, BeforeValidator(_bare_column)], ...] = Field(min_length=1)
    """Columns, or `{name, expr, by}`."""
    hold_at: float = Field(default=0.01, gt=0, lt=1)
    """A p-value up to this holds the window."""
    warn_at: float = Field(default=0.05, gt=0, lt=1)
    """A p-value up to this is reported."""
    # 20 is also where a merged baseline is large enough to be compared with (twenty times the batch).
    warn_from: int = Field(default=20, ge=20)
    """Nothing is said before so many windows are known."""
    hold_from: int = Field(default=99, ge=2)
    """Nothing is held before so many windows are known."""
    min_effect: float = Field(default=0.05, ge=0, lt=10)
    """A feature whose tail-weighted distance is not above this is never the reason, however rare it is."""
    min_volume_change: float = Field(default=0.5, ge=0, lt=1)
    """A window whose rows are within this share of the median window's is never held for their number: 0.5 is half to twice."""
    cold_start: Literal["learn", "warn", "stop"] = "learn"
    """What becomes of a window while no window is known: it is learnt, learnt with a warning, or held (until a baseline
    is seeded)."""
    lasting_at: float = Field(default=0.02, ge=0, lt=1)
    """A p-value up to this of what adds up over the last windows is reported; 0 turns it off."""
    lasting_over: tuple[int, ...] = Field(default=(3,), min_length=1)
    """How many windows are added up; each length is looked at."""
    remember: int = Field(default=400, ge=20)
    """The newest accepted windows that make the baseline; older ones are left out."""
    max_shift: float = Field(default=0.1, gt=0, le=1)
    """The largest KS distance of the baseline from the pinned one (`lakehouse baseline pin`); beyond it, learning stops."""
    relations: bool = True
    """Whether the numeric features of one `by`, at most 20, are also compared together: their means and covariances."""
    sketch_k: int = Field(default=4096, ge=8, le=65535)
    """Accuracy of the sketches (KLL): 4096 is a rank error of 0.0007, 80 KB for ten million rows."""

    @model_validator(mode="after")
    def _whole(self) -> "DriftSpec":
        seen: set[str] = set()
        for feature in self.features:
            if feature.name.lower() in seen:
                raise ValueError(f"two features are called {feature.name!r}; give one of them another name")
            seen.add(feature.name.lower())
            if feature.name.lower() == VOLUME or feature.name.lower().split(" by ")[0] == RELATIONS:
                raise ValueError(f"{feature.name!r} is what the gate calls something of its own; give the feature another name")
        if any(not 2 <= length <= MOST_ADDED for length in self.lasting_over):
            raise ValueError(f"lasting_over: each length is between 2 and {MOST_ADDED} windows")
        if self.remember < self.hold_from:
            raise ValueError(f"remember {self.remember} is below hold_from {self.hold_from}: nothing could ever be held")
        if self.warn_at < self.hold_at:
            raise ValueError(f"warn_at {self.warn_at} is below hold_at {self.hold_at}; a warning must come first")
        if self.hold_from < self.warn_from:
            raise ValueError(f"hold_from {self.hold_from} is below warn_from {self.warn_from}")
        for what, level, windows in (("warn", self.warn_at, self.warn_from), ("hold", self.hold_at, self.hold_from)):
            # The small allowance: 1/0.05 is not exactly 20 in floating point for every level.
            least = ceil(1 / level - 1e-9) - 1
            if windows < least:
                raise ValueError(f"{what}_from {windows} can never reach {what}_at {level}: that takes {least} windows")
        return self


@lru_cache(maxsize=256)
def meanings(ruleset: str) -> dict[str, str]:
    """What each feature of a rule set measured: its expression, its stratum, and how the columns it uses are made.

    Two windows can be compared by a feature's name only where its meaning is the same. ``ruleset``: `TableSpec.ruleset()`.
    """
    given = json.loads(ruleset)
    found = {}
    for feature in (given.get("drift") or {}).get("features", []):
        used = columns_of(parse_expression(feature["expr"], feature["name"], allow_windows=True)) | {feature.get("by")}
        columns = {name: given["columns"][name] for name in sorted(used & set(given["columns"]))}
        made = {n: {k: v for k, v in column.items() if k not in MEANS_THE_SAME} for n, column in columns.items()}
        found[feature["name"]] = json.dumps([feature["expr"], feature.get("by"), made], sort_keys=True)
    return found
