"""What a batch is compared with: the merged distributions of the newest accepted windows, and how far each of them was off.

Belongs here: the baseline, the pinned reference, and the book that keeps baseline and history. Does not: judging, or storing.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from lakehouse_assets.contracts.drift import VOLUME, DriftSpec
from lakehouse_assets.decisions.categories import Categories, categories_apart, categories_of
from lakehouse_assets.decisions.chance import missing_surprise, volume_surprise
from lakehouse_assets.decisions.distances import Steps, distances, steps_of
from lakehouse_assets.decisions.measured_history import SIZE, History, Statistics
from lakehouse_assets.decisions.profiles import Key, OldProfile, Profile
from lakehouse_assets.decisions.relations import Measured, Relations, apart

# Old windows are left out by the block, so that a window costs one merge, and memory that of so many distributions.
BLOCKS = 20
REFERENCE_STEPS = 2048
KOLMOGOROV_99 = 1.63

Shape = Steps | Categories | Relations
T = TypeVar("T", bound="_Adds")


class _Adds(Protocol):
    def plus(self, other: Any, /) -> Any: ...


class Moved(NamedTuple):
    """How far the baseline of a feature is from the pinned one, beyond what chance alone puts between so few values: a KS
    distance; of categories the largest change of a share.
    """

    key: Key
    distance: float


def shape_of(measured: Measured) -> Shape | None:
    """What is merged and compared of a measurement; None where it has no value, or none that is of use. Raises SketchError."""
    if isinstance(measured, Relations):
        return measured if measured.rows and not measured.too_large else None
    return categories_of(measured) if measured.kind == "category" else steps_of(measured)


def values_of(measured: Measured) -> int:
    """How many values (of relations: rows) a measurement is of."""
    return measured.rows if isinstance(measured, Relations) else measured.valid


def enough(spec: DriftSpec) -> int:
    """Of how many of the newest windows of a feature and stratum all must be known, for everything to be as if all were:
    those that its baseline may hold, and as many before them as are measured again when they are the first.
    """
    return spec.remember + 2 * max(1, spec.remember // BLOCKS) + spec.warn_from


class _Newest(Generic[T]):
    """The sum of the newest ``most`` items and up to a twentieth more: a function of the items and their order alone.

    An item that is None counts and adds nothing: it is known to have left before the sum is asked for. ``like``: what is
    summed up.
    """

    def __init__(self, most: int, like: Any) -> None:
        self._block = max(1, most // BLOCKS)
        self._most = most
        self._blocks: list[tuple[T | None, int]] = []
        self.like = like
        self.total: T | None = None
        self.windows = 0

    def add(self, item: T | None) -> None:
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
    """The accepted windows' distributions, merged by feature and stratum. ``len()``: the windows that it was given."""

    def __init__(self, windows: Iterable[Sequence[Measured]] = (), remember: int = 400) -> None:
        self._remember = remember
        self._newest: dict[Key, _Newest[Any]] = {}
        self._volumes: list[int] = []
        self._missing: dict[Key, list[tuple[int, int]]] = {}
        self._reference: dict[Key, Shape] = {}
        self._moved: tuple[Moved, ...] | None = None
        self._count = 0
        for measured in windows:
            self.add(measured)

    def __len__(self) -> int:
        return self._count

    def add(self, measured: Sequence[Measured]) -> dict[Key, Shape]:
        """Take in one more window; gives back what was read of it. Raises SketchError, and then nothing is taken in."""
        read = {m.key: shape for m in measured if not isinstance(m, OldProfile) and (shape := shape_of(m)) is not None}
        for m in measured:
            if m.key not in read and not (isinstance(m, OldProfile) and m.kept):
                continue
            # A feature that was a text and is a number now is learnt anew, and so are relations between others.
            like = m.features if isinstance(m, Relations) else m.kind
            known = self._newest.get(m.key)
            if known is None or known.like != like:
                known = self._newest[m.key] = _Newest(self._remember, like)
            known.add(read.get(m.key))
        for m in measured:
            if isinstance(m, Profile):
                counted = self._missing.setdefault(m.key, [])
                counted.append((m.rows - m.valid, m.rows))
                del counted[: -self._remember]
        first = next((m.feature for m in measured if isinstance(m, Profile)), None)
        self._volumes.append(sum(m.rows for m in measured if isinstance(m, Profile) and m.feature == first))
        del self._volumes[: -self._remember]
        self._count += 1
        self._moved = None
        return read

    def volumes(self) -> Sequence[int]:
        """Rows of each window."""
        return self._volumes

    def shape(self, key: Key) -> Shape | None:
        """The merged distribution of a feature and stratum, if any window has had it."""
        newest = self._newest.get(key)
        return newest.total if newest else None

    def steps(self, key: Key) -> Steps | None:
        """The same, of a number."""
        shape = self.shape(key)
        return shape if isinstance(shape, Steps) else None

    def missing(self, key: Key) -> Sequence[tuple[int, int]]:
        """Of each window: rows without a value, and rows."""
        return self._missing.get(key, ())

    def windows(self, key: Key) -> int:
        """How many windows of it the baseline holds."""
        newest = self._newest.get(key)
        return newest.windows if newest else 0

    @property
    def keys(self) -> tuple[Key, ...]:
        """Every feature and stratum that it knows."""
        return tuple(self._newest)

    @property
    def pinned(self) -> bool:
        """Whether there is a reference."""
        return bool(self._reference)

    def pin(self, reference: Mapping[Key, Shape] | None = None) -> None:
        """Make what it holds now the reference that it must stay near; or another's."""
        held = {key: newest.total for key, newest in self._newest.items() if newest.total is not None}
        self._reference = dict(held if reference is None else reference)
        self._moved = None

    @property
    def reference(self) -> Mapping[Key, Shape]:
        """What was pinned."""
        return self._reference

    def moved(self) -> tuple[Moved, ...]:
        """How far each pinned feature and stratum has moved since, the farthest first."""
        if self._moved is None:
            found = [
                Moved(key, max(0.0, _distance(now, then) - _by_chance(now, then)))
                for key, then in self._reference.items()
                if (now := self.shape(key)) is not None and _alike(now, then)
            ]
            self._moved = tuple(sorted(found, key=lambda m: -m.distance))
        return self._moved


def _alike(one: Shape, other: Shape) -> bool:
    """Whether two distributions can be compared."""
    if isinstance(one, Relations) and isinstance(other, Relations):
        return one.features == other.features
    return type(one) is type(other)


def _by_chance(now: Shape, then: Shape) -> float:
    """What Kolmogorov's and Smirnov's distance of two such samples stays below in 99 %, were they of one distribution."""
    sizes = [shape.rows if isinstance(shape, Relations) else shape.total for shape in (now, then)]
    return KOLMOGOROV_99 * sum(1.0 / max(size, 1.0) for size in sizes) ** 0.5


def _distance(now: Shape, then: Shape) -> float:
    if isinstance(now, Steps) and isinstance(then, Steps):
        return distances(now.thinned(REFERENCE_STEPS) if now.values.size > REFERENCE_STEPS else now, then).ks
    if isinstance(now, Categories) and isinstance(then, Categories):
        return max((abs(after - before) for _, before, after in categories_apart(now, then).changed), default=0.0)
    assert isinstance(now, Relations) and isinstance(then, Relations)  # noqa: S101 (asked by `_alike`)
    found = apart(now, then)
    # Of two normal distributions with these moments; in the middle, where KS is reached, the weight is at least 2.
    return max(found.effects["means"], found.effects["scatter"]) / 2 if found else 0.0


class Book:
    """Baseline and history of one table, kept in step: the fold of its accepted windows in the order of their decisions.

    A window's statistics are those of its decision, against what was the baseline then; except the first
    ``spec.warn_from`` windows of a feature and stratum. Those were compared with next to nothing: as they stand, they would be
    the largest distances on record for years, and hide every fault behind them. So once there are that many, each of them is
    measured again, against the others of them; and this, too, is a function of the accepted windows and their order.
    """

    def __init__(self, spec: DriftSpec, reference: Mapping[Key, Shape] | None = None) -> None:
        self.spec = spec
        self.baseline = Baseline(remember=spec.remember)
        self.history = History(spec.remember)
        self.baseline.pin(reference or {})
        self._entries: list[tuple[Any, tuple[Measured, ...], Statistics]] = []
        self._first: dict[Key, list[tuple[Any, Shape]]] = {}
        self._counted: dict[Key, list[tuple[Any, int, int]]] = {}
        self._left: tuple[Any, Book] | None = None

    def learn(self, window: Any, measured: Sequence[Measured], statistics: Statistics) -> None:
        """Take in an accepted window: its profiles, and its verdict's statistics. Raises SketchError as `Baseline.add`."""
        read = self.baseline.add(measured)
        self._left = None
        self._entries.append((window, tuple(measured), statistics))
        sizes = {m.key: {**statistics.get(m.key, {}), SIZE: float(values_of(m))} for m in measured}
        self.history.add(window, {**statistics, **sizes})
        for key, shape in read.items():
            if self.baseline.windows(key) == 1:
                self._first[key] = []  # the first one ever, or the first of another kind
            early = self._first.get(key)
            if early is None:
                continue
            early.append((window, shape))
            if len(early) == self.spec.warn_from:
                merged = self.baseline.shape(key)
                for place, each in early:
                    self.history.amend(place, key, _among(each, merged))
                del self._first[key]
        counts = [(m.key, m.rows - m.valid, m.rows) for m in measured if isinstance(m, Profile)]
        for key, missing, rows in [*counts, ((VOLUME, None), 0, self.baseline.volumes()[-1])]:
            self._learn_counts(window, key, missing, rows)

    def _learn_counts(self, window: Any, key: Key, missing: int, rows: int) -> None:
        early = self._counted.setdefault(key, [])
        if len(early) >= self.spec.warn_from:
            return
        early.append((window, missing, rows))
        if len(early) < self.spec.warn_from:
            return
        for i, (place, m, n) in enumerate(early):
            others = early[:i] + early[i + 1 :]
            if key == (VOLUME, None):
                again = {"volume": volume_surprise(n, [o[2] for o in others])}
            else:
                again = {"missing": missing_surprise(m, n, [o[1:] for o in others])}
            self.history.amend(place, key, again)

    def pin(self, reference: Mapping[Key, Shape] | None = None) -> None:
        """From now on the baseline is compared with what it is at this moment; or with another's `Baseline.reference`."""
        self.baseline.pin(reference)
        self._left = None

    def unpin(self) -> None:
        """No longer compare it with anything pinned."""
        self.pin({})

    def reset(self) -> None:
        """Forget every window; what is pinned stays."""
        self.__dict__.update(vars(Book(self.spec, self.baseline.reference)))

    def forget(self, window: Any) -> None:
        """Drop a window whose extraction is no longer the accepted one, as if it had never been taken in."""
        if any(entry[0] == window for entry in self._entries):
            self.__dict__.update(vars(self._without(window)))

    def without_window(self, window: Any) -> tuple[Baseline, History]:
        """What ``window`` is to be judged by: everything known but itself. Not a copy: neither is to be changed."""
        kept = self._without(window) if any(entry[0] == window for entry in self._entries) else self
        return kept.baseline, kept.history

    def _without(self, window: Any) -> "Book":
        if self._left and self._left[0] == window:  # judged without it, and now to be replaced
            return self._left[1]
        # What was pinned was looked at by a person: a window that is replaced later does not change it.
        kept = Book(self.spec, self.baseline.reference)
        for entry in self._entries:
            if entry[0] != window:
                kept.learn(*entry)
        self._left = window, kept
        return kept


def _among(one: Shape, merged: Shape | None) -> dict[str, float]:
    """The statistics of one of the windows that ``merged`` is made of, against the others."""
    if isinstance(one, Steps) and isinstance(merged, Steps):
        return distances(one, merged, batch_is_inside=True)._asdict()
    if isinstance(one, Categories) and isinstance(merged, Categories):
        found = categories_apart(one, merged, batch_is_inside=True)
        return {"g": found.g, "tail": found.tail}
    if isinstance(one, Relations) and isinstance(merged, Relations):
        from_it = apart(one, merged.minus(one))
        return from_it.statistics if from_it else {}
    return {}
