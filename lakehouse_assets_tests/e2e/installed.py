"""An environment elsewhere with the wheel, and somebody's own Dagster project in it.

Belongs here: building and installing the wheel, a project's files, blocks of the docs' pages. Does not: assertions about them
(test_own_project).
"""

import os
import re
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from lakehouse_assets_tests.support import FOR_THREE_ROWS, PROJECT_ROOT, SHORT_LIVED

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
THEIRS = """
import dagster as dg

class TheirSpark(dg.ConfigurableResource):
    pass

@dg.asset(deps=["silver_orders"])
def report(spark: TheirSpark) -> None: ...

@dg.definitions
def defs():
    return dg.Definitions([report], resources={"spark": TheirSpark()}, executor=EXECUTOR)
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
}


def existing_project(folder: Path, executor: str) -> str:
    """Write somebody's own project. ``executor``: an expression. Returns the text of its definitions."""
    theirs = THEIRS.replace("EXECUTOR", executor)
    for name, text in {**CREATE_DAGSTER, "src/their_shop/defs/theirs.py": theirs}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return theirs


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
        # An editable install on that path would count as this wheel.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run([*install, self.wheel], check=True, env=environment)
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


def blocks(*sections: str) -> list[str]:
    """The shell blocks of these sections of docs/project.md."""
    page = (PROJECT_ROOT / "docs" / "project.md").read_text(encoding="utf-8")
    texts = [page.partition(f"## {section}\n")[2].partition("\n## ")[0] for section in sections]
    return [block for text in texts for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)]


def add_extensions(project: Path, *names: str) -> None:
    """Write these files of docs/extensions.md into a project."""
    page = (PROJECT_ROOT / "docs" / "extensions.md").read_text(encoding="utf-8")
    files = dict(re.findall(r"^New file `(lakehouse/.*?)`:\n\n```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    for name in names:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(files[name])
