"""The wheel in an environment elsewhere, and Dagster projects of somebody's own there.

Belongs here: docs/project.md as it stands, `dg`, an installed package. Does not: definitions in this process
(orchestration/test_user_project).
"""

import json
import os
import re
import signal
import subprocess
import time
import urllib.request
import zipfile
from pathlib import Path

import pytest
import yaml

from lakehouse_assets.orchestration.workers.pool import POOL_FOLDER, WorkerPool
from lakehouse_assets_tests.browser.demo import answers, members, wait
from lakehouse_assets_tests.browser.ui import MISSING, browser
from lakehouse_assets_tests.e2e.installed import CREATE_DAGSTER, Installed, add_extensions, blocks, existing_project
from lakehouse_assets_tests.e2e.servers import free_port
from lakehouse_assets_tests.support import rows_of

DATA_FILES = {
    "audits/default.yaml", "checks/sql/spark_functions.txt", "contracts/project_files/dagster.yaml",
    "contracts/project_files/pyproject.txt", "reports/audit_pages/base.html.j2", "storage/log4j2.properties",
}  # fmt: skip
# A table of the source kind of docs/extensions.md, with the check kind of that page.
TICKS = """\
type: lakehouse_assets.LakehouseTable
attributes:
  name: ticks
  source: {kind: clock, stopped_at: "2024-05-03"}
  extraction: {cadence: daily, start: 2024-05-01}
  key: [start]
  columns: {start: string}
  checks:
    - {check: upper_case, column: start}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Installed:
    return Installed(tmp_path_factory.mktemp("elsewhere"))


@pytest.mark.exhaustive(seconds=90)
def test_a_new_project_by_the_pages_commands(installed):
    names = {name.removeprefix("lakehouse_assets/") for name in zipfile.ZipFile(installed.wheel).namelist()}
    assert names >= DATA_FILES
    assert not [name for name in names if name.startswith(("tables/", "lakehouse_assets_tests"))]
    new, init, check, run = blocks("A new project", "Add a table")
    project = installed.folder / "my_shop"
    installed.run(new, project, installed.folder)
    assert "wrote src/my_shop/defs/orders/defs.yaml" in installed.run(init, project)
    listed = installed.run(check, project)
    assert "1 table(s)" in listed
    assert "All definitions loaded successfully" in listed
    assert "lakehouse_assets.LakehouseTable" in listed.replace(" ", "")
    output = installed.run(run, project)
    assert "orders: 2024-05-01 to 2024-05-01, 1 window(s) in one run" in output
    assert re.search(r"orders +2024-05-01 +1 +published +2 +2", output)
    assert {path.name for path in (project / "data").iterdir()} == {"dagster", "lake", "landing"}
    # A second project of this environment has nothing of the first.
    installed.run("lakehouse new other_shop", project, installed.folder)
    other = installed.folder / "other_shop"
    assert installed.run("lakehouse verdicts --json", other).strip() == "[]"
    assert "0 table(s)" in installed.run("lakehouse check validate", other)
    assert installed.files() == installed.before


@pytest.mark.exhaustive(seconds=300)
@pytest.mark.skipif(bool(MISSING), reason=f"without {', '.join(MISSING)}")
@pytest.mark.parametrize(
    ("executor", "a_process_per_step", "single_step"),
    [("dg.multiprocess_executor", True, False), ("dg.multiprocess_executor", True, True), ("None", False, False)],
)
def test_beside_the_assets_and_the_executor_of_an_existing_project(
    installed, tmp_path, executor, a_process_per_step, single_step
):
    """`dg dev` heals under the project's executor, with a check kind and a source kind of its own, and Chromium shows it."""
    project = tmp_path / "their_shop"
    theirs = existing_project(project, executor)
    output = installed.run("lakehouse new", project)
    assert "add to pyproject.toml" in output
    added = '\n[tool.lakehouse]\ntables = "src/their_shop/defs"\n'
    assert added.splitlines()[2] in output
    (project / "pyproject.toml").write_text(CREATE_DAGSTER["pyproject.toml"] + added + "single_step = true\n" * single_step)
    (init,) = blocks("Add a table")[:1]
    installed.run(init, project)
    add_extensions(project, "lakehouse/checks/letter_case.py", "lakehouse/sources/clock.py")
    defs = project / "src" / "their_shop" / "defs"
    (defs / "ticks").mkdir()
    (defs / "ticks" / "defs.yaml").write_text(TICKS)
    orders = yaml.safe_load((defs / "orders" / "defs.yaml").read_text())
    capitals = {"check": "upper_case", "column": "customer", "severity": "warning"}
    orders["attributes"]["checks"] = [*orders["attributes"].get("checks", ()), capitals]
    (defs / "orders" / "defs.yaml").write_text(yaml.safe_dump(orders))
    assert (defs / "theirs.py").read_text() == theirs
    installed.run("dg check yaml && dg check defs", project)

    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with (tmp_path / "dev.log").open("w") as log:
        child = subprocess.Popen(
            [installed.bin / "dg", "dev", "--host", "127.0.0.1", "--port", str(port)],
            cwd=project, env=installed.environment(project), stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        read_log = lambda: (tmp_path / "dev.log").read_text()[-4000:]  # noqa: E731
        assert wait(lambda: answers(url) or child.poll() is not None, 120) and child.poll() is None, read_log()
        succeeded = lambda: {key for key, status in steps(url).items() if status == "SUCCESS"}  # noqa: E731
        layers = ("table",) if single_step else ("bronze", "silver")
        keys = {f"{layer}_{table}" for layer in layers for table in ("orders", "ticks")}
        assert wait(lambda: succeeded() >= keys, 900), (steps(url), read_log())
        assert ("table_orders" in steps(url), "bronze_orders" in steps(url)) == (single_step, not single_step)
        assert bool(step_processes(url)) is a_process_per_step
        with browser(url, None) as ui:
            ui.open("/assets/silver_orders?view=partitions&partition=2024-05-01")
            ui.shows("published_with_warnings", ui.row("verdict"))
            ui.open("/assets/report")
            ui.shows("report")
        child.send_signal(signal.SIGTERM)
        assert wait(lambda: child.poll() is not None and not members(child.pid), 400), members(child.pid)
    finally:
        if members(child.pid):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait(timeout=30)
        for worker in WorkerPool(project / POOL_FOLDER, 0).workers():
            worker.kill()
    verify_lake(project / "data" / "lake")
    assert "published" in installed.run("lakehouse verdicts", project)
    assert installed.files() == installed.before


def verify_lake(lake: Path) -> None:
    """Bronze and silver ran in processes of their own: each window is ingested, judged and published once."""
    decided = [row for row in rows_of(str(lake / "ops" / "decisions")) if row["event"] == "decided"]
    assert sorted((row["table"], row["p_extracted_at"].day, row["verdict"], row["rows_published"]) for row in decided) == [
        ("orders", 1, "published_with_warnings", 2),
        ("ticks", 1, "published", 1),
        ("ticks", 2, "published", 1),
    ]
    assert len(rows_of(str(lake / "ops" / "extractions"))) == 3
    for layer in ("bronze", "silver"):
        assert [len(rows_of(str(lake / layer / table))) for table in ("orders", "ticks")] == [2, 2]


def query(url: str, text: str) -> list[dict]:
    """The runs of an instance, with these fields."""
    body = json.dumps({"query": f"{{runsOrError {{... on Runs {{results {{{text}}}}}}}}}"}).encode()
    request = urllib.request.Request(f"{url}/graphql", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)["data"]["runsOrError"]["results"]


def steps(url: str) -> dict[str, str]:
    """The steps of all runs with their last status."""
    time.sleep(2)
    return {step["stepKey"]: step["status"] for run in query(url, "stepStats {stepKey status}") for step in run["stepStats"]}


def step_processes(url: str) -> int:
    """How many processes of single steps all runs have started."""
    runs = query(url, "eventConnection {events {... on MessageEvent {eventType}}}")
    return sum(event["eventType"] == "STEP_WORKER_STARTED" for run in runs for event in run["eventConnection"]["events"])
