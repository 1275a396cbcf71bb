"""What a chaos process does, where it is killed, and what must be there in the end.

Belongs here: the acts, their kill points, the comparison. Does not: starting processes (strike), or how many (__main__).
"""

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lakehouse_assets.contracts.windows import window_at
from lakehouse_assets.decisions import ledger
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.layers.bronze import extract
from lakehouse_assets.layers.maintain import maintain
from lakehouse_assets.layers.rejudge import rejudge
from lakehouse_assets.layers.release import discard, rebuild, release
from lakehouse_assets.layers.run import Run
from lakehouse_assets.layers.silver import publish
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.laws.histories import COLUMNS, Landed, Step, accepted, history, oracle, placed, start_of
from lakehouse_assets_tests.laws.on_delta import SPECS
from lakehouse_assets_tests.support import readings, rows_of, silver

LATE_CHECK = {"check": "distinct_count", "columns": ["value"], "max": 2, "severity": "warning"}
RANGE = {"check": "in_range", "column": "value", "min": -100}
PLAIN = SPECS["plain"].model_dump(by_alias=True, include={"name", "source", "extraction", "key", "last_modified", "columns"})
SPEC = readings(**PLAIN, drift={"features": ["value"]}, checks=[{"check": "not_empty"}, {**RANGE, "max": 100}, LATE_CHECK])
STRICT = readings(**PLAIN, drift={"features": ["value"]}, checks=[{"check": "not_empty"}, {**RANGE, "max": 1}, LATE_CHECK])
HELD = 6  # the number of the window whose row is held, which is not one of the history's

_JUDGED = ("staged", "measured_rules", "measured_drift")
_APPLIED = (
    "decisions_logged", "quarantine_committed", "before_silver", "silver_committed", "profiles_committed",
    "checked_afterwards", "applied", "results_kept",
)  # fmt: skip
# Where an act is killed. With a + : some moments after that step, together with its Java, in the middle of what follows.
POINTS: dict[str, tuple[str, ...]] = {
    "run": (
        "extracting", "extracting+", "bronze_committed", "extraction_recorded", "extraction_recorded+", *_JUDGED, "decided",
        *_APPLIED, "decisions_logged+", "before_silver+", "silver_committed+",
    ),
    "release": (*_JUDGED, *_APPLIED),
    "discard": ("decisions_logged", "quarantine_committed", "silver_committed", "applied"),
    "rejudge": (*_JUDGED, "decided", *_APPLIED, "before_silver+"),
    "maintain": ("silver_compacted", "silver_compacted+", "silver_vacuumed", "quarantine_compacted", "quarantine_vacuumed"),
}  # fmt: skip


def steps_of(seed: int) -> list[Step]:
    """The history of a seed, its last step of all its windows so far: that one is what a killed run finds."""
    steps = history(seed)
    bad = Landed(HELD, COLUMNS, (tuple(zip(COLUMNS, ("z", "1", "999", "2024-01-01T01:00:00Z", "U"), strict=True)),))
    return [[*steps[0], bad], *steps[1:]]


def land(settings: Settings, step: Step) -> None:
    """Put the files of a step into the landing folder."""
    folder = Path(settings.landing, "readings")
    folder.mkdir(parents=True, exist_ok=True)
    for landed in step:
        (folder / f"{start_of(landed.window):%Y-%m-%dT%H}.csv").write_text(landed.text())


def run_of(spark: Any, settings: Settings, step: Callable[[str], None] = lambda _: None) -> Run:
    """A run by the real clock."""
    return Run(settings, SPEC, lambda: spark, str(uuid.uuid4()), lambda: datetime.now(UTC), step)


def windows() -> list[Any]:
    """All windows of a history."""
    return [window_at(start_of(number), "hourly") for number in range(HELD + 1)]


def act(run: Run, name: str) -> None:
    """One act, from its beginning. Done before (by an attempt that was killed late), it is refused, which is as good."""
    if name == "run":
        extract(run, windows())
        publish(run, windows())
    elif name == "rejudge":
        rejudge(replace(run, spec=STRICT), windows(), by="chaos", because="a stricter rule")
    elif name == "maintain":
        maintain(run)
    else:
        try:
            if name == "release":
                release(run, start_of(HELD), None, waived=["in_range_value"], by="chaos", because="chaos")
            else:
                discard(run, start_of(HELD), None, by="chaos", because="chaos")
        except RefusedError as error:
            if "none of its rows is held" not in str(error):
                raise


def begin(spark: Any, settings: Settings, name: str, seed: int) -> None:
    """All that is there before the act: of a run, the history but for its last step, which has landed."""
    steps = steps_of(seed)
    for step in steps[:-1] if name == "run" and len(steps) > 1 else steps:
        land(settings, step)
        act(run_of(spark, settings), "run")
    if name == "run" and len(steps) > 1:
        land(settings, steps[-1])


def end(spark: Any, settings: Settings, name: str) -> dict[str, Any]:
    """The act once more, undisturbed, and a run; then what must be equal whatever happened before. Raises AssertionError."""
    act(run_of(spark, settings), name)
    act(run_of(spark, settings), "run")
    found = tables(settings)
    proof = rebuild(replace(run_of(spark, settings), spec=SPEC))
    assert (proof.gained, proof.lost) == (0, 0), "a rebuild differs"
    return found


def tables(settings: Settings) -> dict[str, Any]:
    """The tables and the standing decisions; what was tried and judged again on the way may differ."""
    known = logs.decisions(settings, "readings")
    standing = ledger.standing(known)
    ids = {d.decision_id: d.batch for d in standing.values()}
    held = rows_of(settings.path("quarantine", "readings"), ["decision_id", "_content_hash"])
    bronze = rows_of(settings.path("bronze", "readings"), ["p_extracted_at", "extraction_seq", "_content_hash"])
    profiles = rows_of(settings.path("baseline", "readings"), ["decision_id", "feature", "rows", "mean"])
    teaching = set(ledger.teaching(known, max((d.number for d in known), default=0)))
    results = rows_of(settings.path("ops", "check_results"), ["decision_id", "check", "status", "failed_rows"])
    return {
        "silver": silver(settings),
        "bronze": bronze,
        "held": sorted((str(ids[r["decision_id"]]), r["_content_hash"]) for r in held if r["decision_id"] in ids),
        "verdicts": {batch: (d.verdict, d.counts, d.superseded_by is not None) for batch, d in standing.items()},
        "profiles": sorted(
            str((ids[r["decision_id"]], *list(r.values())[1:])) for r in profiles if r["decision_id"] in teaching
        ),
        "results": sorted(str((ids[r["decision_id"]], *list(r.values())[1:])) for r in results if r["decision_id"] in ids),
        "unapplied": len(ledger.unapplied(known)),
    }


def check_oracle(settings: Settings, seed: int) -> None:
    """After a run, silver is law 1 by hand. Raises AssertionError."""
    found = accepted(steps_of(seed))
    live = [p for w, (seq, landed) in found.items() for p in placed(start_of(w), seq, landed.cells)]
    stands = {(row["sensor"], row["hour"]): row for row in silver(settings)}
    assert stands == oracle(live, deletes=False), f"seed {seed}: silver is not the oracle's"
