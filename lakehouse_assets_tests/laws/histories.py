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
OUT_OF_RANGE, UNREADABLE = "999", "x"
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


def history(
    seed: int, prefix: str = "", windows: int = 5, *, edits: bool = True, lacking: bool = True, in_order: bool = False
) -> list[Step]:
    """What lands before each run. Windows come in any order and late, are replayed as they were, edited (rows added, changed
    and taken away), doubled, emptied, and lack a column; rows repeat, contradict each other, delete and are out of range.
    ``in_order``: the rows of a window are of its own day or of the day before.
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
                step[window] = _file(draw, window, prefix, lacking, in_order)
        for window in draw.sample(sorted(before), min(2, len(before))) if edits else ():
            again = draw.random() < 0.3
            step.setdefault(window, before[window] if again else _edited(draw, before[window], prefix, lacking, in_order))
        before |= step
        steps.append([*step.values()])
    return steps


def _file(draw: random.Random, window: int, prefix: str, lacking: bool, in_order: bool) -> Landed:
    columns = tuple(c for c in COLUMNS if c != "value") if lacking and draw.random() < 0.2 else COLUMNS
    moments = _moments(window, in_order)
    rows = [_row(draw, prefix, columns, moments) for _ in range(draw.choice((0, 1, 2, 3, 4, 5)))]
    if rows and draw.random() < 0.3:
        rows.append(draw.choice(rows))
    return Landed(window, columns, tuple(rows))


def _moments(window: int, in_order: bool) -> list[str]:
    days = (window + 1, window + 2, window + 2, window + 2)
    return [f"2024-01-{day:02}T0{1 + index % 2}:00:00Z" for index, day in enumerate(days)] if in_order else MOMENTS


def _row(
    draw: random.Random, prefix: str, columns: tuple[str, ...], moments: list[str] = MOMENTS
) -> tuple[tuple[str, str], ...]:
    cells = {
        "sensor": prefix + draw.choice("abc"),
        "hour": UNREADABLE if draw.random() < 0.03 else draw.choice("12"),
        "value": draw.choice(("0", "1", "2", "3", "NA", OUT_OF_RANGE)),
        "updated": draw.choice(moments),
        "op": draw.choice("UUUD"),
    }
    return tuple((name, cells[name]) for name in columns)


def _out_of_range(row: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return tuple((name, OUT_OF_RANGE if name == "value" else cell) for name, cell in row)


def _edited(draw: random.Random, old: Landed, prefix: str, lacking: bool, in_order: bool) -> Landed:
    if draw.random() < 0.3:
        return _file(draw, old.window, prefix, lacking, in_order)
    rows = [row for row in old.rows if draw.random() < 0.7]
    if "value" in old.columns:
        rows = [_out_of_range(row) if draw.random() < 0.15 else row for row in rows]
    rows += [_row(draw, prefix, old.columns, _moments(old.window, in_order)) for _ in range(draw.randint(0, 2))]
    return Landed(old.window, old.columns, tuple(rows))


Chain = list[tuple[int, Landed]]  # a window's accepted extractions, oldest first, each with its number
Key = tuple[str, int]


def key_of(row: Row) -> Key | None:
    """What a row is about; None where its key cannot be read."""
    return None if row["hour"] == UNREADABLE else (row["sensor"], int(row["hour"]))


def is_clean(row: Row) -> bool:
    """Whether the checks leave the row in."""
    return row.get("value") != OUT_OF_RANGE and key_of(row) is not None


@dataclass(frozen=True)
class PlacedRow:
    """A clean row in its place in the total order."""

    order_key: tuple[datetime, datetime, int, str]
    row: Row

    @property
    def key(self) -> Key:
        """What it is about."""
        return (self.row["sensor"], int(self.row["hour"]))


def published(start: datetime, chain: Chain) -> list[PlacedRow]:
    """The rows of a window that silver is folded from: a later extraction takes a row away if its key is clean there, or is
    not there at all. One with a key that cannot be read may have any key.
    """
    placed_rows = []
    for index, (seq, landed) in enumerate(chain):
        for row in filter(is_clean, landed.cells):
            if all(_leaves(later, key_of(row)) for _, later in chain[index + 1 :]):
                order_key = (datetime.fromisoformat(row["updated"]), start, seq, content_hash(row))
                placed_rows.append(PlacedRow(order_key, row))
    return placed_rows


def _leaves(later: Landed, key: Key | None) -> bool:
    clean = {key_of(row) for row in later.cells if is_clean(row)}
    quarantined = {key_of(row) for row in later.cells if not is_clean(row)}
    return key not in clean and bool(quarantined & {key, None})


def accepted(steps: list[Step], *, snapshots: bool = False, deletes: bool = False) -> dict[int, Chain]:
    """The accepted extractions of each window. One is not accepted without a row, without a clean row, or when more than half
    of the keys would be lost that its window has published, or (of a snapshot) that silver has.
    """
    extracted: dict[int, int] = {}
    chains: dict[int, Chain] = {}
    for step in steps:
        before = {window: list(chain) for window, chain in chains.items()}
        waiting = [(landed, len(step) > 1) for landed in sorted(step, key=lambda each: each.window)]
        while waiting:
            landed, may_wait = waiting.pop(0)
            at_stake = _at_stake(landed, before, chains) if snapshots else _own(landed.window, chains)
            own = {key_of(row) for row in landed.cells}
            lost = set() if None in own else at_stake - own
            if _is_redelivery(landed, before, snapshots) and len(lost) * 2 > len(at_stake):
                if may_wait:
                    # Another window of the run may have these keys: it is decided after the others.
                    waiting.append((landed, False))
                    continue
                lost -= _elsewhere(landed, silver_of(chains, deletes=deletes, snapshots=snapshots))
            extracted[landed.window] = seq = extracted.get(landed.window, 0) + 1
            if any(is_clean(row) for row in landed.cells) and len(lost) * 2 <= len(at_stake):
                chains.setdefault(landed.window, []).append((seq, landed))
            elif any(is_clean(row) for row in landed.cells) and snapshots and _is_late(landed, before):
                survive = {p.key for w, chain in before.items() if w > landed.window for p in published(start_of(w), chain)}
                if landed.window not in before and len(lost - survive) * 2 <= len(at_stake):
                    chains.setdefault(landed.window, []).append((seq, landed))
    return chains


def _is_redelivery(landed: Landed, before: dict[int, Chain], snapshots: bool) -> bool:
    """Whether it replaces rows of its own window alone. A snapshot that is the newest replaces all of silver."""
    return not snapshots or (_is_late(landed, before) and landed.window in before)


def _elsewhere(landed: Landed, silver: dict[Key, dict[str, Any]]) -> set[Key]:
    """Keys whose row has moved: in silver they are from another window."""
    return {key for key, row in silver.items() if row["p_extracted_at"] != start_of(landed.window)}


def _own(window: int, chains: dict[int, Chain]) -> set[Key]:
    return {p.key for p in published(start_of(window), chains.get(window, []))}


def _is_late(landed: Landed, before: dict[int, Chain]) -> bool:
    return bool(before) and landed.window < max(before)


def _at_stake(landed: Landed, before: dict[int, Chain], chains: dict[int, Chain]) -> set[Key]:
    """Of a snapshot that is older than silver's newest, what its window has published, if it was there; of others, silver's
    keys: as they were before the run, with the newer snapshots of the run.
    """
    if _is_late(landed, before):
        return _own(landed.window, before) if landed.window in before else set(silver_of(before))
    newest = max(before, default=-1)
    return set(silver_of({**before, **{w: chain for w, chain in chains.items() if w >= newest}}))


def silver_of(chains: dict[int, Chain], *, deletes: bool = False, snapshots: bool = True) -> dict[Key, dict[str, Any]]:
    """Law 1 of these accepted extractions."""
    live = [p for window, chain in chains.items() for p in published(start_of(window), chain)]
    return oracle(live, deletes=deletes, snapshots={start_of(w): c[-1][1] for w, c in chains.items()} if snapshots else None)


def oracle(
    live: list[PlacedRow], *, deletes: bool, snapshots: dict[datetime, Landed] | None = None
) -> dict[Key, dict[str, Any]]:
    """Law 1: the rows of each key, in the total order, applied one by one, column by column. ``snapshots``: by the starts of
    all accepted windows what landed last, where each holds every living key.
    """
    state: dict[tuple[str, int], dict[str, Any]] = {}
    if snapshots is not None:
        live = [p for p in live if _ever_since(p, snapshots)]
    for each in sorted(live, key=lambda p: p.order_key):
        row = each.row
        if deletes and row.get("op") == "D":
            state.pop(each.key, None)
            continue
        now = state.setdefault(each.key, {"sensor": row["sensor"], "hour": int(row["hour"]), "value": None, "op": None})
        if "value" in row:
            now["value"] = None if row["value"] == "NA" else float(row["value"])
        now |= {"op": row["op"], "updated": each.order_key[0], "p_extracted_at": each.order_key[1]}
        now |= {"extraction_seq": each.order_key[2], "_content_hash": each.order_key[3]}
    return state


def _ever_since(each: PlacedRow, snapshots: dict[datetime, Landed]) -> bool:
    """Whether no later snapshot lacks the key. A row in quarantine has it; one whose key cannot be read may have it."""
    later = [landed for start, landed in snapshots.items() if start >= each.order_key[1]]
    return all({key_of(row) for row in landed.cells} & {each.key, None} for landed in later)


def start_of(window: int) -> datetime:
    """The start of a window by its number: they are hours, so that many histories have room."""
    start = START
    for _ in range(window):
        start = window_at(start, "hourly").end
    return start
