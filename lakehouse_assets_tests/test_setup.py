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
WHOLE = {"pip", "uv", "packages", "project", "jars", ".ready"}


@pytest.fixture
def place(tmp_path):
    """A folder of programs that stand in for the real ones; `.venv` will be made beside it."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "python3.13").write_text(PYTHON.replace("REAL", sys.executable))
    (programs / "java").write_text("#!/bin/bash\necho 'openjdk version \"17.0.1\"' >&2\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    return tmp_path


def set_up(place: Path, kill_at: int = 0, offline: str = "") -> subprocess.CompletedProcess:
    steps = place / "steps"
    steps.write_text("")
    path = f"{place / 'programs'}:{os.environ['PATH']}"
    given = {"PATH": path, "STEPS": str(steps), "KILL_AT": str(kill_at), "OFFLINE": offline, "HOME": str(place)}
    command = ["bash", str(PROJECT_ROOT / "scripts" / "setup.sh"), str(place / ".venv")]
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=60, check=False)


def steps_of(place: Path) -> list[str]:
    return (place / "steps").read_text().split()


def made(place: Path) -> set[str]:
    return WHOLE & {path.name for path in (place / ".venv").iterdir()}


def test_a_set_up_that_is_killed_anywhere_is_made_whole_by_the_next(place):
    assert set_up(place).returncode == 0
    steps = steps_of(place)
    assert (steps, made(place)) == (["venv", "pip", "packages", "project", "jars", "classes"], WHOLE)
    for kill_at in range(1, len(steps) + 1):
        shutil.rmtree(place / ".venv")
        assert set_up(place, kill_at).returncode == -9
        assert not (place / ".venv" / ".ready").exists()
        again = set_up(place)
        assert (again.returncode, made(place)) == (0, WHOLE), f"killed at {steps[kill_at - 1]}: {again.stderr}"
        assert "before it was whole" in again.stdout


def test_a_newer_lock_killed_anywhere_too_and_without_a_network_the_environment_stays(place):
    assert set_up(place).returncode == 0
    offline = set_up(place, offline="yes")
    assert (offline.returncode, made(place)) == (2, WHOLE), "nothing of it has changed"
    assert set_up(place).returncode == 0
    steps = steps_of(place)
    assert steps == ["fetch", "packages", "project", "jars", "classes"]
    for kill_at in range(1, len(steps) + 1):
        assert set_up(place, kill_at).returncode == -9
        assert (place / ".venv" / ".ready").exists() == (kill_at == 1)
        again = set_up(place)
        assert (again.returncode, made(place)) == (0, WHOLE), f"killed at {steps[kill_at - 1]}: {again.stderr}"


def test_what_a_killed_venv_leaves_and_what_is_no_environment(place):
    """Python, and no pip; folders alone; and a folder of somebody's files, which is not removed."""
    home = place / ".venv"
    (home / "bin").mkdir(parents=True)
    assert set_up(place).returncode == 0
    shutil.rmtree(home)
    home.mkdir()
    (home / "thesis.tex").write_text("years of work")
    refused = set_up(place)
    assert refused.returncode == 3
    assert "is no Python environment" in refused.stderr
    assert (home / "thesis.tex").exists()
