"""`--restore-logs` is killed at each of its steps and repeated: the logs, and the tables after the next run, are as without.

Belongs here: decisions, marks, given-up decisions. Does not: positions (test_restore_positions), or which damage is noticed.
"""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse_assets.decisions import ledger
from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.operations.restore_logs import GIVING_UP, RESTORING, AcceptedLoss, restore_logs
from lakehouse_assets.pipeline.evidence import findings_of
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.version_marks import log_abandoned
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.support import Killed, heal, land, readings, rows_of, runner, silver

RANGE = {"check": "in_range", "column": "value", "min": -100, "max": 100}
SPEC = readings(checks=[RANGE])
WIDER = readings(checks=[{**RANGE, "max": 200}])
LOSS = AcceptedLoss("ann", "the backup is gone")
AT = datetime(2024, 6, 1, tzinfo=UTC)


def kill_at(point: str) -> Callable[[str], None]:
    def step(reached: str) -> None:
        if reached == point:
            raise Killed

    return step


def rows(day: int, **values: float) -> list[str]:
    return [f"{sensor},1,{value},2024-01-{day:02d}T01:00:00Z" for sensor, value in values.items()]


@pytest.fixture(scope="module")
def history(spark, tmp_path_factory) -> Settings:
    """A lake of four decisions in three runs, with quarantined rows in each: one was replaced, and the rules changed at last.
    `older` has silver as the first run left it.
    """
    home = tmp_path_factory.mktemp("history")
    (home / "landing").mkdir()
    settings = Settings(root=str(home / "lake"), landing=str(home / "landing"), dagster_home=home, spark_master="local[2]")
    land(settings, 1, rows(1, a=1, b=2, c=3))
    land(settings, 2, rows(2, a=5, q=999))
    heal(spark, settings, [1, 2], SPEC)
    shutil.copytree(settings.path("silver", "readings"), home / "older")
    land(settings, 1, rows(1, a=10, b=20, y=999))
    heal(spark, settings, [1], SPEC)
    land(settings, 3, rows(3, d=150, z=999))
    heal(spark, settings, [3], WIDER)
    return settings


@pytest.fixture
def lake(history, tmp_path) -> Settings:
    shutil.copytree(history.dagster_home, tmp_path / "copy")
    here = tmp_path / "copy"
    return history.model_copy(update={"root": str(here / "lake"), "landing": str(here / "landing"), "dagster_home": here})


def without_marks(settings: Settings) -> None:
    """Remove the marks alone, as a lost data file of the log does."""
    path = settings.path("ops", "decisions")
    every = DeltaTable(path).to_pyarrow_table()
    write_deltalake(path, every.filter(pc.equal(every["event"], "decided")), mode="overwrite")  # type: ignore[attr-defined]


def next_run_repeats_nothing(spark, settings: Settings) -> None:
    """The history is not applied again: silver gets no commit, and is the fold."""
    before, version = silver(settings), delta.version(settings.path("silver", "readings"))
    assert ledger.unapplied_decisions(logs.decisions(settings, "readings")) == []
    assert findings_of(settings, WIDER) == []
    heal(spark, settings, [1, 2, 3], WIDER)
    assert silver(settings) == before
    assert delta.version(settings.path("silver", "readings")) == version
    proof = rebuild(runner(spark, settings, WIDER))
    assert (proof.gained, proof.lost) == (0, 0)


@pytest.mark.exhaustive(seconds=15)
@pytest.mark.parametrize("point", RESTORING)
def test_killed_while_a_lost_log_is_restored(spark, lake, point):
    decided = {d.decision_id for d in logs.decisions(lake, "readings")}
    shutil.rmtree(lake.path("ops", "decisions"))
    shutil.rmtree(lake.path("ops", "extractions"))
    with pytest.raises(Killed):
        restore_logs(runner(None, lake, WIDER, kill_at(point)))
    restore_logs(runner(None, lake, WIDER))
    assert {d.decision_id for d in logs.decisions(lake, "readings")} == decided
    if point == "decisions_restored":
        next_run_repeats_nothing(spark, lake)
    assert ledger.unapplied_decisions(logs.decisions(lake, "readings")) == []
    assert findings_of(lake, WIDER) == []


def test_lost_marks_of_completed_runs_are_noticed_and_restored(spark, lake):
    """Decisions without marks of runs that later ones followed: applied again, they would bring old rows back for a while."""
    without_marks(lake)
    noticed = findings_of(lake, WIDER)
    assert {(f.layer, f.kind) for f in noticed} == {("ops/decisions", "older")}
    assert "has no mark" in noticed[0].message
    assert "--restore-logs" in noticed[0].mend
    restore_logs(runner(None, lake, WIDER))
    assert findings_of(lake, WIDER) == []
    # The last run may have been killed before its mark: it is completed as any other.
    assert [d.number for d in ledger.unapplied_decisions(logs.decisions(lake, "readings"))] == [4]
    before = silver(lake)
    heal(spark, lake, [1, 2, 3], WIDER)
    assert silver(lake) == before
    assert ledger.unapplied_decisions(logs.decisions(lake, "readings")) == []


@pytest.mark.exhaustive(seconds=18)
def test_decisions_that_an_older_silver_lacks_are_applied(spark, lake):
    """Quarantine's commits have them all; a mark for those that silver does not have would hide that their rows are missing."""
    before = silver(lake)
    shutil.rmtree(lake.path("ops", "decisions"))
    shutil.rmtree(lake.path("silver", "readings"))
    shutil.move(lake.dagster_home / "older", lake.path("silver", "readings"))
    restore_logs(runner(None, lake, WIDER))
    assert [d.number for d in ledger.unapplied_decisions(logs.decisions(lake, "readings"))] == [3, 4]
    assert findings_of(lake, WIDER) == []
    heal(spark, lake, [1, 2, 3], WIDER)
    assert silver(lake) == before
    proof = rebuild(runner(spark, lake, WIDER))
    assert (proof.gained, proof.lost) == (0, 0)


def unknown_decisions(settings: Settings) -> None:
    """A lake whose commits and rows name two decisions that nothing contains."""
    batch = {"p_extracted_at": pa.array([AT], pa.timestamp("us", "UTC")), "extraction_seq": [1]}
    lost = pa.table({"decision_id": ["old"], **batch})
    delta.append_arrow(lost, settings.path("quarantine", "readings"))
    delta.append_arrow(lost, settings.path("silver", "readings"), user_metadata=delta.commit_metadata_of(["older"], "silver"))


@pytest.mark.parametrize("point", GIVING_UP)
def test_killed_while_decisions_are_given_up(settings, point):
    """Whatever was done before the kill: the loss is on record once, its rows are gone, and silver is folded anew."""
    unknown_decisions(settings)
    with pytest.raises(Killed):
        restore_logs(runner(None, settings, SPEC, kill_at(point)), LOSS)
    restore_logs(runner(None, settings, SPEC), LOSS)
    entries = [row for row in rows_of(settings.path("ops", "decisions")) if row["event"] == "given_up"]
    assert sorted(row["decision_id"] for row in entries) == ["old", "older"]
    assert rows_of(settings.path("quarantine", "readings")) == []
    assert delta.properties(settings.path("silver", "readings"))[delta.MEANING] == "none"
    assert findings_of(settings, SPEC) == []
    assert restore_logs(runner(None, settings, SPEC), LOSS).given_up == 0


def test_until_the_loss_is_on_record_the_table_stops(settings):
    unknown_decisions(settings)
    with pytest.raises(Killed):
        restore_logs(runner(None, settings, SPEC, kill_at("silver_marked")), LOSS)
    assert [finding.layer for finding in findings_of(settings, SPEC)] == ["ops/decisions"]
    assert [row["decision_id"] for row in rows_of(settings.path("quarantine", "readings"))] == ["old"]


def test_a_repeated_loss_leaves_the_rows_of_a_decision_that_was_made_again(settings):
    """A window that is judged again after a loss may get a decision of the same number, and so of the same id."""
    unknown_decisions(settings)
    restore_logs(runner(None, settings, SPEC), LOSS)
    decision = logbook.decided(1, verdict="quarantined")
    logs.log_decisions(settings, [decision])
    log_abandoned(settings, "readings", [decision.decision_id], run_id="r", by="ann", because="a test", at=AT)
    batch = {"p_extracted_at": pa.array([AT], pa.timestamp("us", "UTC")), "extraction_seq": [1]}
    delta.append_arrow(pa.table({"decision_id": [decision.decision_id], **batch}), settings.path("quarantine", "readings"))
    assert restore_logs(runner(None, settings, SPEC), LOSS).given_up == 0
    assert [row["decision_id"] for row in rows_of(settings.path("quarantine", "readings"))] == [decision.decision_id]
