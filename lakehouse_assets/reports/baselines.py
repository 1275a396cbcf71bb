"""A baseline for a reader: one row per feature and stratum, with its figures.

Belongs here: baseline → rows. Does not: reading it, or printing them.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from lakehouse_assets.decisions.drift.baseline import Baseline
from lakehouse_assets.decisions.drift.categories import Categories
from lakehouse_assets.decisions.drift.distances import Ecdf
from lakehouse_assets.decisions.drift.feature_result import QUANTILE_LEVELS, has_many_texts
from lakehouse_assets.decisions.drift.messages import describe_season
from lakehouse_assets.decisions.drift.profiles import Key, Profile, pool_moments
from lakehouse_assets.decisions.drift.relations import Measurement, Relations
from lakehouse_assets.decisions.drift.watching import Watch

NAMED = 50  # categories that are listed, the most frequent first
MANY_TEXTS = "lengths, characters and distinct values"


def feature_rows(
    baseline: Baseline, windows: Iterable[Sequence[Measurement]], watches: Iterable[Watch] = ()
) -> list[dict[str, Any]]:
    """A row per feature and stratum. ``windows``: the measurements of each window of the baseline, oldest first.

    ``missing``: the share of rows without a value: ``nulls``, ``nans`` or ``infinities``. In the feature's unit: mean, std,
    minimum, quantiles, maximum. ``distinct``: at least so many values, by the sketches' estimate. ``moved``: the distance from
    the pinned reference; None without one. ``compared_by``: a category's shares or, with too many texts,
    what they look like as well. Of relations: the correlations. ``season``: what windows are compared by, ``none`` for all
    alike; ``finds``: the least shift of a number, in standard deviations, that would be quarantined; ``is_watched``: whether
    one of a whole standard deviation would be. All three are None until that many windows are known.
    """
    profiles: dict[Key, list[Profile]] = {}
    for window in windows:
        for one in window:
            if isinstance(one, Profile):
                profiles.setdefault(one.key, []).append(one)
    moved = {one.key: one.distance for one in baseline.shifts()}
    by_key = {each.key: each for each in watches}
    rows = [_row(key, baseline, profiles.get(key, []), moved.get(key)) for key in baseline.keys]
    return [{**row, **_watch_values(by_key.get(key))} for key, row in zip(baseline.keys, rows, strict=True)]


def _watch_values(watch: Watch | None) -> dict[str, Any]:
    if watch is None:
        return {"season": None, "finds": None, "is_watched": None}
    season = describe_season(watch.season) or "none"
    return {"season": season, "finds": watch.shift, "is_watched": watch.is_watched}


def _row(key: Key, baseline: Baseline, profiles: Sequence[Profile], moved: float | None) -> dict[str, Any]:
    shape, counts = baseline.shape(key), baseline.missing(key)
    rows = sum(n for _, n in counts)
    row: dict[str, Any] = {"feature": key[0], "stratum": key[1], "kind": "number", "windows": baseline.windows(key)}
    row |= {"rows": rows, "missing": sum(m for m, _ in counts) / rows if rows else None, "moved": moved}
    if counts:
        counted = profiles[-len(counts) :]
        row |= {name: sum(getattr(p, name) for p in counted) for name in ("nulls", "nans", "infinities")}
    # Older windows have left the baseline.
    used = [p for p in profiles if p.valid][-max(baseline.windows(key), 1) :]
    distinct = max((p.distinct for p in used if p.distinct is not None), default=None)
    if isinstance(shape, Ecdf):
        row |= pool_moments(used)._asdict()
        row["quantiles"] = dict(zip(map(str, QUANTILE_LEVELS), shape.quantiles(QUANTILE_LEVELS).tolist(), strict=True))
        row["distinct"] = max(distinct or 0.0, float(shape.values.size))
    elif isinstance(shape, Categories):
        ranked = sorted(shape.counts.items(), key=lambda item: (-item[1], item[0]))
        row |= {"kind": "category", "distinct": max(distinct or 0.0, float(len(ranked)))}
        row["compared_by"] = MANY_TEXTS if has_many_texts(baseline, key) else "shares"
        row["categories"] = {name: count / shape.total for name, count in ranked[:NAMED]}
        row["others"] = (shape.others + sum(count for _, count in ranked[NAMED:])) / shape.total
    elif isinstance(shape, Relations):
        row |= {"kind": "relations", "rows": shape.rows, "missing": None, "features": list(shape.features)}
        row |= {"means": list(shape.mean), "correlations": _correlations(shape)}
    return row


def _correlations(relations: Relations) -> list[list[Any]]:
    """``[feature, feature, correlation]``, the strongest first; nothing of a feature that does not vary."""
    matrix = relations.matrix()
    deviations = np.sqrt(np.diag(matrix))
    varying = [index for index in range(len(relations.features)) if deviations[index] > 0]
    pairs = [
        [relations.features[i], relations.features[j], round(float(matrix[i, j] / (deviations[i] * deviations[j])), 6)]
        for i, j in combinations(varying, 2)
    ]
    return sorted(pairs, key=lambda pair: -abs(pair[2]))


def short_rows(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same rows, narrow enough for a terminal."""
    short = []
    for row in rows:
        quantiles = row.get("quantiles") or {}
        shown = {"feature": row["feature"], "stratum": row["stratum"], "windows": row["windows"], "rows": row["rows"]}
        shown["missing"] = None if row["missing"] is None else f"{row['missing']:.2%}"
        shown |= {name: _figure(row.get(name)) for name in ("mean", "std")}
        shown |= {f"{float(share):.0%}": _figure(quantiles.get(share)) for share in ("0.05", "0.5", "0.95")}
        shown |= {"distinct": _figure(row.get("distinct")), "moved": _figure(row["moved"])}
        shown |= {"season": row["season"], "finds": _describe_found(row)}
        if row["kind"] == "category":
            what = ", ".join(f"{name} {share:.0%}" for name, share in list(row["categories"].items())[:3])
            what += f"; compared by {MANY_TEXTS}" if row["compared_by"] == MANY_TEXTS else ""
        else:
            what = ", ".join(f"{a}~{b} {r:+.2f}" for a, b, r in row.get("correlations", [])[:3])
        short.append({**shown, "most frequent, or correlations": what})
    return short


def _describe_found(row: Mapping[str, Any]) -> str | None:
    if row["is_watched"] is False:
        return "not watched"
    return None if row["finds"] is None else f"{row['finds']:.2g} std"


def _figure(value: float | None) -> str | None:
    return None if value is None else f"{value:.5g}"
