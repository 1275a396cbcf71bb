"""Random histories on real Delta, many in one table: each has keys and windows of its own, and all go through the same runs.

Belongs here: playing histories and comparing silver with the oracle. Does not: drawing them (histories), or how many.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from lakehouse_assets.contracts.windows import window_at
from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets_tests.laws.histories import accepted, history, silver_of, start_of
from lakehouse_assets_tests.support import readings, runner, silver

WINDOWS = 5
TYPES = {"sensor": "string", "hour": "int", "value": "double", "updated": "timestamp", "op": "string"}


def _spec(**extraction: Any):
    return readings(
        source={"kind": "files", "path": "readings/{window:%Y-%m-%dT%H}.csv", "format": "csv", "nulls": ["NA"]},
        extraction={"cadence": "hourly", "start": "2024-01-01", "mode": "upsert", **extraction},
        columns=TYPES,
    )


SPECS = {"plain": _spec(), "deletes": _spec(delete_when="op = 'D'"), "snapshot": _spec(mode="snapshot")}
# What a kind of history is made of: where nothing is edited the exchange merges, but beside newer rows without a column.
DRAWN = {
    "merged": ("plain", {"edits": False, "lacking": False}),
    "edited": ("plain", {}),
    "deletes": ("deletes", {}),
    "deletes_in_order": ("deletes", {"edits": False, "in_order": True}),
    "snapshot": ("snapshot", {"lacking": False}),
}


def check_histories(spark, settings, kind: str, seeds: Sequence[int]) -> None:
    """Play the histories of these seeds, and compare silver with the oracle's after the last run."""
    name, drawn = DRAWN[kind]
    spec = SPECS[name]
    assert len(seeds) == 1 or name != "snapshot", "a snapshot is of the whole table"
    histories = [history(seed, f"s{index}-", WINDOWS, **drawn) for index, seed in enumerate(seeds)]
    folder = Path(settings.landing, "readings")
    folder.mkdir(parents=True, exist_ok=True)
    for number, together in enumerate(zip_longest(*histories, fillvalue=[])):
        starts = []
        for index, step in enumerate(together):
            for landed in step:
                start = start_of(index * WINDOWS + landed.window)
                (folder / f"{start:%Y-%m-%dT%H}.csv").write_text(landed.text())
                starts.append(start)
        windows = [window_at(start, "hourly") for start in sorted(starts)]
        run = runner(spark, settings, spec)
        extract(run, windows)
        publish(run, windows)
        assert number < 100
    expected: dict[tuple[str, int], dict[str, Any]] = {}
    for index, steps in enumerate(histories):
        shifted = [[replace(landed, window=index * WINDOWS + landed.window) for landed in step] for step in steps]
        chains = accepted(shifted, snapshots=name == "snapshot", deletes=name == "deletes")
        expected |= silver_of(chains, deletes=name == "deletes", snapshots=name == "snapshot")
    silver_rows = {(row["sensor"], row["hour"]): row for row in silver(settings)}
    wrong = {key for key in expected.keys() | silver_rows.keys() if expected.get(key) != silver_rows.get(key)}
    failing = sorted({seeds[int(sensor.split("-")[0].removeprefix("s"))] for sensor, _ in wrong})
    shown = [(key, expected.get(key), silver_rows.get(key)) for key in sorted(wrong)][:3]
    assert not wrong, f"{kind}: seeds {failing} (key, oracle's, silver's): {shown}"
    proof = rebuild(runner(spark, settings, spec))
    assert (proof.gained, proof.lost) == (0, 0), f"{kind}: seeds {seeds}"
