"""Two samples in memory, outside any table: the gate's own decision on arrays or data frames.

Belongs here: columns → profiles, history from a column, the answer. Does not: reading files (cli), or judging.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from pydantic import ValidationError

from lakehouse_assets.contracts.drift import MOST_RELATED, RELATIONS, DriftSpec, FeatureSpec, drift_default
from lakehouse_assets.contracts.mistakes import mistakes_in
from lakehouse_assets.decisions.drift.baseline_state import BaselineState
from lakehouse_assets.decisions.drift.feature_result import FeatureResult, compare_features
from lakehouse_assets.decisions.drift.judge import judge_drift
from lakehouse_assets.decisions.drift.p_values import relations_p_value
from lakehouse_assets.decisions.drift.profiles import MOST_CATEGORIES, Profile
from lakehouse_assets.decisions.drift.relations import Measurement, compute_relations
from lakehouse_assets.decisions.drift.sample_columns import choose_columns, name_features
from lakehouse_assets.decisions.drift.single_window import ByChance
from lakehouse_assets.decisions.drift.slice_columns import measure_slices
from lakehouse_assets.decisions.drift.texts import text_figures
from lakehouse_assets.decisions.drift.verdict import DriftVerdict
from lakehouse_assets.errors import RefusedError


@dataclass(frozen=True)
class SampleComparison:
    """``verdict``: the gate's, by ``spec``. ``features``: compared columns; ``left_out``: the others, each with a reason."""

    verdict: DriftVerdict
    features: tuple[str, ...]
    left_out: dict[str, str]
    spec: DriftSpec

    @property
    def drifted(self) -> bool:
        """Whether the gate would warn of this batch, or quarantine it."""
        return self.verdict.action != "pass"

    def to_dict(self) -> dict[str, Any]:
        """JSON-safe. Of a feature, ``p_value`` is corrected for the number of features, ``statistic`` is KS (of a category
        √(G/2n), of relations the Mahalanobis distance of the means), and ``min_effect`` bounds ``distance``.
        """
        v = self.verdict
        names = ("calibrated", "status", "action", "p_value", "message", "windows_known")
        return {
            "drifted": self.drifted,
            **{name: getattr(v, name) for name in names},
            "windows_until_calibrated": v.windows_until_warn,
            "windows_until_hold": v.windows_until_hold,
            "features": [self._feature_row(result) for result in v.results if result.statistics],
            "left_out": self.left_out,
        }

    def _feature_row(self, result: FeatureResult) -> dict[str, Any]:
        is_worst = self.verdict.worst is not None and result.key == self.verdict.worst.key
        is_rare = result.corrected is not None and result.corrected <= self.spec.warn_at
        return {
            "name": result.feature,
            "statistic": next((result.statistics[n] for n in ("ks", "g", "folded", "means") if n in result.statistics), None),
            "distance": result.tail,
            "p_value": result.corrected,
            "naive_p_value": result.naive_p_value,
            "drifted": self.drifted and (is_worst or (is_rare and result.effect > self.spec.min_effect)),
            "median_shift": result.median_shift,
            "missing": result.missing,
            "missing_before": result.baseline_missing,
        }


def compare(
    batch: pd.DataFrame | ArrayLike,
    baseline: pd.DataFrame | ArrayLike,
    *,
    history: str | Sequence[Any] | None = None,
    features: Sequence[str] | None = None,
    **levels: Any,
) -> SampleComparison:
    """Is ``batch`` distributed as ``baseline``: the decision of the gate, on data in memory.

    ``batch``, ``baseline``: data frames with columns in common, or one-dimensional arrays. ``history``: the name of a column of
    the baseline (or one label a row) that says which window each row is of: the windows, in the order of their labels, become
    the history that the batch is ranked among, and the answer is calibrated when there are enough of them. Without it p-values
    are of Monte Carlo, which takes rows for independent, and the answer says that it is not calibrated. ``features``: columns
    to compare (default: all that both have). ``levels``: fields of `DriftSpec`, such as ``warn_at`` or ``min_effect``.

    Raises RefusedError for no rows, no column in common, an unknown one, or one that is a number here and a text there.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> compare(rng.normal(0.5, 1, 1000), rng.normal(0, 1, 20_000)).drifted
    True
    """
    new, old, labels = _to_frame(batch, "the batch"), _to_frame(baseline, "the baseline"), None
    levels = _complete_levels(levels)
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
    names = name_features([*old.columns, *new.columns])
    new, old = new.rename(columns=names), old.rename(columns=names)
    kinds, left_out = choose_columns(new, old, None if features is None else [names.get(name, name) for name in features])
    try:
        spec = DriftSpec(features=tuple(FeatureSpec(name=name, expr="1") for name in kinds), **levels)
    except ValidationError as error:
        mistakes = (": ".join((*map(str, keys[:1]), text)) for keys, text in mistakes_in(error))
        raise RefusedError("; ".join(mistakes)) from None
    state, measure = BaselineState(spec), partial(measure_columns, kinds=kinds, with_slices=labels is not None)
    for label, rows in [("all", old)] if labels is None else old.groupby(labels.to_numpy(), sort=True):
        measurements = list(measure(rows))
        results = compare_features(measurements, state.baseline, spec) if labels is not None else []
        state.learn(label, measurements, {result.key: result.statistics for result in results})
    calibrated = labels is not None and len(state.history) >= spec.warn_from
    by_chance = {} if calibrated else _relations_by_chance(new, old, kinds)
    verdict = judge_drift(list(measure(new)), state.baseline, state.history, spec, by_chance=by_chance)
    return SampleComparison(verdict, tuple(kinds), left_out, spec)


def _to_frame(sample: pd.DataFrame | ArrayLike, which: str) -> pd.DataFrame:
    frame = sample if isinstance(sample, pd.DataFrame) else pd.DataFrame({"value": np.asarray(sample).ravel()})
    if not len(frame):
        raise RefusedError(f"{which} has no rows: there is nothing to compare")
    frame = frame.rename(columns=str)
    if twice := sorted(set(frame.columns[frame.columns.duplicated()])):
        raise RefusedError(f"{which} has two columns that are called {twice[0]!r}; rename one of them")
    return frame


def _complete_levels(levels: Mapping[str, Any]) -> dict[str, Any]:
    """Add the levels that follow from `warn_at`: a low one takes more windows than the default."""
    warn_at = levels.get("warn_at", drift_default("warn_at"))
    if not 0.0 < warn_at < 1.0:
        raise RefusedError(f"warn_at {warn_at} is no p-value to warn at: above 0 and below 1")
    complete = {"warn_at": warn_at, **levels}
    complete.setdefault("hold_at", min(drift_default("hold_at"), warn_at))
    hold_from = complete.setdefault("hold_from", max(drift_default("hold_from"), complete.get("warn_from", 0)))
    complete.setdefault("remember", max(drift_default("remember"), hold_from))
    return complete


def measure_columns(rows: pd.DataFrame, kinds: Mapping[str, str], *, with_slices: bool = False) -> Iterator[Measurement]:
    """Profiles of columns, ``{name: "number" or "category"}``, the relations of their numbers, and their slices."""
    for name, kind in kinds.items():
        if kind == "category":
            values = rows[name].dropna().astype(str)
            counts = values.value_counts()
            top = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_CATEGORIES]
            pairs = tuple(sorted((str(value), int(n)) for value, n in top))
            filled = int(counts.sum())
            texts = text_figures(values.tolist())
            more = {
                "distinct": float(len(counts)) or None,
                "counts": pairs,
                "others": filled - sum(n for _, n in pairs),
                "texts": texts and tuple(texts),
            }
            yield Profile(name, None, len(rows), len(rows) - filled, kind="category", **more)
            continue
        values = _numbers(rows[name])
        atoms, atom_rows = np.unique(values[np.isfinite(values)], return_counts=True)
        nans, infinities = int(np.isnan(values).sum()), int(np.isinf(values).sum())
        pairs = tuple(zip(atoms.tolist(), atom_rows.tolist(), strict=True))
        yield Profile(name, None, len(rows), nans, infinities=infinities, counts=pairs or None)
    if numbers := _related_columns(rows, kinds):
        yield compute_relations(numbers)
    if with_slices and (slices := measure_slices(rows, kinds)):
        yield slices


def _relations_by_chance(new: pd.DataFrame, old: pd.DataFrame, kinds: dict[str, str]) -> ByChance:
    """The p-value of relations, drawn from the baseline's rows: profiles alone cannot give it."""
    batch, baseline = (_related_columns(frame, kinds) for frame in (new, old))
    if not batch:
        return {}
    rows, baseline_rows = (np.column_stack(list(columns.values())) for columns in (batch, baseline))
    strangest = relations_p_value(rows, baseline_rows, list(batch))
    return {(RELATIONS, None): strangest} if strangest else {}


def _related_columns(rows: pd.DataFrame, kinds: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Numeric columns by name; none where they are too few or too many for relations."""
    numbers = {name: _numbers(rows[name]) for name, kind in kinds.items() if kind == "number"}
    return numbers if 2 <= len(numbers) <= MOST_RELATED else {}


def _numbers(values: Any) -> np.ndarray:
    return pd.Series(pd.to_numeric(values, errors="coerce")).to_numpy(dtype=float, na_value=np.nan)
