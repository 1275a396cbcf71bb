"""The example's weather in silver and gold by hand, from the landed files and the verdicts, without Spark.

Belongs here: the oracle and the comparison with it. Does not: the stories that lead to the lake (test_weather, test_ui).
"""

import csv
import math
from datetime import UTC, datetime
from pathlib import Path

from lakehouse_assets.decisions import ledger
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.support import rows_of


def number(text: str) -> float | None:
    return None if text == "NA" else float(text)


def oracle(settings: Settings) -> list[dict]:
    """Silver by hand, from the landed files and the verdicts: no Spark, none of the project's code."""
    accepted = {start for (start, _), d in ledger.current_decisions(logs.decisions(settings, "weather")).items() if d.accepted}
    rows = {}
    for file in sorted(Path(settings.landing, "weather").glob("*.csv")):
        start = datetime.fromisoformat(file.stem).replace(tzinfo=UTC)
        if start not in accepted:
            continue
        for r in csv.DictReader(file.open()):
            wind = number(r["wind_speed"])
            if wind is not None and not 0 <= wind * 0.44704 <= 60:
                continue
            hour = datetime.fromisoformat(r["time_hour"].replace("Z", "+00:00"))
            scaled = {
                "temp_c": ("temp", lambda v: (v - 32) / 1.8),
                "dew_point_c": ("dewp", lambda v: (v - 32) / 1.8),
                "humidity_percent": ("humid", lambda v: v),
                "wind_direction_deg": ("wind_dir", lambda v: v),
                "wind_speed_m_s": ("wind_speed", lambda v: v * 0.44704),
                "wind_gust_m_s": ("wind_gust", lambda v: v * 0.44704),
                "precipitation_mm": ("precip", lambda v: v * 25.4),
                "pressure_kpa": ("pressure", lambda v: v / 10),
                "visibility_km": ("visib", lambda v: v * 1.609344),
            }
            values = {n: None if number(r[c]) is None else f(number(r[c])) for n, (c, f) in scaled.items()}
            rows[(r["origin"], hour)] = {"origin": r["origin"], "time_hour": hour, **values, "p_extracted_at": start}
    return [rows[key] for key in sorted(rows)]


def compare_silver(settings: Settings) -> int:
    """Compare silver with the oracle row by row. Returns how many rows it has; raises AssertionError."""
    expected = oracle(settings)
    rows = sorted(rows_of(settings.path("silver", "weather"), list(expected[0])), key=lambda r: (r["origin"], r["time_hour"]))
    assert len(rows) == len(expected)
    for have, want in zip(rows, expected, strict=True):
        for name, value in want.items():
            same = math.isclose(have[name], value, rel_tol=1e-12) if isinstance(value, float) else have[name] == value
            assert same, (want["origin"], want["time_hour"], name, have[name], value)
    return len(rows)


def compare_gold(settings: Settings) -> None:
    """Compare the days of gold with the oracle. Raises AssertionError."""
    expected: dict = {}
    for row in oracle(settings):
        expected.setdefault((row["origin"], row["time_hour"].date()), []).append(row)
    gold_rows = {(r["origin"], r["day"]): r for r in rows_of(settings.path("gold", "daily_weather"))}
    assert set(gold_rows) == set(expected)
    for key, rows in expected.items():
        assert gold_rows[key]["readings"] == len(rows)
        temps = [r["temp_c"] for r in rows if r["temp_c"] is not None]
        assert gold_rows[key]["temp_max_c"] == (max(temps) if temps else None)
