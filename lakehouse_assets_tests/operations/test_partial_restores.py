"""Each table of `ops/` besides decisions and extractions is lost, older than the rest, or lacks a data file.

Belongs here: what is noticed, and that the way out that it names ends it. Does not: decisions (test_restore_logs_killed), or
damage of bronze, silver and quarantine (pipeline/test_evidence).
"""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakehouse_assets.contracts.decision import Counts, ExtractionRecord
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets.errors import EvidenceError
from lakehouse_assets.operations import baseline
from lakehouse_assets.operations.restore_logs import restore_logs
from lakehouse_assets.pipeline.evidence import findings_of
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.audit_log import AUDITS, append_audit, read_audits
from lakehouse_assets.storage.baseline import BaselineEvent, baseline_events, log_baseline_event, write_profiles
from lakehouse_assets.storage.check_results import project_check_results
from lakehouse_assets.storage.source_positions import read_positions
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.audited import firms
from lakehouse_assets_tests.e2e.servers import Database, postgres_server
from lakehouse_assets_tests.support import readings, rows_of, runner, window

ORDERS = TableSpec.model_validate(
    {
        "name": "orders",
        "source": {
            "kind": "jdbc", "connection": "SHOP", "table": "shop.orders", "modified": "updated_at", "history": "watermark",
            "overlap_minutes": 0,
        },
        "extraction": {"cadence": "daily", "start": "2024-01-01", "end": "2024-01-05", "mode": "upsert"},
        "key": ["id"],
        "last_modified": "updated_at",
        "columns": {"id": "bigint", "updated_at": "timestamp"},
        "checks": [{"check": "not_null", "column": "id"}],
    }
)  # fmt: skip
AT = datetime(2024, 6, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def database():
    with postgres_server() as database:
        yield database


def put(database: Database, **days: int) -> None:
    values = ", ".join(f"({number}, '2024-01-0{day[1:]}T05:00Z')" for day, number in days.items())
    database.run(f"INSERT INTO shop.orders VALUES {values}")


@pytest.fixture(scope="module")
def orders(spark, database, tmp_path_factory) -> Settings:
    """A lake of two windows of a source that keeps no history; `older` has its logs of before the second."""
    database.run("CREATE SCHEMA shop", "CREATE TABLE shop.orders (id bigint, updated_at timestamptz)")
    home = tmp_path_factory.mktemp("orders")
    settings = Settings(
        root=str(home / "lake"), landing=str(home), dagster_home=home, spark_master="local[2]",
        jdbc={"SHOP": database.connection()},
    )  # fmt: skip
    for day in (1, 2):
        if day == 2:
            shutil.copytree(home / "lake" / "ops", home / "older")
        put(database, **{f"d{day}": day})
        run = runner(spark, settings, ORDERS)
        extract(run, [window(day)])
        publish(run, [window(day)])
    return settings


@pytest.fixture
def lake(orders, tmp_path) -> Settings:
    shutil.copytree(orders.dagster_home, tmp_path / "copy")
    return orders.model_copy(update={"root": str(tmp_path / "copy" / "lake"), "dagster_home": tmp_path / "copy"})


def lose(settings: Settings, log: str) -> None:
    shutil.rmtree(settings.path("ops", log))


def put_older_back(settings: Settings, log: str) -> None:
    lose(settings, log)
    shutil.copytree(settings.dagster_home / "older" / log, settings.path("ops", log))


def lose_files(settings: Settings, log: str) -> None:
    for path in Path(settings.path("ops", log)).rglob("*.parquet"):
        path.unlink()


def lose_every_log(settings: Settings, log: str) -> None:
    shutil.rmtree(settings.path("ops"))


POSITIONS: dict[Callable[[Settings, str], None], tuple[str, str]] = {
    lose: ("ops/positions", "lost"),
    put_older_back: ("ops/positions", "older"),
    lose_files: ("ops/positions", "files"),
    lose_every_log: ("ops/decisions", "lost"),
}


@pytest.mark.parametrize("damage", POSITIONS)
def test_positions(lake, damage):
    """Without them, the next window would read everything once more, as rows of its own."""
    before = read_positions(lake, "orders")
    assert [start.day for start in before] == [2, 1]
    damage(lake, "positions")
    noticed = findings_of(lake, ORDERS)
    assert POSITIONS[damage] in {(finding.layer, finding.kind) for finding in noticed}
    with pytest.raises(EvidenceError, match="verify --table orders --restore-logs"):
        extract(runner(None, lake, ORDERS), [window(3)])
    restore_logs(runner(None, lake, ORDERS))
    assert read_positions(lake, "orders") == before
    assert findings_of(lake, ORDERS) == []
    assert restore_logs(runner(None, lake, ORDERS)).positions == 0


def test_after_their_restoration_a_window_reads_what_came_since(spark, lake, database):
    lose(lake, "positions")
    restore_logs(runner(None, lake, ORDERS))
    put(database, d3=3)
    run = runner(spark, lake, ORDERS)
    extract(run, [window(3)])
    publish(run, [window(3)])
    bronze = rows_of(lake.path("bronze", "orders"), ["p_extracted_at", "id"])
    assert sorted((row["p_extracted_at"].day, row["id"]) for row in bronze) == [(1, "1"), (2, "2"), (3, "3")]


DRIFT = readings(checks=[], drift={"features": ["value"]})


def learned(settings: Settings, day: int) -> None:
    """A window without a row joins the baseline."""
    logs.record_extractions(settings, [ExtractionRecord("readings", window(day).start, 1, "f", 0, (), 0, "run", AT)])
    values = {"verdict": "published", "counts": Counts(), "reasons": (), "teaches": True, "ruleset": DRIFT.ruleset()}
    profile = Profile("value", None, 3, nulls=3)
    decision = logbook.decided(day, profiles=(profile.to_dict(),), drift={"statistics": []}, **values)
    logs.log_decisions(settings, [decision])
    write_profiles(settings, "readings", [decision])
    logs.mark_applied(settings, [decision], None, AT)


@pytest.mark.parametrize("older", [True, False], ids=["older", "lost"])
def test_baseline_requests(settings, tmp_path, older):
    """A pin or a reset is in no commit: noticed by the profiles that were written after it, and repeated by a person."""

    def log(kind, second: int) -> None:
        moment = datetime(2024, 5, 1, 0, 0, second, tzinfo=UTC)
        log_baseline_event(settings, BaselineEvent("readings", kind, 0, moment, "ann", "because", "run", {"windows": 1}))

    log("reset", 1)
    shutil.copytree(settings.path("ops", "baselines"), tmp_path / "older")
    log("pin", 2)
    learned(settings, 1)
    lose(settings, "baselines")
    if older:
        shutil.copytree(tmp_path / "older", settings.path("ops", "baselines"))
    findings = [f for f in findings_of(settings, DRIFT) if f.layer == "ops/baselines"]
    assert [finding.kind for finding in findings] == ["older" if older else "lost"]
    assert not findings[0].stops
    assert "lakehouse baseline reset readings" in findings[0].mend
    baseline.reset(runner(None, settings, DRIFT), by="ann", because="the pin was lost")
    assert [f for f in findings_of(settings, DRIFT) if f.layer == "ops/baselines"] == []
    assert baseline_events(settings, "readings")[-1].kind == "reset"


def test_audits(settings):
    """They decide nothing. Lost, they are gone from the history, and the next audit is recorded as ever."""
    append_audit(settings, firms())
    lose_files(settings, "audits")
    assert findings_of(settings, readings()) == []
    with pytest.raises(EvidenceError, match=r"put it back from a backup, or move .*ops/audits away"):
        read_audits(settings)
    shutil.rmtree(AUDITS.path(settings))
    assert read_audits(settings) == []
    append_audit(settings, firms())
    assert len(read_audits(settings)) == 1


@pytest.mark.parametrize("damage", [lose, lose_files], ids=["lost", "files"])
def test_check_results(settings, damage):
    """They are made again from the decisions, lost as a whole or in part."""
    for day in (1, 2):
        logbook.write(settings, [logbook.decided(day, checks=(logbook.outcome("not_empty"),))])
        assert project_check_results(settings, "readings") == 1
    before = rows_of(settings.path("ops", "check_results"))
    damage(settings, "check_results")
    assert not any("check_results" in finding.layer for finding in findings_of(settings, readings()))
    assert project_check_results(settings, "readings") == 2
    assert rows_of(settings.path("ops", "check_results")) == before
