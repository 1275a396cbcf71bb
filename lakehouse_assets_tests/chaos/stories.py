"""Random stories of several machines on one lake: operations at once, while some machines sleep and some are killed.

Belongs here: drawing a story, playing it, and its end. Does not: processes (machine), or how many stories (the tests).

A story has a round for each of the first steps of a history (`play.steps_of`). In each, files land, every machine gets an
operation, and some of them stop at a step: they sleep past their lease, or are killed. On a store some requests fail as well.
In the end the tables are those of one machine that nobody disturbed. A story has releases or discards of the quarantined
window, not both: which came first would decide its end.
"""

import random
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import obstore

from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.leases.files import LeaseFiles
from lakehouse_assets.storage.leases.holding import LeaseHolder
from lakehouse_assets_tests.chaos.machine import Machine, leased_settings
from lakehouse_assets_tests.chaos.play import POINTS, check_oracle, land, steps_of, tables
from lakehouse_assets_tests.e2e.store_proxy import StoreProxy, draw_faults

# Stories of one history share the undisturbed machine's tables, which take as long to make as a story.
HISTORIES, ROUNDS = 8, 2
TABLE = "readings"
HOSTS = ("host-a", "host-b", "host-c")
OPERATIONS = ("run", "run", "run", "maintain", "rebuild")
# What an operation may end with beside others: it was taken over, or waited too long, or there is nothing to release or discard
# (yet, or any more).
ENDS = ("well", "LeaseLostError", "LockedError", "RefusedError")
# The same before a store that fails: each of these is repeated, and repeating is safe.
ENDS_BEFORE_FAULTS = (*ENDS, "EnvironmentMissing", "OSError", "CommitFailedError", "DeltaError", "Py4JJavaError")
# Shares of the operations, and of those that stop.
STOPPED, KILLED = 0.6, 0.3
# Shares of the writes to a store that fail, each in a third of the stories. Of the reads, a tenth of it.
FAULTS_OF_WRITES = (0.0, 0.05, 0.15)
RELEASE_SECONDS = 60.0
MOST_ATTEMPTS = 8


@dataclass
class Story:
    """``outcomes``: how often an operation ended how. ``share_of_faults``: of the writes to the store. ``decisions``,
    ``extractions``: what ended operations have promised to be there.
    """

    machines: Sequence[Machine]
    lake: Settings
    seed: int
    share_of_faults: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    decisions: set[str] = field(default_factory=set)
    extractions: set[tuple[str, int]] = field(default_factory=set)

    def play(self, drawn: random.Random) -> None:
        """Play all rounds. Raises AssertionError for an unexpected end."""
        for step in steps_of(history_of(self.seed))[:ROUNDS]:
            land(self.lake, step)
            self._play_round(drawn)

    def settle(self, machine: Machine) -> None:
        """Complete what is left, release or discard what is quarantined, and run once more."""
        self._complete(machine, "run")
        self._complete(machine, closing_of(self.seed))
        self._complete(machine, "run")

    def assert_acknowledged(self) -> None:
        """Raise AssertionError unless every decision and extraction of an operation that ended well is in the logs, once."""
        decisions = Counter(decision.decision_id for decision in logs.decisions(self.lake, TABLE))
        extractions = Counter((e.p_extracted_at.isoformat(), e.extraction_seq) for e in logs.extractions(self.lake, TABLE))
        for name, promised, logged in (
            ("decisions", self.decisions, decisions),
            ("extractions", self.extractions, extractions),
        ):
            assert not promised - logged.keys(), f"seed {self.seed}: acknowledged {name} are lost: {promised - logged.keys()}"
            assert set(logged.values()) <= {1}, f"seed {self.seed}: {name} are there twice: {logged}"

    def _play_round(self, drawn: random.Random) -> None:
        stopped: list[Machine] = []
        for machine in self.machines:
            operation = drawn.choice([*OPERATIONS, closing_of(self.seed)])
            point = drawn.choice(POINTS[operation]) if drawn.random() < STOPPED else ""
            machine.send(operation, self.lake, stop_at=point, seed=drawn.randrange(1000))
            time.sleep(drawn.choice([0, 0, 0.5, 2]))
        for machine in self.machines:
            if not self._is_over(machine):
                stopped.append(machine)
        # By now whoever is awake has ended, or waited until the others' leases had lapsed.
        if stopped:
            time.sleep(drawn.choice([0, self.lake.lease_seconds + 1]))
        for machine in stopped:
            if drawn.random() < KILLED:
                machine.restart()
                self.outcomes["killed"] += 1
                continue
            machine.resume()
            assert self._is_over(machine)
            self.outcomes["slept"] += 1
        # What was not recorded yet is extracted before the source changes again.
        self._complete(drawn.choice(self.machines), "run")

    def _complete(self, machine: Machine, operation: str) -> None:
        """Repeat an operation until it ends well, or there is nothing to do. Without faults the first attempt does."""
        ends = []
        while ends[-1:] not in (["well"], ["RefusedError"]):
            assert len(ends) < (MOST_ATTEMPTS if self.share_of_faults else 1), f"seed {self.seed}, {operation}: {ends}"
            machine.send(operation, self.lake)
            ends.append(self._receive(machine)["ended"])

    def _is_over(self, machine: Machine) -> bool:
        return "stopped" not in self._receive(machine)

    def _receive(self, machine: Machine) -> dict[str, Any]:
        message = machine.receive()
        if "ended" in message:
            ends = ENDS_BEFORE_FAULTS if self.share_of_faults else ENDS
            assert message["ended"] in ends, f"seed {self.seed}, {machine.host}: {message}"
            self.outcomes[message["ended"]] += 1
            self.decisions.update(message.get("decisions", ()))
            self.extractions.update((start, number) for start, number in message.get("extractions", ()))
        return message


def history_of(seed: int) -> int:
    """Return the seed of the story's history: an odd one for an odd story."""
    return (seed - 1) % HISTORIES + 1


def closing_of(seed: int) -> str:
    """Return what a story does with the quarantined window."""
    return "release" if seed % 2 else "discard"


@dataclass
class Stage:
    """Machines that play one story after another, each in a lake of its own. ``store``: the address below which the lakes are;
    None: on the disk. ``proxy``: the one before the store.
    """

    machines: Sequence[Machine]
    home: Path
    store: str | None = None
    proxy: StoreProxy | None = None

    def __post_init__(self) -> None:
        self.expect = cache(self._expect)

    def play(self, seed: int) -> Counter[str]:
        """Play a story, and compare its end with that of one undisturbed machine. Returns how often an operation ended how.
        Raises AssertionError where they differ: the machines are then started again, since one may still be asleep.
        """
        try:
            return self._play(seed)
        except BaseException:
            for machine in self.machines:
                machine.restart()
            raise

    def _play(self, seed: int) -> Counter[str]:
        expected = self.expect(history_of(seed))
        drawn = random.Random(seed)
        machines = list(self.machines)
        drawn.shuffle(machines)
        home = self.home / f"story{seed}"
        lake = leased_settings(home, self.store and f"{self.store}/story{seed}")
        share = drawn.choice(FAULTS_OF_WRITES) if self.proxy else 0.0
        story = Story(machines[: drawn.choice((2, 2, 3))], lake, seed, share)
        if self.proxy:
            self.proxy.choose_fault = draw_faults(seed, share, share / 10)
        story.play(drawn)
        if self.proxy:
            self.proxy.choose_fault = lambda request: None
            self.proxy.await_late_requests()
        story.settle(machines[0])
        actual = comparable(lake)
        for name, rows in expected.items():
            assert actual[name] == rows, f"seed {seed}: {name} differs: {actual[name]} instead of {rows}"
        story.assert_acknowledged()
        if seed % 5 == 0:
            machines[1].run("rebuild", lake)
            assert comparable(lake)["silver"] == expected["silver"], f"seed {seed}: a rebuild differs"
        _remove(lake)
        return story.outcomes

    def _expect(self, history: int) -> dict[str, Any]:
        """Return the tables of one undisturbed machine, on a disk. Silver is law 1 by hand until something is released."""
        lake = leased_settings(self.home / f"alone{history}")
        for step in steps_of(history)[:ROUNDS]:
            land(lake, step)
            self.machines[0].run("run", lake)
        check_oracle(lake, history, ROUNDS)
        Story(self.machines, lake, history).settle(self.machines[0])
        return comparable(lake)


def _remove(lake: Settings) -> None:
    """Remove a lake: a server that holds many objects is slow. A lease that lingers is given back by a file, before that."""
    leases = LeaseFiles(lake.root)
    LeaseHolder(leases, lake.lease_seconds).await_release(TABLE, RELEASE_SECONDS)
    store = leases.store
    paths = [each["path"] for each in obstore.list(store).collect()]
    for first in range(0, len(paths), 500):
        obstore.delete(store, paths[first : first + 500])
    shutil.rmtree(lake.dagster_home)


def comparable(lake: Settings) -> dict[str, Any]:
    """Return what does not depend on the order of a release and of what arrives beside it, nor on how often one is repeated:
    each release is a decision of its own, with its rows of quarantine and its profiles.
    """
    rows = {name: rows for name, rows in tables(lake).items() if name != "results"}
    return rows | {name: _count_releases_once(rows[name]) for name in ("held", "profiles", "decide_done")}


def _count_releases_once(rows: Sequence[Any]) -> list[Any]:
    released = {row for row in rows if "'released'" in str(row)}
    return sorted([*released, *(row for row in rows if "'released'" not in str(row))])
