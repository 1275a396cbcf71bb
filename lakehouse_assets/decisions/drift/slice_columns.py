"""The slices of columns in memory, outside any table.

Belongs here: arrays → slices. Does not: rows in Spark (measures), or which slices are kept (slices).
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lakehouse_assets.decisions.drift.distances import Ecdf
from lakehouse_assets.decisions.drift.slices import (
    MOST_COLUMNS,
    Cell,
    Scale,
    Slices,
    choose_categories,
    find_scale,
    pairs_of,
)


def measure_slices(rows: pd.DataFrame, kinds: Mapping[str, str]) -> Slices | None:
    """Return the slices of a frame's columns, ``{name: "number" or "category"}``."""
    numbers, texts = {}, {}
    for name, kind in kinds.items():
        values: Any = rows[name]
        if kind == "number":
            numbers[name] = np.asarray(pd.to_numeric(values, errors="coerce"), dtype=float)
        else:
            texts[name] = np.where(values.notna(), values.astype(str).astype(object), None)
    return compute_slices(numbers, texts)


def compute_slices(numbers: Mapping[str, NDArray[np.float64]], texts: Mapping[str, NDArray[np.object_]]) -> Slices | None:
    """Return the slices of a batch; None where there are none. A text without a value is None."""
    rows = len(next(iter(texts.values()), ()))
    scales = {name: scale for name, values in numbers.items() if (scale := _find_scale(values)) is not None}
    masks = {column: _find_categories(values, rows) for column, values in texts.items()}
    masks = dict([(column, each) for column, each in masks.items() if each][:MOST_COLUMNS])
    if not scales or not masks:
        return None
    scores = np.array([np.clip((numbers[name] - scale.low) / scale.width, 0.0, 1.0) for name, scale in scales.items()])
    scores[~np.isfinite([numbers[name] for name in scales])] = np.nan
    cells = []
    for columns in pairs_of(list(masks)):
        first, *others = columns
        for name, chosen in masks[first].items():
            if not others:
                cells.append(_make_cell(((first, name),), scores[:, chosen]))
            for other, more in masks[others[0]].items() if others else ():
                cells.append(_make_cell(((first, name), (others[0], other)), scores[:, chosen & more]))
    return Slices.of(scales, _make_cell((), scores), np.nansum(scores**2, axis=1).tolist(), cells)


def _find_scale(values: NDArray[np.float64]) -> Scale | None:
    finite = values[np.isfinite(values)]
    if not finite.size:
        return None
    return find_scale(Ecdf.of(finite))


def _find_categories(values: NDArray[np.object_], rows: int) -> dict[str, NDArray[np.bool_]]:
    counts = Counter(str(value) for value in values if value is not None)
    return {name: values == name for name in choose_categories(counts, rows)}


def _make_cell(conditions: tuple[tuple[str, str], ...], scores: NDArray[np.float64]) -> Cell:
    valid = (~np.isnan(scores)).sum(axis=1).tolist()
    return Cell(conditions, scores.shape[1], tuple(valid), tuple(np.nansum(scores, axis=1).tolist()))
