"""A writer of the protocol's model: its actions in order, each with at most one request to the store.

Belongs here: what one process does, under the code's names. Does not: the store (protocol_store), exploring (protocol_model).

Between two actions a writer may pause for ever, die, or lose its lease: another writer may judge any unreleased lease as
lapsed at any moment. So nothing here depends on a clock.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from lakehouse_assets_tests.laws.protocol_store import (
    ABSENT,
    LOGS,
    SPARK_TABLES,
    TABLES,
    Commit,
    LeaseFile,
    Safeguards,
    Store,
    Table,
    apply_commit,
    create_file,
    fence_table,
    find_newest,
    read_table,
)

# What each step of the gate does in the store; `()`: nothing that another writer could see or disturb.
GATE: dict[str, tuple[str, ...]] = {
    "recover": ("recover",),
    "stage": ("stage",),
    "measure": (),
    "decide": (),
    "log": ("log.open", "log.commit"),
    "quarantine": ("quarantine.open", "quarantine.commit"),
    "write": ("write.open", "write.commit"),
    "profiles": ("profiles.open", "profiles.commit"),
    "deferred_checks": (),
    "mark_applied": ("mark_applied.open", "mark_applied.commit"),
    "results": (),
}
EXTRACT = ("extract", "read_bronze", "write_bronze.open", "write_bronze.commit", "record.open", "record.commit")
FENCE = tuple(f"fence {table}.{part}" for table in TABLES for part in ("open", "commit"))
ENTER = ("_acquire", "_claim", "confirm", *FENCE, "begin_writes")
ACTIONS = (*ENTER, *EXTRACT, *(action for actions in GATE.values() for action in actions), "leave", "release")
TABLE_OF = {
    "write_bronze": "bronze", "record": "extractions", "log": "decisions", "quarantine": "quarantine", "write": "silver",
    "profiles": "baseline", "mark_applied": "decisions",
}  # fmt: skip


class Writer(NamedTuple):
    """``at``: the next action. ``number``, ``newest``, ``took_over``, ``lost``: as of `holding.Lease`. ``absent``: tables that
    no fence protects yet. ``base``: the version that a commit follows. ``row``: what bronze gets, or the decision to apply.
    """

    at: str = "_acquire"
    number: int = 0
    newest: int = 0
    took_over: bool = False
    lost: bool = False
    failed: bool = False
    absent: frozenset[str] = frozenset()
    to_fence: frozenset[str] = frozenset(TABLES)
    base: int = ABSENT
    row: int = 0
    again: bool = False


Result = tuple[str, Store, Writer]
Action = Callable[[Store, Writer, Safeguards], Iterator[Result]]
_FOLLOWING = dict(zip(ACTIONS, ACTIONS[1:], strict=False))


def follow(writer: Writer, **changes: object) -> Writer:
    """Return the writer at its next action."""
    return writer._replace(at=_FOLLOWING[writer.at], **changes)  # pyright: ignore[reportArgumentType]


def fail(writer: Writer, *, lost: bool = False) -> Writer:
    """Return the writer after an error that ends its block."""
    return writer._replace(at="leave", failed=True, lost=writer.lost or lost)


def run_action(store: Store, writer: Writer, guards: Safeguards) -> Iterator[Result]:
    """Yield what the next action may lead to: its name, the store, the writer."""
    name, _, part = writer.at.partition(".")
    if name.startswith("fence "):
        yield from _fence(store, writer, guards, name.removeprefix("fence "), part)
    elif part == "open":
        yield from _open(store, writer, guards, name)
    elif part == "commit":
        yield from _commit(store, writer, guards, name)
    else:
        yield from _OTHERS[writer.at](store, writer, guards)


def _read(store: Store, name: str, writer: Writer) -> tuple[Store, Table]:
    """Read a table. One that no fence protects may still get a former holder's commit: then this writer's is refused."""
    return (store, store.table(name)) if name in writer.absent else read_table(store, name, writer.number)


def _acquire(store: Store, writer: Writer, guards: Safeguards) -> Iterator[Result]:
    store, newest = find_newest(store)
    number, took_over = (1, False) if newest is None else (newest.number + 1, newest.kind != "released")
    tables = newest.absent if newest is not None and newest.kind == "failed" and newest.absent else frozenset(TABLES)
    what = "" if newest is None else f" sees {newest.number} ({newest.kind})"
    yield f"_acquire{what}", store, follow(writer, number=number, newest=number, took_over=took_over, to_fence=tables)


def _claim(store: Store, writer: Writer, guards: Safeguards) -> Iterator[Result]:
    file = LeaseFile(writer.number, "held")
    store, created = create_file(store, file, if_absent=guards.puts_lease_if_absent)
    yield f"_claim {writer.number}", store, follow(writer) if created else Writer()


def _confirm(store: Store, writer: Writer, guards: Safeguards) -> Iterator[Result]:
    if guards.confirms_claim:
        store, newest = find_newest(store)
        if newest is None or newest.number != writer.number:
            yield "confirm: a higher one", store, Writer()
            return
    fences = writer.took_over and guards.fences_takeover
    yield "confirm", store, follow(writer) if fences else writer._replace(at="begin_writes", took_over=False)


def _fence(store: Store, writer: Writer, guards: Safeguards, table: str, part: str) -> Iterator[Result]:
    """Open the table and refuse a higher number; then create the next version, if nobody else has."""
    name = f"fence {table}.{part}"
    state = store.table(table)
    skips = table not in writer.to_fence or (table in LOGS and not guards.fences_logs)
    if part == "open":
        if skips or state.version == ABSENT:
            absent = writer.absent | {table} if not skips else writer.absent
            follower = follow(writer)
            yield f"{name}: nothing to do", store, follow(follower, absent=absent)
        elif guards.checks_number_at_fence and max(state.number, state.application) > writer.number:
            yield f"{name}: a higher number", store, fail(writer, lost=True)
        else:
            yield name, store, follow(writer, base=state.version)
    elif guards.checks_number_at_fence and state.version != writer.base:
        yield f"{name}: another version came first", store, writer._replace(at=f"fence {table}.open")
    else:
        yield name, fence_table(store, table, writer.number), follow(writer)


def _begin_writes(store: Store, writer: Writer, guards: Safeguards) -> Iterator[Result]:
    yield "begin_writes", store, follow(writer)


def _extract(store: Store, writer: Writer, guards: Safeguards) -> Iterator[Result]:
    """Read the records: an extraction of the same source is not read again."""
    store, records = _read(store, "extractions", writer)
    yield "extract", store, writer._replace(at="recover") if records.rows else follow(writer)


def _read_bronze(store: Store, writer: Writer, guards: Safeguards) -> Iterator[Result]:
    """Look for rows of an extraction without a record: they are replaced."""
    store, bronze = _read(store, "bronze", writer)
    yield "read_bronze", store, follow(writer, again=bool(bronze.rows), row=writer.number)


def _recover(store: Store, writer: Writer, guards: Safeguards) -> Iterator[Result]:
    """Read the log: go on with a decision without its mark, end if all is applied, judge if there is none."""
    store, log = _read(store, "decisions", writer)
    decided = [row[1] for row in log.rows if row[0] == "decided"]
    applied = [row[1] for row in log.rows if row[0] == "applied"]
    if pending := [row for row in decided if row not in applied]:
        yield "recover", store, writer._replace(at="quarantine.open", row=pending[0], again=True)
    elif decided:
        yield "recover: nothing to do", store, writer._replace(at="leave")
    else:
        yield "recover", store, follow(writer, row=writer.number, again=False)


def _stage(store: Store, writer: Writer, guards: Safeguards) -> Iterator[Result]:
    store, _ = _read(store, "bronze", writer)
    yield "stage, measure, decide", store, follow(writer)


def is_light(table: str, version: int, number: int) -> bool:
    """Whether `deltalake` writes the next version, and not Spark. Silver gets few rows from it, and others from Spark: here by
    the number of the lease, so that each follows the other. Spark creates it.
    """
    return table not in SPARK_TABLES or (table == "silver" and version != ABSENT and number % 2 == 1)


def make_commit(store: Store, writer: Writer, name: str) -> Commit:
    """Return the commit that this action requests."""
    table = TABLE_OF[name]
    row = {"log": ("decided", writer.row), "mark_applied": ("applied", writer.row)}.get(name, writer.row)
    is_again = writer.again and table in SPARK_TABLES
    return Commit(table, writer.base, writer.number, row, is_again, is_light(table, writer.base, writer.number))


def _open(store: Store, writer: Writer, guards: Safeguards, name: str) -> Iterator[Result]:
    """Begin a commit: Spark's log store reads the number before its version, `deltalake` opens the table."""
    table = TABLE_OF[name]
    store, state = _read(store, table, writer) if table not in SPARK_TABLES else (store, store.table(table))
    is_log, light = table in LOGS, is_light(table, state.version, writer.number)
    checks = guards.checks_number_at_commit
    if light:
        checks = guards.states_lease_in_logs if is_log else guards.states_lease_in_tables
    stated = max(state.application, state.number if guards.reads_number_of_commits else 0) if light else state.number
    unfenced = table in writer.absent and guards.refuses_unfenced_tables and stated != writer.number
    if checks and state.version != ABSENT and (stated > writer.number or unfenced):
        yield f"{name}: refused, version {state.version} states {stated}", store, fail(writer, lost=stated > writer.number)
    elif is_log and checks and writer.lost:
        yield f"{name}: refused, the lease is lost", store, fail(writer)
    elif name == "log" and guards.claims_decision_numbers and any(row[0] == "decided" for row in state.rows):
        yield f"{name}: refused, the number is taken", store, fail(writer)
    elif table == "baseline" and writer.row in state.rows:
        yield f"{name}: written already", store, follow(follow(writer))
    else:
        yield f"{name}.open", store, follow(writer, base=state.version)


def _commit(store: Store, writer: Writer, guards: Safeguards, name: str) -> Iterator[Result]:
    """Create the next version if it is absent. Spark goes on after versions that change nothing for it, and checks again."""
    table = TABLE_OF[name]
    state, commit = store.table(table), make_commit(store, writer, name)
    if state.version == writer.base or (not commit.is_light and not guards.creates_version_once):
        yield f"{name}.commit", apply_commit(store, commit), follow(writer)
    elif not commit.is_light or (writer.base == ABSENT and guards.refuses_unfenced_tables):
        yield f"{name}.commit: another version came first", store, writer._replace(at=f"{name}.open")
    elif _conflicts(name, state, writer.base, guards) and writer.base != ABSENT:
        yield f"{name}.commit: refused, a concurrent transaction", store, fail(writer, lost=True)
    else:
        yield f"{name}.commit", apply_commit(store, commit._replace(base=state.version)), follow(writer)


def _conflicts(name: str, state: Table, base: int, guards: Safeguards) -> bool:
    """Whether Delta refuses the commit: a version since its own base states the lease's application too, or its decision's
    number.
    """
    states_lease = guards.states_lease_in_logs if TABLE_OF[name] in LOGS else guards.states_lease_in_tables
    return (states_lease and state.stated > base) or (name == "log" and guards.claims_decision_numbers and state.claim > base)


def _leave(store: Store, writer: Writer, guards: Safeguards) -> Iterator[Result]:
    """End the block; a lost or abandoned lease is not given back."""
    yield "leave", store, Writer() if writer.lost else follow(writer)


def _release(store: Store, writer: Writer, guards: Safeguards) -> Iterator[Result]:
    fails = writer.failed and guards.fences_after_errors
    absent = writer.absent if guards.fences_absent_tables_later else frozenset[str]()
    kind = "failed" if fails or absent else "released"
    store, _ = create_file(store, LeaseFile(writer.newest + 1, kind, frozenset() if fails else absent))
    yield f"release: {kind}", store, Writer()


_OTHERS: dict[str, Action] = {
    "_acquire": _acquire, "_claim": _claim, "confirm": _confirm, "begin_writes": _begin_writes, "extract": _extract,
    "read_bronze": _read_bronze, "recover": _recover, "stage": _stage, "leave": _leave, "release": _release,
}  # fmt: skip
