"""SIGKILL between each two steps of extracting, deciding and exchanging: the next run gives the clean run's tables."""

import os
import subprocess
import sys

import pytest

from lakehouse_assets.decisions import ledger
from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.chaos.play import POINTS
from lakehouse_assets_tests.laws.child import jvm_of
from lakehouse_assets_tests.laws.scene import DAYS, arrives, before, scene
from lakehouse_assets_tests.support import copy_lake, heal, lake_settings, rows_of, runner, silver

STEPS = [point for point in POINTS["run"] if not point.endswith("+")]
# Struck in `make test`: between silver and the marks of it. The others are left to `make test-all`; a new step is among them,
# and CI's slice draws it in its turn.
ALWAYS = "write_done"


def tables(settings: Settings) -> dict[str, object]:
    """All that must be equal in the end; ids of runs and times of day are not."""
    decided = logs.decisions(settings, "readings")
    current = ledger.current_decisions(decided)
    bronze = rows_of(settings.path("bronze", "readings"), ["p_extracted_at", "extraction_seq", "_content_hash"])
    quarantined_rows = rows_of(
        settings.path("quarantine", "readings"), ["p_extracted_at", "extraction_seq", "_content_hash", "decision_id"]
    )
    profiles = rows_of(settings.path("baseline", "readings"), ["p_extracted_at", "extraction_seq", "feature", "rows", "mean"])
    checked = ["p_extracted_at", "extraction_seq", "number", "check", "status", "effect", "failed_rows", "message", "observed"]
    return {
        "results": rows_of(settings.path("ops", "check_results"), checked),
        "silver": silver(settings),
        "bronze": bronze,
        "quarantine": quarantined_rows,
        "profiles": profiles,
        "verdicts": {batch: (d.verdict, d.counts, d.superseded_by is not None) for batch, d in current.items()},
        "unapplied": len(ledger.unapplied_decisions(decided)),
    }


@pytest.fixture(scope="module")
def began(spark, tmp_path_factory) -> Settings:
    """The lake before the run that is killed, made once and copied for each step (a copy keeps the files' times)."""
    settings = lake_settings(tmp_path_factory.mktemp("kill") / "began")
    before(spark, settings)
    arrives(settings)
    return settings


@pytest.fixture(scope="module")
def clean(spark, began, tmp_path_factory):
    """The tables of a run that nobody disturbed."""
    settings = copy_lake(began, tmp_path_factory.mktemp("clean") / "clean")
    heal(spark, settings, DAYS, scene())
    return tables(settings)


@pytest.mark.parametrize(
    ("step", "with_its_jvm"),
    [
        *(pytest.param(s, False, id=s, marks=[] if s == ALWAYS else [pytest.mark.exhaustive(seconds=30)]) for s in STEPS),
        pytest.param(ALWAYS, True, id="with_its_jvm", marks=pytest.mark.exhaustive(seconds=50)),
    ],
)
def test_killed_at(step, with_its_jvm, spark, tmp_path, began, clean):
    """The process is killed, and its JVM with it where that is its own: elsewhere it has a session in the test's."""
    here = copy_lake(began, tmp_path / step)
    child = subprocess.run(
        [sys.executable, "-m", "lakehouse_assets_tests.laws.child", str(here.dagster_home), step],
        env=os.environ | ({} if with_its_jvm else jvm_of(spark)),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert child.returncode == -9, child.stderr[-2000:]
    was = silver(here)
    decided = {d.batch for d in logs.decisions(here, "readings")}
    # No early publish: what stands in silver has its decision.
    assert {(row["p_extracted_at"], row["extraction_seq"]) for row in was} <= decided
    heal(spark, here, DAYS, scene())
    assert tables(here) == clean
    rebuilt = rebuild(runner(spark, here, scene()))
    assert (rebuilt.gained, rebuilt.lost) == (0, 0)
    heal(spark, here, DAYS, scene())
    assert tables(here) == clean
