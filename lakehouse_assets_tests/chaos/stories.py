"""Random stories of several machines on one lake: runs, releases and maintenance at once, while some of them sleep.

Belongs here: drawing a story, playing it, and its end. Does not: processes (machine), or how many stories (__main__).

A story has a round for each step of a history (`play.steps_of`). In each, files land, every machine gets an operation, and some
of them sleep at a step past their lease. In the end the tables are those of one machine that nobody disturbed.
"""

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakehouse_assets.settings import Settings
from lakehouse_assets_tests.chaos.machine import LEASE_SECONDS, Machine, leased_settings
from lakehouse_assets_tests.chaos.play import POINTS, land, steps_of, tables

OPERATIONS = ("run", "run", "run", "maintain", "release")
# What an operation may end with beside others: it was taken over, or waited too long, or there is nothing to release (yet, or
# any more).
ENDS = ("well", "LeaseLostError", "LockedError", "RefusedError")
SLEEPERS = 0.6


@dataclass
class Story:
    """``outcomes``: how often an operation ended how."""

    machines: Sequence[Machine]
    lake: Settings
    seed: int
    outcomes: Counter[str] = field(default_factory=Counter)

    def play(self) -> None:
        """Play all rounds, then one run, one release and one more run. Raises AssertionError for an unexpected end."""
        drawn = random.Random(self.seed)
        for step in steps_of(self.seed):
            land(self.lake, step)
            self._play_round(drawn)
        settle(self.machines[drawn.randrange(len(self.machines))], self.lake)

    def _play_round(self, drawn: random.Random) -> None:
        asleep: list[Machine] = []
        busy = list(self.machines)
        for machine in busy:
            operation = drawn.choice(OPERATIONS)
            point = drawn.choice(POINTS[operation]) if drawn.random() < SLEEPERS else ""
            machine.send(operation, self.lake, stop_at=point, seed=drawn.randrange(1000))
            time.sleep(drawn.choice([0, 0, 0.5, 2]))
        for machine in busy:
            if not self._is_over(machine):
                asleep.append(machine)
        # By now whoever is awake has ended, or waited until the sleepers' leases had lapsed.
        time.sleep(drawn.choice([0, LEASE_SECONDS + 1]))
        for machine in asleep:
            machine.resume()
            assert self._is_over(machine)
        # What was not recorded yet is extracted before the source changes again.
        self.machines[drawn.randrange(len(self.machines))].run("run", self.lake)

    def _is_over(self, machine: Machine) -> bool:
        message = machine.receive()
        if "stopped" in message:
            self.outcomes["slept"] += 1
            return False
        assert message["ended"] in ENDS, f"seed {self.seed}, {machine.host}: {message}"
        self.outcomes[message["ended"]] += 1
        return True


def settle(machine: Machine, lake: Settings) -> None:
    """Complete what is left, release what is quarantined, and run once more."""
    machine.run("run", lake)
    machine.send("release", lake)
    message = machine.receive()
    assert message["ended"] in ("well", "RefusedError"), message
    machine.run("run", lake)


def play_story(machines: Sequence[Machine], home: Path, seed: int) -> Counter[str]:
    """Play a story, and compare its end with that of one undisturbed machine. Raises AssertionError where they differ."""
    lake, alone = leased_settings(home / f"story{seed}"), leased_settings(home / f"alone{seed}")
    for step in steps_of(seed):
        land(alone, step)
        machines[0].run("run", alone)
    settle(machines[0], alone)
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
