"""A profile: one feature's distribution in one batch (and stratum), small, mergeable and JSON-safe.

Belongs here: the shape, its JSON, reading its sketch, and pooled moments. Does not: measuring one (measures), or distances
(distances, categories).
"""

import base64
import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from datasketches import kll_doubles_sketch  # pyright: ignore[reportAttributeAccessIssue] (a compiled module)
from numpy.typing import NDArray

Key = tuple[str, str | None]  # a feature and its stratum

# Categories kept by name, and distinct values of a number that are counted instead of sketched.
MOST_CATEGORIES = 1000

_KLL_FAMILY, _KLL_LEAST_WIDTH, _KLL_SHORT_PREAMBLE, _KLL_FULL_PREAMBLE = 15, 8, 2, 5


class SketchError(ValueError):
    """A sketch that cannot be read, or is missing where there are values. The gate quarantines the batch."""


@dataclass(frozen=True)
class Profile:
    """One feature in one batch and stratum (``None``: not stratified, or the stratum's column is NULL).

    ``rows`` counts all rows; ``nulls``, ``nans`` and ``infinities`` those without a finite value. Moments and extremes are of
    the finite values, in the feature's unit. ``sketch``: a DataSketches KLL sketch of doubles, as Spark's
    ``kll_sketch_agg_double`` makes it. All are ``None`` where there is no finite value. ``distinct``: an estimate. ``counts``:
    values with the rows that have each, ascending by value: all values of a number with few, and then no sketch; of a category
    (text) the `MOST_CATEGORIES` most frequent ones, and ``others`` counts the remaining rows. ``texts``: of a category lengths
    and kinds of characters, as `texts.TextFigures`.
    """

    feature: str
    stratum: str | None
    rows: int
    nulls: int = 0
    nans: int = 0
    infinities: int = 0
    mean: float | None = None
    std: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    sketch: bytes | None = None
    kind: Literal["number", "category"] = "number"
    distinct: float | None = None
    counts: tuple[tuple[float | str, int], ...] | None = None
    others: int = 0
    texts: tuple[float, ...] | None = None

    @property
    def key(self) -> Key:
        """Feature and stratum."""
        return (self.feature, self.stratum)

    @property
    def valid(self) -> int:
        """Rows with a finite value."""
        return self.rows - self.nulls - self.nans - self.infinities

    @property
    def distinct_share(self) -> float | None:
        """Distinct values for each row with a value, at most 1: by the estimate, else by the counts. None without a value."""
        distinct = len(self.counts or ()) if self.distinct is None and not self.others else self.distinct
        return min(distinct / self.valid, 1.0) if distinct and self.valid > 0 else None

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe: the sketch in base64, a number that JSON does not know as None."""
        plain: dict[str, Any] = dict(vars(self))
        for name in ("mean", "std", "minimum", "maximum", "distinct"):
            number = plain[name]
            plain[name] = None if number is None or not math.isfinite(number) else float(number)
        plain["sketch"] = None if self.sketch is None else base64.b64encode(self.sketch).decode("ascii")
        plain["counts"] = None if self.counts is None else [list(pair) for pair in self.counts]
        plain["texts"] = None if self.texts is None else list(self.texts)
        return plain

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Profile":
        """The inverse of `to_dict`. Raises SketchError when the sketch is not base64, TypeError for another shape."""
        sketch, counts = data.get("sketch"), data.get("counts")
        try:
            decoded = None if sketch is None else base64.b64decode(sketch, validate=True)
        except ValueError as error:
            raise SketchError(f"{data.get('feature')}: the stored sketch is not base64") from error
        pairs = None if counts is None else tuple((value, int(rows)) for value, rows in counts)
        texts = None if data.get("texts") is None else tuple(data["texts"])
        return cls(**{**data, "sketch": decoded, "counts": pairs, "texts": texts})


class CountsProfile(Profile):
    """The counts of a profile whose distribution has left the baseline: it was read without sketch and values."""


def read_sketch(profile: Profile) -> kll_doubles_sketch | None:
    """The profile's sketch; None where it has no finite value. Raises SketchError if it cannot be read, or is missing."""
    if profile.sketch is None:
        if profile.valid > 0 and profile.counts is None:
            raise SketchError(f"{describe_key(profile.key)}: {profile.valid} values and no sketch of them")
        return None
    if not _is_complete(profile.sketch):
        raise SketchError(f"{describe_key(profile.key)}: the sketch cannot be read (it is cut, or no KLL sketch of doubles)")
    try:
        sketch = kll_doubles_sketch.deserialize(profile.sketch)
        empty = sketch.is_empty()
    except Exception as error:  # the binding raises RuntimeError, IndexError, …: whatever it is, it is no sketch
        raise SketchError(f"{describe_key(profile.key)}: the sketch cannot be read ({error})") from error
    if empty and profile.valid > 0:
        raise SketchError(f"{describe_key(profile.key)}: {profile.valid} values and an empty sketch")
    return None if empty else sketch


def read_sketch_items(profile: Profile) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """The retained values of the profile's sketch, and how many rows each stands for: (m,) both, in no order. None where it has
    no finite value. Raises SketchError as `read_sketch`.
    """
    sketch = read_sketch(profile)
    if sketch is None or profile.sketch is None:
        return None
    data = profile.sketch
    if data[0] != _KLL_FULL_PREAMBLE:
        return np.array([value for value, _ in sketch]), np.ones(1)
    # Read from the bytes: iterating over the library's sketch makes a Python object of each pair and takes fifty times as long.
    levels = data[18]
    starts = np.frombuffer(data, "<u4", levels, offset=20).astype(np.int64)
    values = np.frombuffer(data, "<f8", offset=20 + 4 * levels + 16).astype(np.float64)
    sizes = np.diff(starts, append=starts[0] + values.size)
    return values, np.repeat(np.ldexp(1.0, np.arange(levels)), sizes)


def _is_complete(data: bytes) -> bool:
    """Whether the header and the length are a KLL sketch's: the library (5.2) would crash the process on a cut one."""
    if len(data) < 8 or data[2] != _KLL_FAMILY or data[6] != _KLL_LEAST_WIDTH:
        return False
    if data[0] != _KLL_FULL_PREAMBLE:
        return data[0] == _KLL_SHORT_PREAMBLE and len(data) in (8, 16)
    levels = data[18] if len(data) > 18 else 0
    body = len(data) - 20 - 4 * levels - 16
    if not 1 <= levels <= 61 or body < 8 or body % 8:
        return False
    starts = struct.unpack_from(f"<{levels}I", data, 20)
    return list(starts) == sorted(starts) and starts[-1] <= starts[0] + body // 8


def describe_key(key: Key) -> str:
    """`pressure_offset at LGA`, or the feature alone."""
    return key[0] if key[1] is None else f"{key[0]} at {key[1]}"


class Moments(NamedTuple):
    """Moments of the finite values, in the feature's unit; ``std`` with n - 1. None where there are too few values."""

    mean: float | None
    std: float | None
    minimum: float | None
    maximum: float | None


def pool_moments(profiles: Iterable[Profile]) -> Moments:
    """The moments of all these batches' values together (Chan, Golub and LeVeque, 1979)."""
    filled = [p for p in profiles if p.valid > 0]
    mean, squares, count = 0.0, 0.0, 0
    for p in filled:
        if p.mean is not None and math.isfinite(p.mean):
            std = p.std if p.std is not None and math.isfinite(p.std) else 0.0
            step, total = p.mean - mean, count + p.valid
            squares += std**2 * (p.valid - 1) + step**2 * count * p.valid / total
            mean, count = mean + step * p.valid / total, total
    return Moments(
        mean if count else None,
        math.sqrt(squares / (count - 1)) if count > 1 else None,
        min((p.minimum for p in filled if p.minimum is not None), default=None),
        max((p.maximum for p in filled if p.maximum is not None), default=None),
    )
