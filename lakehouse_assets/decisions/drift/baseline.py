"""The baseline: the merged distributions of the newest accepted windows, and the pinned reference.

Belongs here: merging windows, and how far the baseline has moved from its reference. Does not: the history of statistics
(statistic_history), keeping the two in step (baseline_state), judging, or storing.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lakehouse_assets.decisions.drift.categories import Categories, compare_categories, read_categories
from lakehouse_assets.decisions.drift.distances import Ecdf, compare_ecdfs, read_ecdf
from lakehouse_assets.decisions.drift.profiles import CountsProfile, Key, Profile
from lakehouse_assets.decisions.drift.relations import Measurement, Relations, compare_relations
from lakehouse_assets.decisions.drift.slices import Slices
from lakehouse_assets.decisions.drift.texts import TextFigures

# Old windows leave by the block: a window costs one merge, and the baseline the memory of so many distributions.
BLOCKS = 20
REFERENCE_STEPS = 2048
KOLMOGOROV_99 = 1.63

Shape = Ecdf | Categories | Relations
Counts = NDArray[np.int64]
NO_COUNTS: Counts = np.zeros((0, 2), dtype=np.int64)


class BaselineShift(NamedTuple):
    """How far the baseline of a feature is from the pinned one, beyond what chance explains: a KS distance; of categories the
    largest change of a share.
    """

    key: Key
    distance: float


def read_shape(measurement: Measurement) -> Shape | None:
    """The distribution of a measurement; None where there is no usable value, and of slices. Raises SketchError."""
    if isinstance(measurement, Slices):
        return None
    if isinstance(measurement, Relations):
        return measurement if measurement.rows and not measurement.too_large else None
    return read_categories(measurement) if measurement.kind == "category" else read_ecdf(measurement)


def block_size(remember: int) -> int:
    """How many windows leave a baseline of so many at once."""
    return max(1, remember // BLOCKS)


class NewestSum:
    """The sum of the newest ``most`` shapes of one ``kind``, and up to a twentieth more: a function of the shapes and their
    order alone. One that is None counts and adds nothing: it will have left before the sum is read.
    """

    def __init__(self, most: int, kind: Any) -> None:
        self._block = block_size(most)
        self._most = most
        self._blocks: list[tuple[Shape | None, int]] = []
        self.kind = kind
        self.total: Shape | None = None
        self.windows = 0

    def add(self, item: Shape | None) -> None:
        """Add the next shape."""
        if self._blocks and self._blocks[-1][1] < self._block:
            merged, count = self._blocks[-1]
            self._blocks[-1] = _sum(merged, item), count + 1
        else:
            self._blocks.append((item, 1))
        self.windows += 1
        total = _sum(self.total, item)
        if self.windows - self._blocks[0][1] >= self._most:
            self.windows -= self._blocks.pop(0)[1]
            total = None
            for merged, _ in self._blocks:
                total = _sum(total, merged)
        self.total = total


def _sum(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    return one.plus(other)


class Baseline:
    """The newest accepted windows' distributions, merged by feature and stratum. ``len()``: the windows that were added."""

    def __init__(self, remember: int) -> None:
        self._remember = remember
        self._newest: dict[Key, NewestSum] = {}
        self._volumes: list[int] = []
        self._missing: dict[Key, Counts] = {}
        self._distinct: dict[Key, list[float]] = {}
        self._texts: dict[Key, list[tuple[TextFigures, int]]] = {}
        self._reference: dict[Key, Shape] = {}
        self._shifts: tuple[BaselineShift, ...] | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, measurements: Sequence[Measurement]) -> dict[Key, Shape]:
        """Add one more window; returns the shapes that were read of it. Raises SketchError, and then nothing is added."""
        shapes = {m.key: s for m in measurements if not isinstance(m, CountsProfile) and (s := read_shape(m)) is not None}
        for m in measurements:
            if m.key not in shapes and not (isinstance(m, CountsProfile) and m.valid):
                continue
            # A feature that was a text and is a number now starts anew, and so do relations between other features.
            kind = m.kind if isinstance(m, Profile) else m.features
            newest = self._newest.get(m.key)
            if newest is None or newest.kind != kind:
                newest = self._newest[m.key] = NewestSum(self._remember, kind)
            newest.add(shapes.get(m.key))
        profiles = [m for m in measurements if isinstance(m, Profile)]
        for profile in profiles:
            counts = np.array([[profile.rows - profile.valid, profile.rows]], dtype=np.int64)
            self._missing[profile.key] = np.vstack([self.missing_counts(profile.key), counts])[-self._remember :]
            if (share := profile.distinct_share) is not None:
                self._distinct.setdefault(profile.key, []).append(share)
                del self._distinct[profile.key][: -self._remember]
            if profile.texts is not None:
                self._texts.setdefault(profile.key, []).append((TextFigures(*profile.texts), profile.valid))
                del self._texts[profile.key][: -self._remember]
        self._volumes.append(sum(p.rows for p in profiles if p.feature == profiles[0].feature))
        del self._volumes[: -self._remember]
        self._count += 1
        self._shifts = None
        return shapes

    def volumes(self) -> Sequence[int]:
        """Rows of each window, oldest first."""
        return self._volumes

    def shape(self, key: Key) -> Shape | None:
        """The merged distribution of a feature and stratum; None where no window has one."""
        newest = self._newest.get(key)
        return newest.total if newest else None

    def missing(self, key: Key) -> list[tuple[int, int]]:
        """Return for each window its rows without a value, and all its rows."""
        return [(missing, rows) for missing, rows in self.missing_counts(key).tolist()]

    def missing_counts(self, key: Key) -> Counts:
        """The same as an array, (windows, 2)."""
        return self._missing.get(key, NO_COUNTS)

    def distinct_shares(self, key: Key) -> Sequence[float]:
        """Return the share of distinct values of each window that has one."""
        return self._distinct.get(key, ())

    def texts(self, key: Key) -> Sequence[tuple[TextFigures, int]]:
        """Return the figures and the number of the texts of each window that has some."""
        return self._texts.get(key, ())

    def windows(self, key: Key) -> int:
        """Return the number of windows of a feature and stratum in the baseline."""
        newest = self._newest.get(key)
        return newest.windows if newest else 0

    @property
    def keys(self) -> tuple[Key, ...]:
        """Every feature and stratum of any window."""
        return tuple(self._newest)

    @property
    def pinned(self) -> bool:
        """Whether there is a reference."""
        return bool(self._reference)

    def pin(self, reference: Mapping[Key, Shape] | None = None) -> None:
        """Set the reference that the baseline must stay near: its own distributions of now, or those given."""
        current = {key: newest.total for key, newest in self._newest.items() if newest.total is not None}
        self._reference = dict(current if reference is None else reference)
        self._shifts = None

    @property
    def reference(self) -> Mapping[Key, Shape]:
        """Return the pinned distributions; empty without a pin."""
        return self._reference

    def shifts(self) -> tuple[BaselineShift, ...]:
        """Return how far each pinned feature and stratum has moved since the pin, the farthest first."""
        if self._shifts is None:
            pairs = [(key, self.shape(key), then) for key, then in self._reference.items()]
            shifts = [BaselineShift(key, _shift(now, then)) for key, now, then in pairs if now and _comparable(now, then)]
            self._shifts = tuple(sorted(shifts, key=lambda shift: -shift.distance))
        return self._shifts


def _comparable(one: Shape, other: Shape) -> bool:
    if isinstance(one, Relations) and isinstance(other, Relations):
        return one.features == other.features
    return type(one) is type(other)


def _shift(now: Shape, then: Shape) -> float:
    """The distance beyond Kolmogorov's 99 % bound for two samples of one distribution, of these sizes."""
    sizes = [shape.rows if isinstance(shape, Relations) else shape.total for shape in (now, then)]
    return max(0.0, _distance(now, then) - KOLMOGOROV_99 * sum(1.0 / max(size, 1.0) for size in sizes) ** 0.5)


def _distance(now: Shape, then: Shape) -> float:
    if isinstance(now, Ecdf) and isinstance(then, Ecdf):
        return compare_ecdfs(now.thinned(REFERENCE_STEPS) if now.values.size > REFERENCE_STEPS else now, then).ks
    if isinstance(now, Categories) and isinstance(then, Categories):
        return max((abs(after - before) for _, before, after in compare_categories(now, then).changed), default=0.0)
    assert isinstance(now, Relations) and isinstance(then, Relations)  # noqa: S101 (asked by `_comparable`)
    distance = compare_relations(now, then)
    # Of two normal distributions with these moments; in the middle, where KS is reached, the weight is at least 2.
    return max(distance.effects["means"], distance.effects["scatter"]) / 2 if distance else 0.0
