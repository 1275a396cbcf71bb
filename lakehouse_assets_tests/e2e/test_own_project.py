"""The wheel in an environment elsewhere, and Dagster projects of somebody's own there.

Belongs here: docs/project.md as it stands, `dg`, an installed package. Does not: definitions in this process
(orchestration/test_user_project).
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from lakehouse_assets_tests.browser.demo import answers, members, wait
from lakehouse_assets_tests.browser.ui import MISSING, browser
from lakehouse_assets_tests.e2e.servers import free_port
from lakehouse_assets_tests.support import FOR_THREE_ROWS, PROJECT_ROOT, SHORT_LIVED

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
DATA_FILES = {
    "audits/default.yaml", "checks/sql/spark_functions.txt", "contracts/project_files/dagster.yaml",
    "contracts/project_files/pyproject.txt", "reports/audit_pages/base.html.j2", "storage/log4j2.properties",
}  # fmt: skip
THEIRS = """
import dagster as dg

class TheirSpark(dg.ConfigurableResource):
    pass

@dg.asset(deps=["silver_orders"])
def report(spark: TheirSpark) -> None: ...

@dg.definitions
def defs():
    return dg.Definitions([report], resources={"spark": TheirSpark()}, executor=dg.multiprocess_executor)
"""
# The files of `create-dagster project` 1.13, without its comments.
CREATE_DAGSTER = {
    "pyproject.toml": """
[project]
name = "their_shop"
requires-python = ">=3.10,<3.15"
version = "0.1.0"
dependencies = ["dagster"]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "their_shop"
""",
    "src/their_shop/__init__.py": "",
    "src/their_shop/definitions.py": """
from pathlib import Path

from dagster import definitions, load_from_defs_folder


@definitions
def defs():
    return load_from_defs_folder(path_within_project=Path(__file__).parent)
""",
    "src/their_shop/defs/__init__.py": "",
    "src/their_shop/defs/theirs.py": THEIRS,
}


class Installed:
    """An environment with the wheel, which has everything else from the running one; and commands in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder, folder / "env" / "bin"
        (self.wheel,) = self._build().glob("*.whl")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
        site = folder / "env" / "lib" / PYTHON / "site-packages"
        self.package = site / "lakehouse_assets"
        others = next(path for path in sys.path if path.endswith("site-packages"))
        # Python does not read the .pth files of a folder that a .pth file names: the editable install is not there.
        (site / "others.pth").write_text(f"{others}\n")
        install = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            self.bin / "python",
            "install",
            "--quiet",
            "--no-deps",
            "--no-index",
        ]
        subprocess.run([*install, self.wheel], check=True)
        (folder / "env" / "share").mkdir()
        (folder / "env" / "share" / "lakehouse").symlink_to(Path(sys.prefix) / "share" / "lakehouse")
        for name in ("dg", "dagster", "dagster-webserver", "dagster-daemon"):
            script = (Path(sys.executable).parent / name).read_text().partition("\n")[2]
            (self.bin / name).write_text(f"#!{self.bin / 'python'}\n{script}")
            (self.bin / name).chmod(0o755)
        self.before = self.files()

    def _build(self) -> Path:
        source = self.folder / "source"
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z", "lakehouse_assets", "pyproject.toml", "README.md"],
            cwd=PROJECT_ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        for name in filter(None, listed.stdout.split("\0")):
            if (PROJECT_ROOT / name).is_file():
                (source / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(PROJECT_ROOT / name, source / name)
        build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
        subprocess.run([*build, "--wheel-dir", self.folder / "dist", source], check=True)
        return self.folder / "dist"

    def files(self) -> dict[str, str]:
        """The package's files with their hashes, without Python's own cache."""
        files = [path for path in self.package.rglob("*") if path.is_file() and path.suffix != ".pyc"]
        return {str(path.relative_to(self.package)): sha256(path.read_bytes()).hexdigest() for path in files}

    def environment(self, project: Path) -> dict[str, str]:
        ours = ("LAKEHOUSE_", "DAGSTER_", "PYTHONPATH")
        variables = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        (self.folder / "spark.conf").write_text(SHORT_LIVED + FOR_THREE_ROWS)
        return variables | {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "VIRTUAL_ENV": str(self.folder / "env"),
            # As `pip install -e` would.
            "PYTHONPATH": str(project / "src"),
            "LAKEHOUSE_SPARK_CONF": str(self.folder / "spark.conf"),
            "COLUMNS": "200",
        }

    def run(self, block: str, project: Path, folder: Path | None = None) -> str:
        """Run a block of commands in a project's folder and return its output."""
        if project.is_dir() and not (project / ".venv").exists():
            (project / ".venv").symlink_to(self.folder / "env")
        process = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block], cwd=folder or project, env=self.environment(project),
            capture_output=True, text=True, timeout=400, check=False,
        )  # fmt: skip
        assert process.returncode == 0, f"{block}\n{process.stdout}\n{process.stderr}"
        return process.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Installed:
    return Installed(tmp_path_factory.mktemp("elsewhere"))


def blocks(*sections: str) -> list[str]:
    """The shell blocks of these sections of docs/project.md."""
    page = (PROJECT_ROOT / "docs" / "project.md").read_text(encoding="utf-8")
    texts = [page.partition(f"## {section}\n")[2].partition("\n## ")[0] for section in sections]
    return [block for text in texts for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)]


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


@pytest.mark.exhaustive(seconds=150)
@pytest.mark.skipif(bool(MISSING), reason=f"without {', '.join(MISSING)}")
def test_beside_the_assets_and_the_executor_of_an_existing_project(installed, tmp_path):
    """`dg dev` heals under Dagster's multiprocess executor, and Chromium shows it."""
    project = installed.folder / "their_shop"
    for name, text in CREATE_DAGSTER.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    output = installed.run("lakehouse new", project)
    assert "add to pyproject.toml" in output
    added = '\n[tool.lakehouse]\ntables = "src/their_shop/defs"\n'
    assert added.splitlines()[2] in output
    (project / "pyproject.toml").write_text(CREATE_DAGSTER["pyproject.toml"] + added)
    (init,) = blocks("Add a table")[:1]
    installed.run(init, project)
    assert (project / "src" / "their_shop" / "defs" / "theirs.py").read_text() == THEIRS
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
        assert wait(lambda: "STEP_SUCCESS" in steps(url).get("silver_orders", ""), 400), (steps(url), read_log())
        assert {"bronze_orders", "silver_orders"} <= set(steps(url))
        with browser(url, None) as ui:
            ui.open("/assets/silver_orders?view=partitions&partition=2024-05-01")
            ui.shows("published", ui.row("verdict"))
            ui.open("/assets/report")
            ui.shows("report")
        child.send_signal(signal.SIGTERM)
        assert wait(lambda: child.poll() is not None and not members(child.pid), 180), members(child.pid)
    finally:
        if members(child.pid):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait(timeout=30)
    assert "published" in installed.run("lakehouse verdicts", project)
    assert installed.files() == installed.before


def steps(url: str) -> dict[str, str]:
    """The steps of all runs with their last event, each step a process of its own."""
    query = "{runsOrError {... on Runs {results {runId stepStats {stepKey status}}}}}"
    body = json.dumps({"query": query}).encode()
    request = urllib.request.Request(f"{url}/graphql", body, {"Content-Type": "application/json"})
    time.sleep(2)
    with urllib.request.urlopen(request, timeout=30) as response:
        runs = json.load(response)["data"]["runsOrError"]["results"]
    return {step["stepKey"]: f"STEP_{step['status']}" for run in runs for step in run["stepStats"]}
