"""What the second aggregation gave, row by row, as profiles and relations.

Belongs here: collected rows → records. Does not: the aggregation itself (profile).
"""

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import Row

from lakehouse_assets.decisions.profiles import MOST_CATEGORIES, Profile
from lakehouse_assets.decisions.relations import Relations

# What a row is of.
KEYS = ("window", "extraction_seq", "place", "stratum")


def joined(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """One for each key: sketches and figures may have come apart."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        known = found.setdefault(tuple(row[key] for key in KEYS), {})
        known.update({name: value for name, value in row.asDict().items() if value is not None or name not in known})
    return list(found.values())


def number(feature: str, row: dict[str, Any], slot: int) -> Profile:
    """Few values, all of them counted, are kept in the place of the sketch."""
    given, nans, valid, sketch = (row[f"{name}{slot}"] for name in ("given", "nans", "valid", "sketch"))
    counts = _exact(row.get(f"counted{slot}"), valid)
    return Profile(
        feature=feature,
        stratum=row["stratum"],
        rows=row["rows"],
        nulls=row["rows"] - given,
        nans=nans,
        infinities=given - nans - valid,
        mean=row[f"mean{slot}"],
        std=row[f"std{slot}"],
        minimum=row[f"minimum{slot}"],
        maximum=row[f"maximum{slot}"],
        sketch=bytes(sketch) if valid and sketch is not None and counts is None else None,
        distinct=float(len(counts) if counts else row[f"distinct{slot}"]),
        counts=None if counts is None else tuple(sorted(counts.items())),
    )


def category(feature: str, row: dict[str, Any], slot: int) -> Profile:
    """The most frequent by name, ties by the alphabet, so that the same rows give the same profile."""
    told, listed = row[f"told{slot}"], row[f"categories{slot}"]
    every = {item["item"]: item["count"] for item in listed if item["item"] is not None}
    ranked = sorted(every.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_CATEGORIES]
    exact = sum(every.values()) == told
    return Profile(
        feature=feature,
        stratum=row["stratum"],
        rows=row["rows"],
        nulls=row["rows"] - told,
        kind="category",
        distinct=float(len(every) if exact else row[f"kinds{slot}"]),
        counts=tuple(sorted(ranked)) if told else None,
        # Of more values than are counted one by one, Spark's figures are upper bounds.
        others=max(0, told - sum(rows for _, rows in ranked)),
    )


def _exact(listed: Sequence[Row] | None, valid: int) -> dict[float, int] | None:
    """Rows by value, where there are few values and all of them were counted."""
    if not valid or listed is None:
        return None
    found = {item["item"]: item["count"] for item in listed if item["item"] is not None}
    return found if len(found) <= MOST_CATEGORIES and sum(found.values()) == valid else None


def relations(by: str | None, features: tuple[str, ...], row: dict[str, Any]) -> Relations:
    """Co-moments of a population's variances and covariances."""
    rows, places = row["completes"], range(len(features))
    mean = tuple(row[f"centre{i}"] if rows else 0.0 for i in places)
    pairs = [(i, j) for i in places for j in places[i:]]
    comoments = tuple(row[f"co{i}_{j}"] * rows if rows else 0.0 for i, j in pairs)
    return Relations(by, row["stratum"], features, rows, mean, comoments)
