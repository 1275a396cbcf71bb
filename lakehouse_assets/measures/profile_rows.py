"""The second aggregation's rows as profiles and relations.

Belongs here: collected rows → records. Does not: the aggregation itself (profile).
"""

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import Row

from lakehouse_assets.decisions.drift.profiles import MOST_CATEGORIES, Profile
from lakehouse_assets.decisions.drift.relations import Relations
from lakehouse_assets.decisions.drift.texts import TextFigures

# The grouping columns.
KEYS = ("window", "extraction_seq", "by_index", "stratum")


def join_rows(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return one row for each key: sketches and figures may have been aggregated separately."""
    by_key: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        joined = by_key.setdefault(tuple(row[key] for key in KEYS), {})
        joined.update({name: value for name, value in row.asDict().items() if value is not None or name not in joined})
    return list(by_key.values())


def read_number(feature: str, row: dict[str, Any], slot: int) -> Profile:
    """Return the profile of a number: counts instead of the sketch, if it has few values and all of them were counted."""
    filled, nans, valid, sketch = (row[f"{name}{slot}"] for name in ("filled", "nans", "valid", "sketch"))
    counts = _counts(row.get(f"counted{slot}"))
    if not valid or len(counts) > MOST_CATEGORIES or sum(counts.values()) != valid:
        counts = None
    return Profile(
        feature=feature,
        stratum=row["stratum"],
        rows=row["rows"],
        nulls=row["rows"] - filled,
        nans=nans,
        infinities=filled - nans - valid,
        mean=row[f"mean{slot}"],
        std=row[f"std{slot}"],
        minimum=row[f"minimum{slot}"],
        maximum=row[f"maximum{slot}"],
        sketch=bytes(sketch) if valid and sketch is not None and counts is None else None,
        distinct=float(len(counts) if counts else row[f"distinct{slot}"]),
        counts=None if counts is None else tuple(sorted(counts.items())),
    )


def read_category(feature: str, row: dict[str, Any], slot: int) -> Profile:
    """Return the profile of a category: the most frequent values, ties by the alphabet, so that equal rows give equal ones."""
    filled, counts = row[f"filled_text{slot}"], _counts(row[f"categories{slot}"])
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_CATEGORIES]
    is_exact = sum(counts.values()) == filled
    return Profile(
        feature=feature,
        stratum=row["stratum"],
        rows=row["rows"],
        nulls=row["rows"] - filled,
        kind="category",
        distinct=float(len(counts) if is_exact else row[f"kinds{slot}"]),
        counts=tuple(sorted(ranked)) if filled else None,
        # With more values than are counted one by one, Spark's counts are upper bounds.
        others=max(0, filled - sum(rows for _, rows in ranked)),
        texts=tuple(float(row[f"{name}{slot}"] or 0.0) for name in TextFigures._fields) if filled else None,
    )


def _counts(items: Sequence[Row] | None) -> dict[Any, int]:
    return {item["item"]: item["count"] for item in items or () if item["item"] is not None}


def read_relations(by: str | None, features: tuple[str, ...], row: dict[str, Any]) -> Relations:
    """Return relations, with co-moments from variances and covariances of a population."""
    rows, indices = row["completes"], range(len(features))
    mean = tuple(row[f"centre{i}"] if rows else 0.0 for i in indices)
    pairs = [(i, j) for i in indices for j in indices[i:]]
    comoments = tuple(row[f"co{i}_{j}"] * rows if rows else 0.0 for i, j in pairs)
    return Relations(by, row["stratum"], features, rows, mean, comoments)
