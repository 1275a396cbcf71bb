"""Which columns of two samples are compared, by which names and as what.

Belongs here: names, kinds, and why a column is left out. Does not: measuring or judging them (compare).
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from lakehouse_assets.contracts import drift
from lakehouse_assets.contracts.drift import VOLUME
from lakehouse_assets.errors import RefusedError

# A text column with more distinct values than this, nearly one a row, identifies rows and has no distribution to compare.
MOST_DISTINCT = 20
# What a column of Python objects of these types (by pandas' `infer_dtype`) is compared as.
OBJECTS = {"decimal": "number", "date": "time", "datetime": "time", "time": "time"}


def name_features(columns: Sequence[str]) -> dict[str, str]:
    """The feature name of each column: neither reserved by the gate, nor another's but for its case."""
    names: dict[str, str] = {}
    used = {VOLUME}
    for column in dict.fromkeys(columns):
        name = column
        while name.lower() in used or drift.is_reserved(name):
            name = f"column {name}"
        used.add(name.lower())
        names[column] = name
    return names


def choose_columns(new: pd.DataFrame, old: pd.DataFrame, wanted: Sequence[str] | None) -> tuple[dict[str, str], dict[str, str]]:
    """The kinds of compared columns, and the reasons why others are left out."""
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
            plural = {"number": "numbers", "category": "text", "time": "times"}
            raise RefusedError(f"{name!r} holds {plural[str(one)]} in the batch and {plural[str(other)]} in the baseline")
        elif one == "time":
            left_out[name] = "a time is not compared; give what should be stable about it as a number"
        elif one == "category" and wanted is None and len(old[name].unique()) > max(MOST_DISTINCT, len(old) / 2):
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
    if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
        return "number"
    # Parquet and Delta give decimals and dates as objects.
    kind = OBJECTS.get(pd.api.types.infer_dtype(values, skipna=True))
    return kind or ("time" if pd.api.types.is_datetime64_any_dtype(values) else "category")
