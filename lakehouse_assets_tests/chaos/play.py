"""What a chaos process does, where it is killed, and what must be there in the end.

Belongs here: the operations, their kill points, the comparison. Does not: starting processes (strike), or how many (__main__).
"""

import shutil
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable

from lakehouse_assets.checks.sql.text import literal
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.windows import window_at
from lakehouse_assets.decisions import ledger
from lakehouse_assets.operations import baseline, baseline_request
from lakehouse_assets.operations import maintain as maintenance
from lakehouse_assets.operations.maintain import maintain
from lakehouse_assets.operations.rebuild import MIGRATE, REBUILD, migrate, rebuild
from lakehouse_assets.operations.release import DISCARD, REJUDGE, RELEASE, discard, rejudge, release
from lakehouse_assets.operations.restore_logs import RESTORING, restore_logs
from lakehouse_assets.pipeline import gate
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.mend import MEND, mend
from lakehouse_assets.pipeline.publish import Published, publish
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.baseline import baseline_events
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets_tests.laws.histories import COLUMNS, Landed, Step, accepted, history, silver_of, start_of
from lakehouse_assets_tests.laws.on_delta import SPECS
from lakehouse_assets_tests.support import readings, rows_of, silver

LATE_CHECK = {"check": "distinct_count", "columns": ["value"], "max": 2, "severity": "warning"}
RANGE = {"check": "in_range", "column": "value", "min": -100}
PLAIN = SPECS["plain"].model_dump(by_alias=True, include={"name", "source", "extraction", "key", "last_modified", "columns"})
SPEC = readings(**PLAIN, drift={"features": ["value"]}, checks=[{"check": "not_empty"}, {**RANGE, "max": 100}, LATE_CHECK])
STRICT = readings(**PLAIN, drift={"features": ["value"]}, checks=[{"check": "not_empty"}, {**RANGE, "max": 1}, LATE_CHECK])
WIDER = readings(**PLAIN | {"columns": {**PLAIN["columns"], "hour": {"type": "bigint"}}}, drift={"features": ["value"]})
QUARANTINED = 6  # the number of the window whose rows are quarantined, which is not one of the history's

# Moments within a step, besides the one when it is done.
WITHIN = {gate.measure: ("rules_measured",), gate.write: ("before_write",)}


def points_of(steps: Sequence[gate.Step]) -> tuple[str, ...]:
    """The names that `Run.step` receives in these steps, in order."""
    points = [point for step in steps for point in (*WITHIN.get(step, ()), f"{step.__name__}_done")]
    return tuple(dict.fromkeys(points))


# Where an operation is killed. With a + : some moments after that step, together with its Java, in the middle of what follows.
POINTS: dict[str, tuple[str, ...]] = {
    "run": (
        "extracting", "extracting+", "bronze_committed", "extraction_recorded", "extraction_recorded+",
        *points_of(gate.STEPS), "log_done+", "before_write+", "write_done+",
    ),
    "release": points_of((*gate.COMPLETING, *RELEASE)),
    "discard": points_of((*gate.COMPLETING, *DISCARD)),
    "rejudge": (*points_of((*gate.COMPLETING, *REJUDGE)), "before_write+"),
    "maintain": (*points_of(gate.COMPLETING), *maintenance.STEPS, "silver_compacted+"),
    "rebuild": (*points_of(gate.COMPLETING), *REBUILD),
    "migrate": (*points_of(gate.COMPLETING), *MIGRATE),
    "seed": (*points_of(gate.COMPLETING), *baseline.SEED),
    "pin": (*points_of(gate.COMPLETING), *baseline.PIN),
    "unpin": (*points_of(gate.COMPLETING), *baseline.UNPIN),
    "reset": (*points_of(gate.COMPLETING), *baseline.RESET),
    "mend": MEND,
    "restore_logs": RESTORING,
}  # fmt: skip


def steps_of(seed: int) -> list[Step]:
    """The history of a seed, its last step of all its windows so far: that one is what a killed run finds."""
    steps = history(seed)
    # One that a release lets through, one that it does not (there is no such hour), and a clean one.
    cells = [("z", "1", "999"), ("z", "x", "999"), ("z", "2", "1")]
    rows = tuple(tuple(zip(COLUMNS, (*values, "2024-01-01T01:00:00Z", "U"), strict=True)) for values in cells)
    bad = Landed(QUARANTINED, COLUMNS, rows)
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
    return [window_at(start_of(number), "hourly") for number in range(QUARANTINED + 1)]


def seed_source(settings: Settings) -> str:
    """A table to seed from, the same one for all copies of a lake beside each other: its path is a part of the request."""
    source = settings.dagster_home.parent / "seed_source"
    if not source.exists():
        part = source.with_name(f"seed_source.{uuid.uuid4()}")
        shutil.copytree(settings.path("silver", "readings"), part)
        part.rename(source)
    return str(source)


def run_operation(run: Run, name: str) -> Any:
    """Run one operation from its beginning. If a killed attempt had already finished it, it still counts once. Returns what the
    operation does.
    """
    request: dict[str, Any] = {"by": "chaos", "because": "chaos"}
    operations: dict[str, Callable[[], Any]] = {
        "run": lambda: (extract(run, windows()), publish(run, windows())),
        "release": lambda: release(run, start_of(QUARANTINED), None, waived=["in_range_value"], **request),
        "discard": lambda: discard(run, start_of(QUARANTINED), None, **request),
        "rejudge": lambda: rejudge(replace(run, spec=STRICT), windows(), **request),
        "maintain": lambda: maintain(run),
        "rebuild": lambda: rebuild(run),
        "migrate": lambda: migrate(replace(run, spec=WIDER)),
        "seed": lambda: baseline.seed(run, seed_source(run.settings), baseline.SeedWindows.of_table(run.spec, None), **request),
        "pin": lambda: baseline_request.pin(run, **request),
        "unpin": lambda: baseline_request.unpin(run, **request),
        "reset": lambda: baseline.reset(run, **request),
        "mend": lambda: mend(run),
        "restore_logs": lambda: restore_logs(run),
    }
    return operations[name]()


def acknowledgement(outcome: Any) -> dict[str, list[Any]]:
    """Return what an operation has promised to be there: the ids of decisions, and extractions by window and number."""
    decisions, extractions = [], []
    for each in outcome if isinstance(outcome, tuple | list) else [outcome]:
        if isinstance(each, Decision):
            decisions.append(each.decision_id)
        if isinstance(each, Published):
            decisions += [decision.decision_id for decision in each.new]
        if isinstance(each, dict):
            extractions += [[record.p_extracted_at.isoformat(), record.extraction_seq] for record in each.values()]
    return {"decisions": decisions, "extractions": extractions}


def begin(spark: Any, settings: Settings, name: str, seed: int) -> None:
    """Prepare all that is there before the operation: for a run, the history but for its last step, which has landed."""
    steps = steps_of(seed)
    for step in steps[:-1] if name == "run" and len(steps) > 1 else steps:
        land(settings, step)
        run_operation(run_of(spark, settings), "run")
    if name == "run" and len(steps) > 1:
        land(settings, steps[-1])
    if name in PREPARED:
        PREPARED[name](spark, settings)


def spoil(spark: Any, settings: Settings) -> None:
    """Take rows out of silver behind the project's back, for a rebuild to have something to do. Under leases Spark refuses a
    commit without one.
    """
    with table_lock(settings, "readings"):
        DeltaTable.forPath(spark, settings.path("silver", "readings")).delete("hour = 1")


def damage(spark: Any, settings: Settings) -> None:
    """Remove a window's rows from bronze, all of quarantine, and rows of silver: each can be written again."""
    bronze = DeltaTable.forPath(spark, settings.path("bronze", "readings"))
    bronze.delete(f"p_extracted_at = {literal(start_of(QUARANTINED))}")
    shutil.rmtree(settings.path("quarantine", "readings"))
    spoil(spark, settings)


def lose_logs(_: Any, settings: Settings) -> None:
    """Remove the logs that commits can restore."""
    for log in ("decisions", "extractions"):
        shutil.rmtree(settings.path("ops", log))


def pin_baseline(spark: Any, settings: Settings) -> None:
    """Pin the baseline, for an unpin to have something to remove."""
    run_operation(run_of(spark, settings), "pin")


# Before these, the lake is not as a run leaves it.
PREPARED: dict[str, Callable[[Any, Settings], None]] = {
    "rebuild": spoil,
    "unpin": pin_baseline,
    "mend": damage,
    "restore_logs": lose_logs,
}


def end(spark: Any, settings: Settings, name: str, step: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Run the operation undisturbed, then a run. Return what must be equal whatever came before; raises AssertionError."""
    run = replace(run_of(spark, settings), spec=WIDER if name == "migrate" else SPEC)
    run_operation(run_of(spark, settings, step), name)
    run_operation(run, "run")
    actual = tables(settings)
    proof = rebuild(run)
    assert (proof.gained, proof.lost) == (0, 0), "a rebuild differs"
    return actual


def tables(settings: Settings) -> dict[str, Any]:
    """The tables, and every decision with its profiles and check results: a double of any shows."""
    decisions = logs.decisions(settings, "readings", evidence=True)
    current = ledger.current_decisions(decisions)
    labels = {d.decision_id: (*d.batch, d.kind, d.by or "") for d in decisions if d.superseded_by is None}
    quarantined_rows = rows_of(settings.path("quarantine", "readings"), ["decision_id", "_content_hash"])
    bronze = rows_of(settings.path("bronze", "readings"), ["p_extracted_at", "extraction_seq", "_content_hash"])
    profiles = rows_of(settings.path("baseline", "readings"), ["decision_id", "p_extracted_at", "feature", "rows", "mean"])
    results = rows_of(settings.path("ops", "check_results"), ["decision_id", "check", "status", "failed_rows"])
    events = baseline_events(settings, "readings")
    lacking = {d.decision_id for d in decisions if d.applied_at and d.checks and d.superseded_by is None}
    assert not lacking - {row["decision_id"] for row in results}, "check results are short"
    return {
        "silver": silver(settings),
        "types": delta.schema_types(settings.path("silver", "readings")),
        "bronze": bronze,
        "held": sorted((str(labels[r["decision_id"]]), r["_content_hash"]) for r in quarantined_rows),
        "verdicts": {batch: (d.verdict, d.counts, d.superseded_by is not None) for batch, d in current.items()},
        "decide_done": sorted(map(str, labels.values())),
        "profiles": sorted(
            str((labels.get(r["decision_id"], r["decision_id"].split("-")[0]), *list(r.values())[1:])) for r in profiles
        ),
        "events": [(event.kind, event.after) for event in events],
        # A decision without a commit cannot be restored (docs/evidence.md); its results are still there.
        "results": sorted(str((labels.get(r["decision_id"], "lost"), *list(r.values())[1:])) for r in results),
        "unapplied": len(ledger.unapplied_decisions(decisions)),
    }


def check_oracle(settings: Settings, seed: int, steps: int | None = None) -> None:
    """After a run, silver is law 1 by hand, with each key once. ``steps``: of the history; None: all. Raises AssertionError."""
    rows = silver(settings)
    silver_rows = {(row["sensor"], row["hour"]): row for row in rows}
    expected = silver_of(accepted(steps_of(seed)[:steps]), snapshots=False)
    assert silver_rows == expected, f"seed {seed}: silver is not the oracle's"
    assert len(rows) == len(expected), f"seed {seed}: a key is there twice"
