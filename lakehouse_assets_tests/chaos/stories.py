"""Random stories of several machines on one lake: operations at once, while some machines sleep and some are killed.

Belongs here: drawing a story, playing it, and its end. Does not: processes (machine), or how many stories (__main__).

A story has a round for each step of a history (`play.steps_of`). In each, files land, every machine gets an operation, and some
of them stop at a step: they sleep past their lease, or are killed. In the end the tables are those of one machine that nobody
disturbed. A story has releases or discards of the quarantined window, not both: which came first would decide its end.
"""

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakehouse_assets.settings import Settings
from lakehouse_assets_tests.chaos.machine import Machine, leased_settings
from lakehouse_assets_tests.chaos.play import POINTS, land, steps_of, tables

OPERATIONS = ("run", "run", "run", "maintain", "rebuild")
# What an operation may end with beside others: it was taken over, or waited too long, or there is nothing to release or discard
# (yet, or any more).
ENDS = ("well", "LeaseLostError", "LockedError", "RefusedError")
# Shares of the operations, and of those that stop.
STOPPED, KILLED = 0.6, 0.3


@dataclass
class Story:
    """``outcomes``: how often an operation ended how."""

    machines: Sequence[Machine]
    lake: Settings
    seed: int
    outcomes: Counter[str] = field(default_factory=Counter)

    def play(self) -> None:
        """Play all rounds, then `settle`. Raises AssertionError for an unexpected end."""
        drawn = random.Random(self.seed)
        for step in steps_of(self.seed):
            land(self.lake, step)
            self._play_round(drawn)
        settle(self.machines[drawn.randrange(len(self.machines))], self.lake, self.seed)

    def _play_round(self, drawn: random.Random) -> None:
        stopped: list[Machine] = []
        busy = list(self.machines)
        for machine in busy:
            operation = drawn.choice([*OPERATIONS, closing_of(self.seed)])
            point = drawn.choice(POINTS[operation]) if drawn.random() < STOPPED else ""
            machine.send(operation, self.lake, stop_at=point, seed=drawn.randrange(1000))
            time.sleep(drawn.choice([0, 0, 0.5, 2]))
        for machine in busy:
            if not self._is_over(machine):
                stopped.append(machine)
        # By now whoever is awake has ended, or waited until the others' leases had lapsed.
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
        self.machines[drawn.randrange(len(self.machines))].run("run", self.lake)

    def _is_over(self, machine: Machine) -> bool:
        message = machine.receive()
        if "stopped" in message:
            return False
        assert message["ended"] in ENDS, f"seed {self.seed}, {machine.host}: {message}"
        self.outcomes[message["ended"]] += 1
        return True


def closing_of(seed: int) -> str:
    """Return what a story does with the quarantined window."""
    return "release" if seed % 2 else "discard"


def settle(machine: Machine, lake: Settings, seed: int) -> None:
    """Complete what is left, release or discard what is quarantined, and run once more."""
    machine.run("run", lake)
    machine.send(closing_of(seed), lake)
    message = machine.receive()
    assert message["ended"] in ("well", "RefusedError"), message
    machine.run("run", lake)


def play_story(machines: Sequence[Machine], home: Path, seed: int, store: str | None = None) -> Counter[str]:
    """Play a story, and compare its end with that of one undisturbed machine. Raises AssertionError where they differ.

    ``store``: the address on a store below which the story's lake is; None: on the disk. The other lake is on the disk.
    """
    lake = leased_settings(home / f"story{seed}", store and f"{store}/story{seed}")
    alone = leased_settings(home / f"alone{seed}")
    for step in steps_of(seed):
        land(alone, step)
        machines[0].run("run", alone)
    settle(machines[0], alone, seed)
    story = Story(machines, lake, seed)
    story.play()
    expected, actual = comparable(alone), comparable(lake)
    for name, rows in expected.items():
        assert actual[name] == rows, f"seed {seed}: {name} differs: {actual[name]} instead of {rows}"
    machines[-1].run("rebuild", lake)
    assert comparable(lake)["silver"] == expected["silver"], f"seed {seed}: a rebuild differs"
    return story.outcomes


def comparable(lake: Settings) -> dict[str, Any]:
    """Return what does not depend on the order of a release and of what arrives beside it, nor on how often one is repeated:
    each release is a decision of its own, with its rows of quarantine and its profiles.
    """
    rows = {name: rows for name, rows in tables(lake).items() if name not in ("decide_done", "results")}
    return rows | {name: _count_releases_once(rows[name]) for name in ("held", "profiles")}


def _count_releases_once(rows: Sequence[Any]) -> list[Any]:
    released = {row for row in rows if "'released'" in str(row)}
    return sorted([*released, *(row for row in rows if "'released'" not in str(row))])
