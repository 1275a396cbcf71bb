"""Random histories of a table, and law 1 applied to them by hand: an oracle that shares no code with the project.

Belongs here: what may happen to a source, drawn from a seed, and what silver must be. Does not: any run.
"""

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lakehouse_assets.contracts.windows import window_at
from lakehouse_assets_tests.support import content_hash

Row = dict[str, str]
START = datetime(2024, 1, 1, tzinfo=UTC)
MOMENTS = [f"2024-01-0{day}T0{hour}:00:00Z" for day in (1, 2) for hour in (1, 2)]
OUT_OF_RANGE = "999"
COLUMNS = ("sensor", "hour", "value", "updated", "op")


@dataclass(frozen=True)
class Landed:
    """One file as it lands: of which window, with which columns, its rows. A column that it lacks is in none of its rows."""

    window: int
    columns: tuple[str, ...]
    rows: tuple[tuple[tuple[str, str], ...], ...]

    @property
    def cells(self) -> list[Row]:
        """Its rows as mappings."""
        return [dict(row) for row in self.rows]

    def text(self) -> str:
        """The file."""
        lines = [",".join(row[name] for name in self.columns) for row in self.cells]
        return "\n".join([",".join(self.columns), *lines]) + "\n"


Step = list[Landed]


def history(seed: int, prefix: str = "", windows: int = 5, *, edits: bool = True, lacking: bool = True) -> list[Step]:
    """What lands before each run. Windows come in any order and late, are replayed as they were, edited (rows added, changed
    and taken away), doubled, emptied, and lack a column; rows repeat, contradict each other, delete and are out of range.
    """
    draw = random.Random(seed)
    order = list(range(windows))
    draw.shuffle(order)
    steps: list[Step] = []
    before: dict[int, Landed] = {}
    while order or (steps and draw.random() < 0.3 and len(steps) < windows + 2):
        step: dict[int, Landed] = {}
        for _ in range(draw.randint(1, 3)):
            if order:
                window = order.pop(0)
                step[window] = _file(draw, window, prefix, lacking)
        if edits and before and draw.random() < 0.6:
            window = draw.choice(sorted(before))
            step.setdefault(window, before[window] if draw.random() < 0.3 else _edited(draw, before[window], prefix, lacking))
        before |= step
        steps.append([*step.values()])
    return steps


def _file(draw: random.Random, window: int, prefix: str, lacking: bool) -> Landed:
    columns = tuple(c for c in COLUMNS if c != "value") if lacking and draw.random() < 0.2 else COLUMNS
    rows = [_row(draw, prefix, columns) for _ in range(draw.choice((0, 1, 2, 3, 3, 4)))]
    if rows and draw.random() < 0.3:
        rows.append(draw.choice(rows))
    return Landed(window, columns, tuple(rows))


def _row(draw: random.Random, prefix: str, columns: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    cells = {
        "sensor": prefix + draw.choice("ab"),
        "hour": draw.choice("12"),
        "value": draw.choice(("0", "1", "2", "3", "NA", OUT_OF_RANGE)),
        "updated": draw.choice(MOMENTS),
        "op": draw.choice("UUUD"),
    }
    return tuple((name, cells[name]) for name in columns)


def _edited(draw: random.Random, old: Landed, prefix: str, lacking: bool) -> Landed:
    if draw.random() < 0.3:
        return _file(draw, old.window, prefix, lacking)
    rows = [row for row in old.rows if draw.random() < 0.7]
    rows += [_row(draw, prefix, old.columns) for _ in range(draw.randint(0, 2))]
    return Landed(old.window, old.columns, tuple(rows))


def accepted(steps: list[Step]) -> dict[int, tuple[int, Landed]]:
    """Each window's last extraction that has rows (one without is held), and its number."""
    taken: dict[int, int] = {}
    found: dict[int, tuple[int, Landed]] = {}
    for step in steps:
        for landed in step:
            taken[landed.window] = taken.get(landed.window, 0) + 1
            if landed.rows:
                found[landed.window] = (taken[landed.window], landed)
    return found


@dataclass(frozen=True)
class Placed:
    """A clean row in its place in the total order."""

    place: tuple[datetime, datetime, int, str]
    row: Row

    @property
    def key(self) -> tuple[str, int]:
        """What it is about."""
        return (self.row["sensor"], int(self.row["hour"]))


def placed(start: datetime, seq: int, rows: list[Row]) -> list[Placed]:
    """The clean rows of one extraction."""
    clean = [row for row in rows if row.get("value") != OUT_OF_RANGE]
    return [Placed((datetime.fromisoformat(row["updated"]), start, seq, content_hash(row)), row) for row in clean]


def oracle(
    live: list[Placed], *, deletes: bool, snapshots: list[datetime] | None = None
) -> dict[tuple[str, int], dict[str, Any]]:
    """Law 1: the rows of each key, in the total order, applied one by one, column by column. ``snapshots``: the starts of all
    accepted windows, where each holds every living key.
    """
    state: dict[tuple[str, int], dict[str, Any]] = {}
    if snapshots is not None:
        live = [p for p in live if _ever_since(p, live, snapshots)]
    for each in sorted(live, key=lambda p: p.place):
        row = each.row
        if deletes and row.get("op") == "D":
            state.pop(each.key, None)
            continue
        now = state.setdefault(each.key, {"sensor": row["sensor"], "hour": int(row["hour"]), "value": None, "op": None})
        if "value" in row:
            now["value"] = None if row["value"] == "NA" else float(row["value"])
        now |= {"op": row["op"], "updated": each.place[0], "p_extracted_at": each.place[1]}
        now |= {"extraction_seq": each.place[2], "_content_hash": each.place[3]}
    return state


def _ever_since(each: Placed, live: list[Placed], snapshots: list[datetime]) -> bool:
    present = {p.place[1] for p in live if p.key == each.key}
    return all(start in present for start in snapshots if start >= each.place[1])


def start_of(window: int) -> datetime:
    """The start of a window by its number: they are hours, so that many histories have room."""
    start = START
    for _ in range(window):
        start = window_at(start, "hourly").end
    return start
