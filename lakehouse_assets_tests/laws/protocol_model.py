"""The model of the protocol by which several machines write one lake, and its exploration: every interleaving, breadth first.

Belongs here: faults, the search, traces. Does not: what a writer does (protocol_writer), or the store (protocol_store).
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from lakehouse_assets_tests.laws.protocol_store import (
    TABLES,
    Commit,
    LeaseFile,
    Safeguards,
    Store,
    Table,
    apply_commit,
    create_file,
    find_newest,
)
from lakehouse_assets_tests.laws.protocol_writer import TABLE_OF, Writer, fail, is_light, make_commit, run_action

EXISTING = Store(tables=(Table(version=0),) * len(TABLES))
FRESH = Store()


class Budget(NamedTuple):
    """How much may happen: claims of the lease, renewals, deaths, replies that are lost, requests that arrive late, fences that
    fail, runs for which nothing has arrived.
    """

    claims: int = 3
    renewals: int = 0
    deaths: int = 0
    lost_replies: int = 0
    late_requests: int = 0
    failed_fences: int = 0
    empty_runs: int = 0


class State(NamedTuple):
    """All of the model: hashable, and equal for writers that swap their names."""

    store: Store
    writers: tuple[Writer, ...]
    budget: Budget


@dataclass(frozen=True)
class Exploration:
    """``violation`` and its shortest ``trace``; empty if there is none. ``complete``: nothing was left out."""

    states: int
    violation: str = ""
    trace: tuple[str, ...] = ()


def explore(start: Store, writers: int, budget: Budget, guards: Safeguards = Safeguards(), only: str = "") -> Exploration:
    """Return how many states there are, and the first violation. ``only``: of those whose message has this text."""
    first = State(start, (Writer(),) * writers, budget)
    before: dict[State, tuple[State, str] | None] = {first: None}
    queue = deque([first])
    while queue:
        state = queue.popleft()
        for label, after in successors(state, guards):
            following = after
            if only not in after.store.violation:
                following = after._replace(store=after.store._replace(violation=""))
            if following in before:
                continue
            before[following] = (state, label)
            violation = following.store.violation or ("" if only else unfinished(following.store, guards))
            if violation:
                return Exploration(len(before), violation, _trace(before, following))
            queue.append(following)
    return Exploration(len(before))


def _trace(before: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    labels = []
    while (step := before[state]) is not None:
        state, label = step
        labels.append(label)
    return tuple(reversed(labels))


def successors(state: State, guards: Safeguards) -> Iterator[tuple[str, State]]:
    """Yield what may happen next: one action of one writer, or one fault."""
    store, writers, budget = state
    if store.late is not None:
        yield "a late request arrives", State(_arrive(store, store.late), writers, budget)
    for index, writer in enumerate(writers):
        others = (*writers[:index], *writers[index + 1 :])
        for label, after, following, left in _moves(store, writer, budget, guards):
            # The label names a writer by its lease: writers swap places.
            who = f"lease {writer.number}" if writer.number else "a writer"
            yield f"{who}: {label}", State(after, tuple(sorted((*others, following), key=hash)), left)


def _moves(store: Store, writer: Writer, budget: Budget, guards: Safeguards) -> Iterator[tuple[str, Store, Writer, Budget]]:
    if writer.at == "_acquire":
        if budget.claims:
            for label, after, following in run_action(store, writer, guards):
                yield label, after, following, budget._replace(claims=budget.claims - 1)
        return
    for label, after, following in run_action(store, writer, guards):
        yield label, after, following, budget
        if writer.at.endswith(".commit") and after.tables != store.tables:
            yield from _faults_of_commit(store, after, writer, budget, guards)
    if writer.at == "extract" and budget.empty_runs:
        yield "nothing has arrived", store, writer._replace(at="leave"), budget._replace(empty_runs=budget.empty_runs - 1)
    if budget.deaths:
        yield "dies", store, Writer(), budget._replace(deaths=budget.deaths - 1)
    if budget.renewals and not writer.lost and writer.at not in ("_claim", "confirm", "leave"):
        left = budget._replace(renewals=budget.renewals - 1)
        after, created = create_file(store, LeaseFile(writer.newest + 1, "held"))
        renewed, lost = writer._replace(newest=writer.newest + 1), writer._replace(lost=True)
        yield f"renew {writer.newest + 1}", after, renewed if created else lost, left
        if created:
            after, newest = find_newest(after)
            holds = newest is not None and newest.number == writer.newest + 1
            yield f"renew {writer.newest + 1}, and list", after, renewed if holds else lost, left


def _faults_of_commit(
    store: Store, after: Store, writer: Writer, budget: Budget, guards: Safeguards
) -> Iterator[tuple[str, Store, Writer, Budget]]:
    name, _, _ = writer.at.partition(".")
    if name.startswith("fence "):
        if budget.failed_fences:
            left = budget._replace(failed_fences=budget.failed_fences - 1)
            failed = fail(writer, lost=True) if guards.abandons_failed_fence else writer._replace(at="release")
            yield f"{writer.at} fails", store, failed, left
        return
    table = TABLE_OF[name]
    if budget.lost_replies:
        left = budget._replace(lost_replies=budget.lost_replies - 1)
        if is_light(table, writer.base, writer.number):
            yield f"{writer.at}: its reply is lost", after, fail(writer, lost=True), left
        elif guards.compares_content:
            pass  # the repetition finds its own content, whatever came after it: as if the reply had arrived
        else:
            yield f"{writer.at}: its reply is lost", after, writer._replace(at=f"{name}.open"), left
    if budget.late_requests and store.late is None:
        late, left = make_commit(store, writer, name), budget._replace(late_requests=budget.late_requests - 1)
        yield f"{writer.at} is given up", store._replace(late=late), fail(writer), left


def _arrive(store: Store, late: Commit) -> Store:
    store = store._replace(late=None)
    return apply_commit(store, late) if store.table(late.table).version == late.base else store


@cache
def unfinished(store: Store, guards: Safeguards) -> str:
    """Return what is wrong once all writers have died but one, which then runs alone; empty if nothing is."""
    store = store._replace(late=None)
    for _ in range(3):
        store, fails = _run_alone(store, guards)
        if store.violation:
            return f"a writer alone: {store.violation}"
        if not fails:
            break
    decided, applied = [("decided", row) for row in store.table("silver").rows], store.table("decisions").rows
    names = [store.table(name).rows for name in ("quarantine", "silver", "baseline")]
    if len(decided) != 1 or names != names[:1] * 3 or sorted(applied) != sorted([*decided, ("applied", decided[0][1])]):
        return f"a writer alone ends with {dict(zip(TABLES, (table.rows for table in store.tables), strict=True))}"
    return ""


def _run_alone(store: Store, guards: Safeguards) -> tuple[Store, bool]:
    writer, fails = Writer(), False
    for _ in range(200):
        ((_, store, writer),) = run_action(store, writer, guards)
        fails |= writer.failed
        if writer == Writer():
            return store, fails
    return store.broken("it never ends"), True
