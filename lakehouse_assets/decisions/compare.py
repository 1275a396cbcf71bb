"""Two samples at hand, outside any table: the gate's own decision on arrays or data frames.

Belongs here: columns → profiles, history from a column, the answer in plain words. Does not: reading files (cli), or judging.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pydantic import ValidationError

from lakehouse_assets.contracts.drift import MOST_RELATED, RELATIONS, VOLUME, DriftSpec, FeatureSpec
from lakehouse_assets.contracts.mistakes import reason_of
from lakehouse_assets.decisions.baseline import Book
from lakehouse_assets.decisions.chance import relations_p_value
from lakehouse_assets.decisions.compared import FeatureResult, compare_all
from lakehouse_assets.decisions.drift import DriftVerdict, judge_drift
from lakehouse_assets.decisions.profiles import MOST_CATEGORIES, Profile
from lakehouse_assets.decisions.relations import Measured, relations_of
from lakehouse_assets.errors import RefusedError

# Texts that are nearly all different name their rows, and say nothing of how these are distributed; of so few nobody can tell.
FEW = 20


@dataclass(frozen=True)
class Comparison:
    """``verdict``: the gate's. ``features``: what was compared; ``left_out``: columns that were not, each with the reason."""

    verdict: DriftVerdict
    features: tuple[str, ...]
    left_out: dict[str, str]

    @property
    def drifted(self) -> bool:
        """Whether the gate would warn of this batch, or hold it."""
        return self.verdict.action != "pass"

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe. ``p_value`` of a feature is corrected for the number of features; ``statistic`` is KS (of a category:
        √(G/2n), of relations: the Mahalanobis distance of the means), ``distance`` what the effect floor is compared with.
        """
        v = self.verdict
        return {
            "drifted": self.drifted,
            "calibrated": v.calibrated,
            "status": v.status,
            "action": v.action,
            "p_value": v.p_value,
            "message": v.message,
            "windows_known": v.windows_known,
            "windows_until_calibrated": v.windows_until_warn,
            "windows_until_hold": v.windows_until_hold,
            "features": [
                {
                    "name": r.feature,
                    "statistic": r.statistics.get("ks", r.statistics.get("g", r.statistics.get("means"))),
                    "distance": r.tail,
                    "p_value": r.corrected,
                    "naive_p_value": r.naive_p_value,
                    "drifted": self.drifted and self._is_off(r),
                    "median_shift": r.median_shift,
                    "missing": r.missing,
                    "missing_before": r.baseline_missing,
                }
                for r in v.results
                if r.statistics
            ],
            "left_out": self.left_out,
        }

    def _is_off(self, result: FeatureResult) -> bool:
        if self.verdict.worst is not None and result.key == self.verdict.worst.key:
            return True
        return result.corrected is not None and result.corrected <= self._warn_at and result.effect > self._floor

    # What the verdict was made with.
    _warn_at: float = 0.05
    _floor: float = 0.05


def compare(
    batch: pd.DataFrame | ArrayLike,
    baseline: pd.DataFrame | ArrayLike,
    *,
    history: str | Sequence[Any] | None = None,
    features: Sequence[str] | None = None,
    **levels: Any,
) -> Comparison:
    """Is ``batch`` distributed as ``baseline``: the decision of the gate, on data in memory.

    ``batch``, ``baseline``: data frames with columns in common, or one-dimensional arrays. ``history``: the name of a
    column of the baseline (or one label a row) that says which window each row is of: the windows, in the order of their
    labels, become the history that the batch is ranked among, and the answer is calibrated when there are enough of
    them. Without it p-values are of Monte Carlo, which takes rows for independent, and the answer says that it is not
    calibrated. ``features``: columns to compare (default: all that both have). ``levels``: fields of `DriftSpec`, such
    as ``warn_at`` or ``min_effect``.

    Raises RefusedError for no rows, no column in common, an unknown one, or one that is a number here and a text there.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> compare(rng.normal(0.5, 1, 1000), rng.normal(0, 1, 20_000)).drifted
    True
    """
    new, old, labels = _frame(batch, "the batch"), _frame(baseline, "the baseline"), None
    given = _levels(levels)
    if isinstance(history, str):
        if history not in old:
            raise RefusedError(f"the baseline has no column {history!r} (it has {', '.join(map(str, old.columns))})")
        labels, old = old[history], old.drop(columns=history)
        new = new.drop(columns=history, errors="ignore")
    elif history is not None:
        if len(history) != len(old):
            raise RefusedError(f"history has {len(history)} labels, and the baseline {len(old)} rows: one label a row")
        labels = pd.Series(list(history), index=old.index)
    if labels is not None and bool(labels.isna().any()):
        raise RefusedError("the history column has empty values: each row of the baseline must say which window it is of")
    names = _feature_names([*old.columns, *new.columns])
    new, old = new.rename(columns=names), old.rename(columns=names)
    kinds, left_out = _columns(new, old, None if features is None else [names.get(name, name) for name in features])
    try:
        spec = DriftSpec(features=tuple(FeatureSpec(name=name, expr="1") for name in kinds), **given)
    except ValidationError as error:
        told = (": ".join((*map(str, each["loc"][:1]), reason_of(each))) for each in error.errors(include_url=False))
        raise RefusedError("; ".join(told)) from None
    book = Book(spec)
    for label, rows in _windows(old, labels):
        measured = list(_measure(rows, kinds))
        known = compare_all(measured, book.baseline, spec) if labels is not None else []
        book.learn(label, measured, {result.key: result.statistics for result in known})
    chance = {} if labels is not None and len(book.history) >= spec.warn_from else _chance(new, old, kinds)
    verdict = judge_drift(list(_measure(new, kinds)), book.baseline, book.history, spec, by_chance=chance)
    return Comparison(verdict, tuple(kinds), left_out, spec.warn_at, spec.min_effect)


def _frame(given: pd.DataFrame | ArrayLike, which: str) -> pd.DataFrame:
    found = given if isinstance(given, pd.DataFrame) else pd.DataFrame({"value": np.asarray(given).ravel()})
    if not len(found):
        raise RefusedError(f"{which} has no rows: there is nothing to compare")
    found = found.rename(columns=str)
    if twice := sorted(set(found.columns[found.columns.duplicated()])):
        raise RefusedError(f"{which} has two columns that are called {twice[0]!r}; rename one of them")
    return found


def _levels(given: Mapping[str, Any]) -> dict[str, Any]:
    """With what follows from `warn_at` where nothing else is said: a level that the usual number of windows cannot reach asks
    for more of them.
    """
    found = dict(given)
    warn_at = found.get("warn_at", 0.05)
    if not 0.0 < warn_at < 1.0:
        raise RefusedError(f"warn_at {warn_at} is no p-value to warn at: above 0 and below 1")
    hold_at = found.setdefault("hold_at", min(0.01, warn_at))
    warn_from = found.setdefault("warn_from", max(20, int(1 / warn_at - 1e-9)))
    hold_from = found.setdefault("hold_from", max(99, int(1 / max(hold_at, 1e-9) - 1e-9), warn_from))
    found.setdefault("remember", max(400, hold_from))
    return found


def _feature_names(columns: Sequence[str]) -> dict[str, str]:
    """What each column is called as a feature: not as the gate calls something of its own, nor as another but for its case."""
    found: dict[str, str] = {}
    taken = {VOLUME}
    for name in dict.fromkeys(columns):
        called = name
        while called.lower() in taken or called.lower().split(" by ")[0] == RELATIONS:
            called = f"column {called}"
        taken.add(called.lower())
        found[name] = called
    return found


def _columns(new: pd.DataFrame, old: pd.DataFrame, wanted: Sequence[str] | None) -> tuple[dict[str, str], dict[str, str]]:
    """Kinds by column, and why others are left out."""
    for name in wanted or ():
        for which, frame in (("the batch", new), ("the baseline", old)):
            if name not in frame:
                raise RefusedError(f"{which} has no column {name!r} (it has {', '.join(frame.columns)})")
    left_out = {name: "only the batch has it" for name in new.columns if name not in old}
    left_out |= {name: "only the baseline has it" for name in old.columns if name not in new}
    kinds: dict[str, str] = {}
    for name in wanted or [name for name in old.columns if name in new]:
        one, other = _kind(new[name]), _kind(old[name])
        if None in (one, other):
            kinds[name] = one or other or "number"  # a column without any value is of the other's kind
        elif one != other:
            told = {"number": "numbers", "category": "text", "time": "times"}
            raise RefusedError(f"{name!r} holds {told[str(one)]} in the batch and {told[str(other)]} in the baseline")
        elif one == "time":
            left_out[name] = "a time is not compared; give what should be stable about it as a number"
        elif one == "category" and wanted is None and len(old[name].unique()) > max(FEW, len(old) / 2):
            left_out[name] = "nearly every row has a value of its own"
        else:
            kinds[name] = str(one)
    if wanted:
        left_out = {name: why for name, why in left_out.items() if name in wanted}
    if not kinds:
        raise RefusedError("batch and baseline have no column in common that can be compared")
    return kinds, left_out


def _kind(values: Any) -> str | None:
    if not len(values.dropna()):
        return None
    if pd.api.types.is_bool_dtype(values):
        return "category"
    if pd.api.types.is_numeric_dtype(values):
        return "number"
    return "time" if pd.api.types.is_datetime64_any_dtype(values) else "category"


def _windows(old: pd.DataFrame, labels: Any) -> Iterator[tuple[Any, pd.DataFrame]]:
    if labels is None:
        yield "all", old
    else:
        yield from old.groupby(labels.to_numpy(), sort=True)


def _numbers(values: Any) -> np.ndarray:
    return pd.Series(pd.to_numeric(values, errors="coerce")).to_numpy(dtype=float, na_value=np.nan)


def _measure(rows: pd.DataFrame, kinds: dict[str, str]) -> Iterator[Measured]:
    for name, kind in kinds.items():
        if kind == "category":
            counts = rows[name].dropna().astype(str).value_counts()
            top = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_CATEGORIES]
            kept = tuple(sorted((str(value), int(n)) for value, n in top))
            given = int(counts.sum())
            others = given - sum(n for _, n in kept)
            yield Profile(name, None, len(rows), len(rows) - given, kind="category", counts=kept, others=others)
            continue
        values = _numbers(rows[name])
        finite = values[np.isfinite(values)]
        atoms, counted = np.unique(finite, return_counts=True)
        nans, infinities = int(np.isnan(values).sum()), int(np.isinf(values).sum())
        pairs = tuple(zip(atoms.tolist(), counted.tolist(), strict=True))
        yield Profile(name, None, len(rows), nans, infinities=infinities, counts=pairs or None)
    numbers = [name for name, kind in kinds.items() if kind == "number"]
    if 2 <= len(numbers) <= MOST_RELATED:
        yield relations_of({name: _numbers(rows[name]) for name in numbers})


def _chance(new: pd.DataFrame, old: pd.DataFrame, kinds: dict[str, str]) -> dict:
    """What chance does to relations cannot be told from profiles: it is drawn from the baseline's rows."""
    numbers = [name for name, kind in kinds.items() if kind == "number"]
    if not 2 <= len(numbers) <= MOST_RELATED:
        return {}
    batch, rows = (np.column_stack([_numbers(frame[name]) for name in numbers]) for frame in (new, old))
    found = relations_p_value(batch, rows, numbers)
    return {} if found is None else {(RELATIONS, None): found}
