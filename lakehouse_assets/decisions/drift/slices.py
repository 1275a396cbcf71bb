"""Slices: how much the values of parts of a batch, by one or two conditions on its categories, differ from the rest of it.

Belongs here: the measurement, its JSON, and which slices are measured. Does not: measuring rows (measures, slice_columns), or
what is unusual (slice_scores).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lakehouse_assets.contracts.drift import SLICES
from lakehouse_assets.decisions.drift.distances import Ecdf
from lakehouse_assets.decisions.drift.profiles import Key

Floats = NDArray[np.float64]
Conditions = tuple[tuple[str, str], ...]  # column and category of each
# Columns, each column's most frequent categories, slices, and differences of all features.
MOST_COLUMNS = 4
MOST_SLICED = 8
MOST_SLICES = 40
MOST_DIFFERENCES = 240
# Rows of a slice, and of the rest.
LEAST_ROWS = 10
# Below this share of rows in frequent categories a column does not divide the rows: a key, or a text.
LEAST_COVERED = 0.5
# A slice of so large a share of another has nothing of its own to say.
SAME_ROWS = 0.95
# Values are drawn in to the interval between these quantiles of their own batch.
INNER = (0.05, 0.95)


class Cell(NamedTuple):
    """The rows of one slice; of each feature its rows with a value, and the sum of their scores."""

    conditions: Conditions
    rows: int
    valid: tuple[int, ...]
    sums: tuple[float, ...]


class Scale(NamedTuple):
    """What the scores of a feature are in its unit: 0 is ``low``, 1 is ``low + width``."""

    low: float
    width: float


@dataclass(frozen=True)
class Slices:
    """The slices of one batch. The score of a value is its place in the interval between the 5 % and the 95 % quantile of its
    batch, at most 1 and at least 0: neither units nor outliers matter.

    By feature: ``low`` and ``width`` of the interval, in its unit; ``valid``, the rows with a value; ``mean`` and ``std`` of
    their scores. By slice: ``conditions`` and ``slice_rows``. By slice and feature: ``slice_valid`` and ``slice_mean``, NaN
    without a value.
    """

    features: tuple[str, ...]
    rows: int
    low: tuple[float, ...]
    width: tuple[float, ...]
    valid: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    conditions: tuple[Conditions, ...]
    slice_rows: tuple[int, ...]
    slice_valid: tuple[tuple[int, ...], ...]
    slice_mean: tuple[tuple[float, ...], ...]

    @property
    def key(self) -> Key:
        """The name that stands for a feature's; no feature can have it."""
        return (SLICES, None)

    @property
    def stratum(self) -> None:
        """None: it is of the whole batch."""
        return None

    @cached_property
    def differences(self) -> Floats:
        """(slices, features): the mean score of a slice less that of the rest; NaN where either has too few values."""
        own, all_valid, means = self._counts
        rest = all_valid - own
        with np.errstate(invalid="ignore", divide="ignore"):
            others = (all_valid * np.array(self.mean) - own * means) / rest
            return np.where((own >= LEAST_ROWS) & (rest >= LEAST_ROWS), means - others, np.nan)

    @cached_property
    def variances(self) -> Floats:
        """(slices, features): of the differences, if rows were independent; NaN where those are."""
        own, all_valid, _ = self._counts
        with np.errstate(invalid="ignore", divide="ignore"):
            variances = np.square(np.array(self.std)) * (1.0 / own + 1.0 / (all_valid - own))
        return np.where(np.isnan(self.differences), np.nan, variances)

    @property
    def _counts(self) -> tuple[Floats, Floats, Floats]:
        shape = (len(self.conditions), len(self.features))
        own, means = (np.array(each, dtype=float).reshape(shape) for each in (self.slice_valid, self.slice_mean))
        return own, np.array(self.valid, dtype=float), means

    def aligned(self, other: "Slices") -> Floats:
        """Differences and variances, (2, slices, features), in the order of another's; NaN for those that this one has not."""
        positions = self._positions
        slices = [positions.get(name, -1) for name in other._names]
        values = self._padded.take(slices, axis=1)
        if self.features == other.features:
            return values[:, :, :-1]
        features = {name: index for index, name in enumerate(self.features)}
        return values.take([features.get(name, -1) for name in other.features], axis=2)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        # A text knows its hash, and a tuple does not: windows are compared by the hundred.
        return tuple(map(repr, self.conditions))

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self._names)}

    @cached_property
    def _padded(self) -> Floats:
        """Differences and variances, with one more slice and feature at the end that is NaN."""
        padded = np.full((2, len(self.conditions) + 1, len(self.features) + 1), np.nan)
        padded[0, :-1, :-1], padded[1, :-1, :-1] = self.differences, self.variances
        return padded

    def only(self, features: Iterable[str], columns: Iterable[str] | None = None) -> "Slices | None":
        """The same of these features, and with conditions on these columns alone; None where nothing is left."""
        wanted = set(features)
        indices = [index for index, name in enumerate(self.features) if name in wanted]
        usable = None if columns is None else set(columns)
        chosen = [i for i, each in enumerate(self.conditions) if usable is None or {column for column, _ in each} <= usable]
        if not indices or not chosen:
            return None
        if (len(indices), len(chosen)) == (len(self.features), len(self.conditions)):
            return self
        changed: dict[str, Any] = {"features": tuple(self.features[i] for i in indices)}
        changed |= {n: tuple(getattr(self, n)[i] for i in indices) for n in ("low", "width", "valid", "mean", "std")}
        changed |= {n: tuple(getattr(self, n)[s] for s in chosen) for n in ("conditions", "slice_rows")}
        for name in ("slice_valid", "slice_mean"):
            changed[name] = tuple(tuple(getattr(self, name)[s][i] for i in indices) for s in chosen)
        return replace(self, **changed)

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe; `from_dict` reads it."""
        plain: dict[str, Any] = {name: list(getattr(self, name)) for name in self.__dataclass_fields__ if name != "rows"}
        plain["conditions"] = [[list(each) for each in conditions] for conditions in self.conditions]
        plain["slice_valid"] = [list(each) for each in self.slice_valid]
        plain["slice_mean"] = [[None if np.isnan(mean) else mean for mean in each] for each in self.slice_mean]
        return {**plain, "rows": self.rows}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Slices":
        """The inverse of `to_dict`. Raises TypeError for another shape."""
        plain: dict[str, Any] = {name: value if name == "rows" else tuple(value) for name, value in data.items()}
        plain["conditions"] = tuple(tuple((column, name) for column, name in each) for each in data["conditions"])
        plain["slice_valid"] = tuple(map(tuple, data["slice_valid"]))
        means = data["slice_mean"]
        plain["slice_mean"] = tuple(tuple(np.nan if mean is None else float(mean) for mean in each) for each in means)
        return cls(**plain)

    @classmethod
    def of(
        cls, scales: Mapping[str, Scale], everything: Cell, squares: Sequence[float], cells: Iterable[Cell]
    ) -> "Slices | None":
        """``everything``: all rows, with the sums of the scores' squares in ``squares``. None where no slice is usable."""
        chosen = choose_cells(cells, everything.rows, len(scales))
        if not chosen:
            return None
        means = [_divide(total, n) for total, n in zip(everything.sums, everything.valid, strict=True)]
        second = [_divide(total, n) for total, n in zip(squares, everything.valid, strict=True)]
        return cls(
            features=tuple(scales),
            rows=everything.rows,
            low=tuple(scale.low for scale in scales.values()),
            width=tuple(scale.width for scale in scales.values()),
            valid=everything.valid,
            mean=tuple(means),
            std=tuple(round(float(np.sqrt(max(0.0, s - m**2))), 9) for s, m in zip(second, means, strict=True)),
            conditions=tuple(cell.conditions for cell in chosen),
            slice_rows=tuple(cell.rows for cell in chosen),
            slice_valid=tuple(cell.valid for cell in chosen),
            slice_mean=tuple(
                tuple(_divide(t, n) if n else np.nan for t, n in zip(cell.sums, cell.valid, strict=True)) for cell in chosen
            ),
        )


def _divide(total: float, count: int) -> float:
    # Rounded, so that equal rows give equal numbers in whatever order they were added up.
    return round(total / count, 9) if count else 0.0


def choose_categories(counts: Mapping[str, int], rows: int) -> tuple[str, ...]:
    """The categories of a column that make slices, the most frequent first; none for a column that does not divide the rows."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_SLICED]
    frequent = [(name, n) for name, n in ranked if LEAST_ROWS <= n <= rows - LEAST_ROWS]
    return tuple(name for name, _ in frequent) if sum(n for _, n in frequent) >= LEAST_COVERED * rows else ()


def choose_cells(cells: Iterable[Cell], rows: int, features: int) -> list[Cell]:
    """The slices that are kept: those by one condition first, then the largest; sorted by their conditions."""
    usable = [cell for cell in cells if LEAST_ROWS <= cell.rows <= rows - LEAST_ROWS]
    single = {cell.conditions[0]: cell.rows for cell in usable if len(cell.conditions) == 1}
    distinct = [
        cell
        for cell in usable
        if len(cell.conditions) == 1 or cell.rows <= SAME_ROWS * min(single.get(each, rows) for each in cell.conditions)
    ]
    distinct.sort(key=lambda cell: (len(cell.conditions), -cell.rows, cell.conditions))
    return sorted(distinct[: min(MOST_SLICES, MOST_DIFFERENCES // max(features, 1))], key=lambda cell: cell.conditions)


def find_scale(values: Ecdf) -> Scale | None:
    """The scale of a feature with these values; None for a constant, or where it is beyond all numbers."""
    low, high = values.quantiles(INNER).tolist()
    if not high > low:
        low, high = float(values.values[0]), float(values.values[-1])
    width = high - low
    return Scale(low, width) if width > 0 and np.isfinite(width) else None


def pairs_of(columns: Sequence[str]) -> list[tuple[str, ...]]:
    """The columns that conditions are on: each alone, then each two."""
    return [(column,) for column in columns] + list(combinations(columns, 2))
