"""The files on the way of a batch: from the asset to the commit of silver, and of gold.

Belongs here: counting them in one real run. Does not: what any of them does.

A file is on the way if one of its functions receives the run, the gate's target, the batch or the record of its extraction, by
itself or in a collection. The rooms of the flow count, and the file of the asset itself. Contracts and checks are data, and a
helper that receives only rows, numbers or decisions does not count. Nor does a mapping of any keys, as a dict does not.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.orchestration.assets.component import LakehouseTable
from lakehouse_assets.pipeline.gate import Target
from lakehouse_assets.pipeline.run import TableRun
from lakehouse_assets_tests.e2e.world import World
from lakehouse_assets_tests.support import PROJECT_ROOT, land, readings

ROOMS = ("orchestration", "pipeline", "measures", "decisions", "storage")
ASSETS, MAPPING = "orchestration/assets/window_steps.py", "decisions/growing_map.py"
PACKAGE = PROJECT_ROOT / "lakehouse_assets"
MOST_OF_SILVER, MOST_OF_GOLD = 14, 12


def is_of_batch(value: Any) -> bool:
    if isinstance(value, TableRun | Target | ExtractionRecord):
        return True
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], datetime) and isinstance(value[1], int):
        return True
    return isinstance(value, list | tuple | set | frozenset | dict) and any(is_of_batch(each) for each in value)


@contextmanager
def files_on_the_way() -> Iterator[dict[str, set[str]]]:
    """Within it, each function's arguments are looked at from a publishing function's call to its return. Yields the files by
    the name of that function.
    """
    files = {"publish": {ASSETS}, "publish_gold": {ASSETS}}
    counted: set[tuple[str, CodeType]] = set()
    within: list[str] = []

    def look(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        # A lambda or a comprehension is a part of its function.
        if event not in ("call", "return") or code.co_name[0] == "<" or not code.co_filename.startswith(f"{PACKAGE}/"):
            return
        path = Path(code.co_filename).relative_to(PACKAGE)
        if code.co_name in files and path.parts[0] == "pipeline":
            within[:] = [code.co_name] if event == "call" else []
        if event != "call" or not within or path.parts[0] not in ROOMS or (within[0], code) in counted:
            return
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if path.as_posix() != MAPPING and any(is_of_batch(frame.f_locals.get(name)) for name in names):
            counted.add((within[0], code))
            files[within[0]].add(path.as_posix())

    sys.setprofile(look)
    try:
        yield files
    finally:
        sys.setprofile(None)


def test_a_batch_passes_few_files(spark, tmp_path):
    (tmp_path / "all.sql").write_text("select sensor, hour, value as amount from silver_readings")
    gold = [{"name": "all", "sql": "all.sql", "key": ["sensor", "hour"]}]
    ends = {"cadence": "daily", "start": "2024-01-01", "end": "2024-01-03", "mode": "upsert"}
    world = World(spark, tmp_path, [LakehouseTable(readings(extraction=ends, gold=gold), tmp_path)])
    for day in (1, 2):
        land(world.settings, day, [f"a,{day},10,2024-01-0{day}T00:00:00Z"])
    with files_on_the_way() as files:
        world.run()
    silver, of_gold = sorted(files["publish"]), sorted(files["publish_gold"])
    assert 1 < len(silver) <= MOST_OF_SILVER, "\n".join(silver)
    assert 1 < len(of_gold) <= MOST_OF_GOLD, of_gold
