"""What a baseline holds, for a reader: one row per feature and stratum, with its figures.

Belongs here: baseline → rows. Does not: reading it, or printing them.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lakehouse_assets.decisions.baseline import Baseline
from lakehouse_assets.decisions.categories import Categories
from lakehouse_assets.decisions.compared import SHARES
from lakehouse_assets.decisions.distances import Steps
from lakehouse_assets.decisions.profiles import Key, Profile, pooled
from lakehouse_assets.decisions.relations import Measured, Relations

NAMED = 50  # categories that are listed, the most frequent first


def feature_rows(baseline: Baseline, windows: Iterable[Sequence[Measured]]) -> list[dict[str, Any]]:
    """``windows``: what was measured of each that the baseline was made of, oldest first.

    ``missing``: the share of rows without a value, which are ``nulls``, ``nans`` or ``infinities``.
    In the feature's unit: mean, std, minimum, quantiles, maximum. ``distinct``: at least so many values, as far as the sketches
    tell. ``moved``: the distance from the pinned reference, None where it is not pinned. Of relations: the correlations.
    """
    profiles: dict[Key, list[Profile]] = {}
    for window in windows:
        for one in window:
            if isinstance(one, Profile):
                profiles.setdefault(one.key, []).append(one)
    moved = {one.key: one.distance for one in baseline.moved()}
    return [_row(key, baseline, profiles.get(key, []), moved.get(key)) for key in baseline.keys]


def _row(key: Key, baseline: Baseline, profiles: Sequence[Profile], moved: float | None) -> dict[str, Any]:
    shape, counts = baseline.shape(key), baseline.missing(key)
    rows = sum(n for _, n in counts)
    found: dict[str, Any] = {"feature": key[0], "stratum": key[1], "kind": "number", "windows": baseline.windows(key)}
    found |= {"rows": rows, "missing": sum(m for m, _ in counts) / rows if rows else None, "moved": moved}
    if counts:
        counted = profiles[-len(counts) :]
        found |= {name: sum(getattr(p, name) for p in counted) for name in ("nulls", "nans", "infinities")}
    # Of older windows the baseline has let go.
    used = [p for p in profiles if p.valid][-max(baseline.windows(key), 1) :]
    distinct = max((p.distinct for p in used if p.distinct is not None), default=None)
    if isinstance(shape, Steps):
        found |= pooled(used)._asdict()
        found["quantiles"] = dict(zip(map(str, SHARES), shape.quantiles(SHARES).tolist(), strict=True))
        found["distinct"] = max(distinct or 0.0, float(shape.values.size))
    elif isinstance(shape, Categories):
        ranked = sorted(shape.counts.items(), key=lambda item: (-item[1], item[0]))
        found |= {"kind": "category", "distinct": max(distinct or 0.0, float(len(ranked)))}
        found["categories"] = {name: count / shape.total for name, count in ranked[:NAMED]}
        found["others"] = (shape.others + sum(count for _, count in ranked[NAMED:])) / shape.total
    elif isinstance(shape, Relations):
        found |= {"kind": "relations", "rows": shape.rows, "missing": None, "features": list(shape.features)}
        found |= {"means": list(shape.mean), "correlations": _correlations(shape)}
    return found


def _correlations(relations: Relations) -> list[list[Any]]:
    """``[feature, feature, correlation]``, the strongest first; nothing of a feature that does not vary."""
    matrix = relations.matrix()
    deviations = np.sqrt(np.diag(matrix))
    found = []
    for i, one in enumerate(relations.features):
        for j in range(i + 1, len(relations.features)):
            if deviations[i] > 0 and deviations[j] > 0:
                found.append([one, relations.features[j], round(float(matrix[i, j] / (deviations[i] * deviations[j])), 6)])
    return sorted(found, key=lambda pair: -abs(pair[2]))


def short_rows(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What fits a terminal."""
    short = []
    for row in rows:
        quantiles = row.get("quantiles") or {}
        told = {"feature": row["feature"], "stratum": row["stratum"], "windows": row["windows"], "rows": row["rows"]}
        told["missing"] = None if row["missing"] is None else f"{row['missing']:.2%}"
        told |= {name: _figure(row.get(name)) for name in ("mean", "std")}
        told |= {f"{float(share):.0%}": _figure(quantiles.get(share)) for share in ("0.05", "0.5", "0.95")}
        told |= {"distinct": _figure(row.get("distinct")), "moved": _figure(row["moved"])}
        if row["kind"] == "category":
            what = ", ".join(f"{name} {share:.0%}" for name, share in list(row["categories"].items())[:3])
        else:
            what = ", ".join(f"{a}~{b} {r:+.2f}" for a, b, r in row.get("correlations", [])[:3])
        short.append({**told, "most frequent, or correlations": what})
    return short


def _figure(value: float | None) -> str | None:
    return None if value is None else f"{value:.5g}"
