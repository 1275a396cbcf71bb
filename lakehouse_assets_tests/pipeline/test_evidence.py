"""Damaged lakes: a scene is made once and copied for each damage; the guard raises before Spark does anything.

Belongs here: damage on real Delta folders, and what mends it. Does not: the comparison case by case (decisions).
"""

import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.evidence.findings import Finding
from lakehouse_assets.errors import EvidenceError
from lakehouse_assets.operations import baseline
from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.operations.restore_logs import restore_logs
from lakehouse_assets.pipeline.evidence import findings_of, hold_without_baseline, refuse_damaged
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.mend import mend
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets.queries.row_hashes import compare_row_hashes
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.baseline_state import read_baseline
from lakehouse_assets_tests.support import heal, land, readings, rows_of, runner, silver, window

SPEC = readings(drift={"features": ["value"]})
DAYS = [1, 2, 3, 4, 5]


@pytest.fixture(scope="module")
def scene(spark, tmp_path_factory) -> tuple[Settings, dict[str, Path]]:
    """A lake: day 1 delivered twice with a bad row in the first, day 3 with a bad row, day 4 empty and held, day 5 held whole.
    And older copies of its tables, of before the second run.
    """
    home = tmp_path_factory.mktemp("evidence")
    (home / "landing").mkdir()
    settings = Settings(root=str(home / "lake"), landing=str(home / "landing"), dagster_home=home, spark_master="local[2]")
    land(settings, 1, ["a,1,10,2024-01-01T01:00:00Z", "b,1,11,2024-01-01T01:00:00Z", "c,1,500,2024-01-01T01:00:00Z"])
    land(settings, 2, ["a,2,20,2024-01-02T01:00:00Z"])
    heal(spark, settings, [1, 2], SPEC)
    shutil.copytree(home / "lake", home / "older")
    land(settings, 1, ["a,1,12,2024-01-01T02:00:00Z", "b,1,11,2024-01-01T01:00:00Z"])
    land(settings, 3, ["a,3,30,2024-01-03T01:00:00Z", "c,3,500,2024-01-03T01:00:00Z"])
    land(settings, 4, [])
    land(settings, 5, ["a,5,50,2024-01-05T01:00:00Z", "a,5,51,2024-01-05T01:00:00Z"])
    heal(spark, settings, DAYS, SPEC)
    return settings, {"older": home / "older"}


@pytest.fixture
def lake(scene, tmp_path) -> Settings:
    """A copy of the scene's lake."""
    settings, _ = scene
    shutil.copytree(settings.dagster_home / "lake", tmp_path / "lake")
    shutil.copytree(settings.dagster_home / "landing", tmp_path / "landing")
    return settings.model_copy(
        update={"root": str(tmp_path / "lake"), "landing": str(tmp_path / "landing"), "dagster_home": tmp_path}
    )


def no_session():
    raise AssertionError("the guard needs no Spark")


def times_of(settings: Settings) -> dict[Path, int]:
    files = [path for path in Path(settings.root).rglob("*") if path.is_file() and "_locks" not in path.parts]
    return {path: path.stat().st_mtime_ns for path in files}


def lose(settings: Settings, *parts: str) -> None:
    shutil.rmtree(settings.path(*parts))


def lose_last_commit(settings: Settings, layer: str) -> None:
    log = Path(settings.path(layer, "readings"), "_delta_log")
    for entry in [sorted(log.glob("*.json"))[-1], *log.glob("*.crc")]:
        entry.unlink()


def lose_file(settings: Settings, *parts: str) -> None:
    min(Path(file) for file in DeltaTable(settings.path(*parts)).file_uris()).unlink()


def cut_file(settings: Settings, layer: str) -> None:
    path = min(Path(file) for file in DeltaTable(settings.path(layer, "readings")).file_uris())
    path.write_bytes(path.read_bytes()[:-100])


def put_back_older(settings: Settings, older: Path, *parts: str) -> None:
    lose(settings, *parts)
    shutil.copytree(older.joinpath(*parts), settings.path(*parts))


def write_again(settings: Settings, *parts: str, run_id: str | None = None) -> None:
    """As a second writer does that knows nothing of the first. ``run_id``: in the place of the first one's."""
    path = settings.path(*parts)
    rows = DeltaTable(path).to_pyarrow_table()
    if run_id:
        run_ids = pa.array([run_id] * rows.num_rows, pa.string())
        rows = rows.set_column(rows.column_names.index("run_id"), "run_id", run_ids)
    delta.append_arrow(rows, path, partition_by=DeltaTable(path).metadata().partition_columns)


def break_log(settings: Settings, layer: str) -> None:
    log = Path(settings.path(layer, "readings"), "_delta_log")
    min(log.glob("*.json")).write_text("{not json")
    for entry in log.glob("*checkpoint*"):
        entry.unlink()


DAMAGE: dict[str, tuple[Callable[[Settings, Path], None], str, str]] = {
    "bronze lost": (lambda s, _: lose(s, "bronze", "readings"), "bronze", "lost"),
    "bronze's last commit": (lambda s, _: lose_last_commit(s, "bronze"), "bronze", "fewer"),
    "an older bronze": (lambda s, old: put_back_older(s, old, "bronze", "readings"), "bronze", "fewer"),
    "a file of bronze": (lambda s, _: lose_file(s, "bronze", "readings"), "bronze", "files"),
    "a cut file of bronze": (lambda s, _: cut_file(s, "bronze"), "bronze", "files"),
    "bronze's log": (lambda s, _: break_log(s, "bronze"), "bronze", "unreadable"),
    "bronze doubled": (lambda s, _: write_again(s, "bronze", "readings"), "bronze", "more"),
    "quarantine lost": (lambda s, _: lose(s, "quarantine", "readings"), "quarantine", "lost"),
    "quarantine's last commit": (lambda s, _: lose_last_commit(s, "quarantine"), "quarantine", "fewer"),
    "a file of quarantine": (lambda s, _: lose_file(s, "quarantine", "readings"), "quarantine", "files"),
    "quarantine doubled": (lambda s, _: write_again(s, "quarantine", "readings"), "quarantine", "more"),
    "silver lost": (lambda s, _: lose(s, "silver", "readings"), "silver", "lost"),
    "silver's last commit": (lambda s, _: lose_last_commit(s, "silver"), "silver", "older"),
    "an older silver": (lambda s, old: put_back_older(s, old, "silver", "readings"), "silver", "older"),
    "a file of silver": (lambda s, _: lose_file(s, "silver", "readings"), "silver", "files"),
    "silver doubled": (lambda s, _: write_again(s, "silver", "readings"), "silver", "more"),
    "decisions lost": (lambda s, _: lose(s, "ops", "decisions"), "ops/decisions", "lost"),
    "older decisions": (lambda s, old: put_back_older(s, old, "ops", "decisions"), "ops/decisions", "older"),
    "a file of decisions": (lambda s, _: lose_file(s, "ops", "decisions"), "ops/decisions", "files"),
    "decisions doubled": (lambda s, _: write_again(s, "ops", "decisions", run_id="other"), "ops/decisions", "doubled"),
    "extractions lost": (lambda s, _: lose(s, "ops", "extractions"), "ops/extractions", "lost"),
    "older extractions": (lambda s, old: put_back_older(s, old, "ops", "extractions"), "ops/extractions", "older"),
}


def test_a_repeated_log_commit_is_no_damage(lake):
    """As after a lost reply: the same rows of the same run."""
    write_again(lake, "ops", "decisions")
    assert findings_of(lake, SPEC) == []


def test_an_undamaged_lake_has_no_findings(lake):
    assert findings_of(lake, SPEC) == []


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_stops_the_table_before_spark_starts(name, lake, scene):
    harm, location, kind = DAMAGE[name]
    harm(lake, scene[1]["older"])
    before = times_of(lake)
    alarms: list[list[Finding]] = []
    run = replace(runner(None, lake, SPEC), session=no_session, alarm=lambda findings: alarms.append(list(findings)))
    with pytest.raises(EvidenceError, match="Mend: ") as caught:
        publish(run, [window(day) for day in DAYS])
    assert location in str(caught.value)
    assert (location, kind) in {(finding.layer, finding.kind) for finding in alarms[0]}
    if location != "silver":
        with pytest.raises(EvidenceError):
            rebuild(run)
    if location.startswith("ops/"):
        with pytest.raises(EvidenceError):
            extract(run, [window(day) for day in DAYS])
    assert times_of(lake) == before, "nothing is changed"


@pytest.mark.parametrize("harm", ["silver lost", pytest.param("a file of silver", marks=pytest.mark.exhaustive(seconds=10))])
def test_rebuild_restores_silver(harm, lake, scene, spark):
    expected = silver(lake)
    DAMAGE[harm][0](lake, scene[1]["older"])
    rebuilt = rebuild(runner(spark, lake, SPEC))
    assert (rebuilt.rows, rebuilt.gained) == (len(expected), len(expected))
    assert silver(lake) == expected
    assert findings_of(lake, SPEC) == []


def test_bronze_and_quarantine_are_restored(lake, scene, spark):
    bronze, quarantined_rows = (rows_of(lake.path(layer, "readings")) for layer in ("bronze", "quarantine"))
    DAMAGE["a file of bronze"][0](lake, scene[1]["older"])
    lose(lake, "bronze", "readings")
    lose(lake, "quarantine", "readings")
    damage = findings_of(lake, SPEC)
    assert mend(runner(spark, lake, SPEC)).findings == len(damage) > 0
    # The first delivery of day 1 is replaced: its source is gone, and nothing needs it.
    assert findings_of(lake, SPEC) == []
    other_rows = [row for row in bronze if (row["p_extracted_at"], row["extraction_seq"]) != (window(1).start, 1)]
    assert rows_of(lake.path("bronze", "readings")) == other_rows
    needed = {d.decision_id for d in ledger.quarantined_decisions(logs.decisions(lake, "readings"))}
    assert rows_of(lake.path("quarantine", "readings")) == [row for row in quarantined_rows if row["decision_id"] in needed]
    assert (rebuild(runner(spark, lake, SPEC)).gained, findings_of(lake, SPEC)) == (0, [])
    assert compare_row_hashes(lake, SPEC, spark) == []
    strange = DeltaTable(lake.path("bronze", "readings")).to_pyarrow_table().slice(0, 1)
    changed = pa.array(["another"], strange.schema.field("value").type)
    strange = strange.set_column(strange.schema.get_field_index("value"), strange.schema.field("value"), changed)
    delta.append_arrow(strange, lake.path("bronze", "readings"), partition_by=["p_extracted_at"])
    (finding,) = compare_row_hashes(lake, SPEC, spark)
    assert finding.layer == "bronze" and "1 row(s) have values that their hash does not fit" in finding.message


def test_profiles_are_restored_from_the_decisions(lake):
    columns = ["decision_id", "feature", "rows", "mean", "sketch", "statistics"]
    expected = rows_of(lake.path("baseline", "readings"), columns)
    joined = {d.decision_id for d in ledger.joined_decisions(logs.decisions(lake, "readings"), 99)[0]}
    for harm in (lambda: lose(lake, "baseline", "readings"), lambda: lose_file(lake, "baseline", "readings")):
        harm()
        run = replace(runner(None, lake, SPEC), session=no_session)
        refuse_damaged(run)
        profile_rows = rows_of(lake.path("baseline", "readings"), columns)
        assert [row for row in profile_rows if row["decision_id"] in joined] == [
            r for r in expected if r["decision_id"] in joined
        ]
        assert hold_without_baseline(run, logs.decisions(lake, "readings"), {}) == {}


def test_mended_profiles_are_counted(lake, spark):
    lose_file(lake, "baseline", "readings")
    damage = findings_of(lake, SPEC)
    assert all("lakehouse verify --table readings --mend" in finding.mend for finding in damage)
    mended = mend(runner(spark, lake, SPEC))
    assert (mended.findings, mended.extractions, findings_of(lake, SPEC)) == (len(damage), 0, [])
    assert mend(runner(spark, lake, SPEC)).findings == 0


def test_doubled_profiles_in_a_file_of_several_decisions_are_restored(lake):
    path, columns = lake.path("baseline", "readings"), ["decision_id", "feature", "rows", "mean", "sketch", "statistics"]
    expected, rows = rows_of(path, columns), delta.read_arrow(path)
    assert len(set(rows["decision_id"].to_pylist())) > 1
    decision = ledger.joined_decisions(logs.decisions(lake, "readings"), 99)[0][0]
    doubled = rows.filter(pc.field("decision_id") == decision.decision_id)
    write_deltalake(path, pa.concat_tables([rows, doubled]), mode="overwrite")
    run = replace(runner(None, lake, SPEC), session=no_session)
    assert findings_of(lake, SPEC) != []
    refuse_damaged(run)
    assert findings_of(lake, SPEC) == []
    assert rows_of(path, columns) == expected
    assert len(read_baseline(lake, SPEC, logs.decisions(lake, "readings"), 99).history) > 0


RESTORED = (
    "decision_id", "batch", "number", "kind", "verdict", "counts", "ruleset", "bronze_version", "baseline_version", "run_id",
    "decided_at", "teaches", "waived", "by", "because", "superseded_by", "inputs", "evolved", "silver_version",
)  # fmt: skip


def test_lost_logs_are_restored_from_the_tables_commits(lake):
    def stored_fields(decision):
        reasons = [(r.check, r.severity, r.status, r.effect, r.rows) for r in decision.reasons]
        return [getattr(decision, name) for name in RESTORED] + [reasons, decision.applied_at is None]

    def recorded(record):
        columns = record.columns if record.rows else ()  # bronze has them by its rows
        return (record.p_extracted_at, record.extraction_seq, record.fingerprint, record.rows, columns, record.lacking)

    decisions, extractions = logs.decisions(lake, "readings"), logs.extractions(lake, "readings")
    lose(lake, "ops", "decisions")
    lose(lake, "ops", "extractions")
    run = replace(runner(None, lake, SPEC), session=no_session)
    restored = restore_logs(run)
    assert (restored.decisions, restored.extractions, restored.gaps) == (len(decisions), len(extractions), [])
    log_decisions = logs.decisions(lake, "readings")
    touched = {d.decision_id for d in decisions if d.counts.rows_published}
    for old, new in zip(decisions, log_decisions, strict=True):
        was, becomes = stored_fields(old), stored_fields(new)
        assert becomes[:-3] == was[:-3] and becomes[-2:] == was[-2:]
        assert becomes[-3] == was[-3] or was[0] not in touched
    assert [recorded(r) for r in logs.extractions(lake, "readings")] == [recorded(r) for r in extractions]
    assert findings_of(lake, SPEC) == []
    assert restore_logs(run).decisions == 0


LEVELS = {"hold_at": 0.05, "hold_from": 20, "warn_at": 0.05, "warn_from": 20}
DRIFTING = readings(checks=[], drift={**LEVELS, "sketch_k": 256, "lasting_at": 0, "remember": 40, "features": ["value"]})


@pytest.mark.exhaustive(seconds=15)
def test_a_lost_baseline_is_no_cold_start(spark, settings):
    def arrives(days, shift=0.0):
        for day in days:
            dice = random.Random(day)
            rows = [f"s{n},{n % 24},{dice.gauss(10 + shift, 1):.4f},2024-01-{day:02d}T00:00:00Z" for n in range(100)]
            land(settings, day, rows)

    arrives(range(1, 22))
    heal(spark, settings, range(1, 22), DRIFTING)
    lose(settings, "baseline", "readings")
    arrives([22], shift=1.5)
    (decision,) = heal(spark, settings, [22], DRIFTING).new
    assert (decision.verdict, decision.drift_p_value is not None) == ("quarantined", True)
    # Brought back from commits, decisions no longer have their profiles; the baseline has.
    lose(settings, "ops", "decisions")
    restore_logs(runner(spark, settings, DRIFTING))
    assert findings_of(settings, DRIFTING) == []
    lose(settings, "baseline", "readings")
    arrives([23])
    (decision,) = heal(spark, settings, [23], DRIFTING).new
    assert decision.verdict == "quarantined"
    (reason,) = [r for r in decision.reasons if r.check == "drift"]
    assert (reason.status, reason.effect) == ("error", "batch") and "baseline reset readings" in reason.message
    baseline.reset(runner(spark, settings, DRIFTING), by="ann", because="it is lost")
    assert findings_of(settings, DRIFTING) == []
