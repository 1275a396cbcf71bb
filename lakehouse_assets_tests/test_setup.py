"""`scripts/setup.sh` killed at each of its steps and run again, with stand-ins for Python, pip, uv and Java.

Belongs here: what a killed set-up leaves, and what the next one makes of it. Does not: real packages.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse_assets_tests.support import PROJECT_ROOT

# Makes half of what it is asked for, then the rest; at the step KILL_AT it kills the set-up in between.
PYTHON = """#!/bin/bash
if [ "$1" = -c ]; then
  case "$2" in
    "import pip, uv") [ -e "${0%/bin/python}/pip" ] && [ -e "${0%/bin/python}/uv" ]; exit ;;
    *) exec REAL "$@" ;;
  esac
fi
[ "$1" = --version ] && { echo Python 3.12; exit; }
home=${0%/bin/python}
half() {
  echo "$1" >>"$STEPS"
  [ "$(wc -l <"$STEPS")" != "${KILL_AT:-0}" ] || { kill -9 $PPID; exit 9; }
}
case "$*" in
  "-m venv "*) mkdir -p "$3/bin"; touch "$3/pyvenv.cfg" "$3/bin/activate"; cp "$0" "$3/bin/python"; half venv; touch "$3/pip" ;;
  "-m pip install "*)
    [ -e "$home/pip" ] || { echo "No module named pip" >&2; exit 1; }
    touch "$home/uv-half"; half pip; touch "$home/uv" ;;
  "-m uv pip install "*"--target"*)
    half fetch; [ -z "$OFFLINE" ] || { echo "no network" >&2; exit 2; } ;;
  "-m uv pip install "*"--editable"*) half project; touch "$home/project" ;;
  "-m uv pip install "*)
    [ -e "$home/uv" ] || { echo "No module named uv" >&2; exit 1; }
    [ ! -e "$home/packages-half" ] || { echo "half a package is taken for a whole one" >&2; exit 1; }
    touch "$home/packages-half"; half packages; rm "$home/packages-half"; touch "$home/packages" ;;
  *storage.session) half jars; touch "$home/jars" ;;
  *archive_classes.py) half classes ;;
esac
"""
COMPLETE = {"pip", "uv", "packages", "project", "jars", ".ready"}


@pytest.fixture
def folder(tmp_path):
    """A folder of programs that stand in for the real ones; `.venv` will be made beside it."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "python3.13").write_text(PYTHON.replace("REAL", sys.executable))
    (programs / "java").write_text("#!/bin/bash\necho 'openjdk version \"17.0.1\"' >&2\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    return tmp_path


def set_up(folder: Path, kill_at: int = 0, offline: str = "") -> subprocess.CompletedProcess:
    steps = folder / "steps"
    steps.write_text("")
    path = f"{folder / 'programs'}:{os.environ['PATH']}"
    environment = {"PATH": path, "STEPS": str(steps), "KILL_AT": str(kill_at), "OFFLINE": offline, "HOME": str(folder)}
    command = ["bash", str(PROJECT_ROOT / "scripts" / "setup.sh"), str(folder / ".venv")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def steps_of(folder: Path) -> list[str]:
    return (folder / "steps").read_text().split()


def list_parts(folder: Path) -> set[str]:
    return COMPLETE & {path.name for path in (folder / ".venv").iterdir()}


def test_the_next_set_up_completes_one_killed_anywhere(folder):
    assert set_up(folder).returncode == 0
    steps = steps_of(folder)
    assert (steps, list_parts(folder)) == (["venv", "pip", "packages", "project", "jars", "classes"], COMPLETE)
    for kill_at in range(1, len(steps) + 1):
        shutil.rmtree(folder / ".venv")
        assert set_up(folder, kill_at).returncode == -9
        assert not (folder / ".venv" / ".ready").exists()
        again = set_up(folder)
        assert (again.returncode, list_parts(folder)) == (0, COMPLETE), f"killed at {steps[kill_at - 1]}: {again.stderr}"
        assert "before it was whole" in again.stdout


def test_a_newer_lock_killed_anywhere_too_and_without_a_network_the_environment_stays(folder):
    assert set_up(folder).returncode == 0
    offline = set_up(folder, offline="yes")
    assert (offline.returncode, list_parts(folder)) == (2, COMPLETE), "nothing of it has changed"
    assert set_up(folder).returncode == 0
    steps = steps_of(folder)
    assert steps == ["fetch", "packages", "project", "jars", "classes"]
    for kill_at in range(1, len(steps) + 1):
        assert set_up(folder, kill_at).returncode == -9
        assert (folder / ".venv" / ".ready").exists() == (kill_at == 1)
        again = set_up(folder)
        assert (again.returncode, list_parts(folder)) == (0, COMPLETE), f"killed at {steps[kill_at - 1]}: {again.stderr}"


def test_a_partial_venv_is_replaced_and_a_foreign_folder_is_not(folder):
    """Python, and no pip; folders alone; and a folder of somebody's files, which is not removed."""
    home = folder / ".venv"
    (home / "bin").mkdir(parents=True)
    assert set_up(folder).returncode == 0
    shutil.rmtree(home)
    home.mkdir()
    (home / "thesis.tex").write_text("years of work")
    refused = set_up(folder)
    assert refused.returncode == 3
    assert "is no Python environment" in refused.stderr
    assert (home / "thesis.tex").exists()
