"""The slices of batches, measured by Spark and in memory.

Belongs here: rows → slices, on real Spark. Does not: what is unusual about them (decisions).
"""

from datetime import UTC, datetime

import numpy as np
import pandas as pd

from lakehouse_assets.contracts.drift import DriftSpec
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets.decisions.drift.slice_columns import measure_slices
from lakehouse_assets.decisions.drift.slices import Slices
from lakehouse_assets.measures.drift_features import measure_features

KINDS = {"v": "number", "n": "number", "site": "category", "kind": "category", "id": "category"}
HOSTILE = "a'b\"`\\<script>\n"


def make_rows(day: int) -> pd.DataFrame:
    rng, rows = np.random.default_rng(day), 200
    frame = pd.DataFrame(
        {
            "day": f"2024-01-{day:02}",
            "site": rng.choice(np.array(["x", HOSTILE, None], dtype=object), rows),
            "kind": rng.choice(["p", "q"], rows),
            "id": [f"{day}-{index}" for index in range(rows)],
            "v": rng.normal(size=rows),
            "n": rng.integers(0, 3, rows).astype(float),
        }
    )
    frame.loc[:4, "v"] = [np.nan, np.inf, -np.inf, 1e300, np.nan]
    return frame


def test_spark_measures_what_memory_does(spark):
    windows = {day: make_rows(day) for day in (1, 2)}
    rows = pd.concat([frame.assign(newest=True) for frame in windows.values()])
    rows = pd.concat([rows, windows[1].assign(newest=False, v=99.0)])
    schema = "day string, site string, kind string, id string, v double, n double, newest boolean"
    columns = [rows[each.split()[0]].tolist() for each in schema.split(", ")]
    columns[1] = [site if isinstance(site, str) else None for site in columns[1]]  # pandas has NaN
    staged = spark.createDataFrame(list(zip(*columns, strict=True)), schema).selectExpr(
        "*", "newest AS _newest", "cast(day AS timestamp) AS p_extracted_at", "1 AS extraction_seq"
    )
    # `site` is measured although it is no feature, because one is split by it.
    features = ["v", "n", "kind", "id", {"name": "v_at", "expr": "v", "by": "site"}]
    measured, _ = measure_features(staged, DriftSpec.model_validate({"features": features}))
    for day, frame in windows.items():
        (own,) = [m for m in measured[datetime(2024, 1, day, tzinfo=UTC), 1] if isinstance(m, Slices)]
        expected = measure_slices(frame, {name: KINDS[name] for name in ("v", "n", "kind", "id", "site")})
        assert expected is not None
        assert own.features == ("v", "n")
        assert (("kind", "p"), ("site", HOSTILE)) in own.conditions
        assert {column for conditions in own.conditions for column, _ in conditions} == {"kind", "site"}
        for name in ("conditions", "rows", "slice_rows", "slice_valid", "valid"):
            assert getattr(own, name) == getattr(expected, name)
        np.testing.assert_allclose(own.differences, expected.differences, atol=1e-8)
        assert Slices.from_dict(own.to_dict()) == own
    names = {m.feature for own in measured.values() for m in own if isinstance(m, Profile) and m.stratum is None}
    assert names == {"v", "n", "kind", "id", "v_at"}
    off, _ = measure_features(staged, DriftSpec.model_validate({"features": ["v", "kind"], "slices": False}))
    assert not [m for own in off.values() for m in own if isinstance(m, Slices)]
