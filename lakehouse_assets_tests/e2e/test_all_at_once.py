"""The daemon, two `lakehouse run` and a release at once on one lake, each a process of its own: nothing lost, nothing twice.

Belongs here: one lake that all of them write at the same time. Does not: processes that are killed (laws/test_kill_operations).
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.dagster_run import FINISHED_STATUSES

from lakehouse_assets.decisions import ledger
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs
from lakehouse_assets_tests.browser.demo import EXAMPLES, dagster_dev, environment, wait
from lakehouse_assets_tests.support import PROJECT_ROOT, rows_of

FIRST, LATER = range(1, 4), range(4, 8)
DAMAGED = 3
RELEASE = ("quarantine", "release", "weather", "--window", f"2013-01-{DAMAGED:02d}", "--override", "*", "--because", "right")


def land(settings: Settings, days: range) -> None:
    """Land days of January. The damaged one has a row that a critical check refuses."""
    folder = Path(settings.landing, "weather")
    folder.mkdir(parents=True, exist_ok=True)
    for day in days:
        lines = (EXAMPLES / "weather" / "on_time" / f"2013-01-{day:02d}.csv").read_text().splitlines()
        if day == DAMAGED:
            lines[1] = spoiled(lines[0], lines[1])
        (folder / f"2013-01-{day:02d}.csv").write_text("\n".join(lines) + "\n")


def spoiled(header: str, line: str) -> str:
    """The row with a pressure that no place on earth has."""
    cells = line.split(",")
    cells[header.split(",").index("pressure")] = "9999"
    return ",".join(cells)


def start(variables: dict[str, str], *command: str) -> subprocess.Popen:
    """A command of the shell that runs beside the others."""
    script = str(Path(sys.executable).parent / "lakehouse")
    return subprocess.Popen(
        [script, *command], env=variables, cwd=PROJECT_ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen) -> str:
    """Its output, once it has ended well."""
    output, progress = process.communicate(timeout=900)
    assert process.returncode == 0, output + progress
    return output


@pytest.mark.exhaustive(seconds=240)
@pytest.mark.timeout(1500)
def test_the_daemon_two_runs_and_a_release_at_once(tmp_path):
    variables = environment(tmp_path)
    settings = Settings.from_environment(variables)
    land(settings, FIRST)
    finish(start(variables, "run", "--table", "weather"))
    [quarantined] = ledger.quarantined_decisions(logs.decisions(settings, "weather"))
    assert quarantined.p_extracted_at and quarantined.p_extracted_at.day == DAMAGED
    land(settings, LATER)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance, dagster_dev(variables, tmp_path / "dev.log"):
        together = [start(variables, *command) for command in (("run", "--table", "weather"), RELEASE, ("run",))]
        for process in together:
            finish(process)

        def is_quiet() -> bool:
            current = ledger.current_decisions(logs.decisions(settings, "weather")).values()
            applied_days = {d.p_extracted_at.day for d in current if d.applied_at and d.p_extracted_at}
            return applied_days == {*FIRST, *LATER} and all(run.status in FINISHED_STATUSES for run in instance.get_runs())

        assert wait(is_quiet, 600), (tmp_path / "dev.log").read_text()[-3000:]
        assert not [run for run in instance.get_runs() if run.status is dg.DagsterRunStatus.FAILURE]
    decisions = logs.decisions(settings, "weather")
    judged = Counter((d.batch, d.kind) for d in decisions)
    expected = {(d, 1, "judged"): 1 for d in (*FIRST, *LATER)} | {(DAMAGED, 1, "released"): 1}
    assert {(start.day, seq, kind): count for ((start, seq), kind), count in judged.items()} == expected
    bronze = Counter((row["p_extracted_at"], row["extraction_seq"]) for row in rows_of(settings.path("bronze", "weather")))
    for decision in decisions:
        counts = decision.counts
        parts = (counts.rows_published, counts.rows_superseded, counts.rows_quarantined, counts.rows_discarded)
        assert counts.rows_in == sum(parts) == bronze[decision.batch]
    published = sum(d.counts.rows_published for d in ledger.current_decisions(decisions).values())
    assert published == len(rows_of(settings.path("silver", "weather")))
    [rebuilt] = json.loads(finish(start(variables, "rebuild", "weather", "--json")))
    assert (rebuilt["gained"], rebuilt["lost"]) == (0, 0)
    finish(start(variables, "verify", "--rows"))
