"""`scripts/setup.sh` killed at each of its steps and run again, with stand-ins for Python, pip, uv, mv and Java.

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
  "-m venv "*)
    mkdir -p "$3/bin"; touch "$3/pyvenv.cfg"; echo "PS1=(${3##*/})" >"$3/bin/activate"
    cp "$0" "$3/bin/python"; half venv; touch "$3/pip" ;;
  "-m pip install "*)
    [ -e "$home/pip" ] || { echo "No module named pip" >&2; exit 1; }
    touch "$home/uv-half"; half pip; touch "$home/uv" ;;
  "-m uv pip install "*"--editable"*) half project; touch "$home/project" ;;
  "-m uv pip install "*)
    [ -e "$home/uv" ] || { echo "No module named uv" >&2; exit 1; }
    [ ! -e "$home/packages-half" ] || { echo "half a package is taken for a whole one" >&2; exit 1; }
    touch "$home/packages-half"; half packages; [ -z "$OFFLINE" ] || { echo "no network" >&2; exit 2; }
    printf '#!%s/bin/python\n' "$home" >"$home/bin/lakehouse"
    rm "$home/packages-half"; cp "$LOCK" "$home/packages" ;;
  *storage.session) half jars; touch "$home/jars" ;;
  *archive_classes.py) half classes ;;
esac
"""
MOVE = """#!/bin/bash
PATH=REAL mv "$@"
echo move >>"$STEPS"
[ "$(wc -l <"$STEPS")" != "${KILL_AT:-0}" ] || kill -9 $PPID
"""
COMPLETE = {"pip", "uv", "packages", "project", "jars", ".ready"}


@pytest.fixture
def folder(tmp_path):
    """A folder of programs that stand in for the real ones; `.venv` will be made beside it."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "python3.13").write_text(PYTHON.replace("REAL", sys.executable))
    (programs / "mv").write_text(MOVE.replace("REAL", str(Path(shutil.which("mv") or "mv").parent)))
    (programs / "java").write_text("#!/bin/bash\necho 'openjdk version \"17.0.1\"' >&2\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    return tmp_path


def set_up(folder: Path, kill_at: int = 0, offline: str = "", lock: str = "one") -> subprocess.CompletedProcess:
    steps = folder / "steps"
    steps.write_text("")
    (folder / "lock").write_text(lock)
    path = f"{folder / 'programs'}:{os.environ['PATH']}"
    environment = {"PATH": path, "STEPS": str(steps), "KILL_AT": str(kill_at), "OFFLINE": offline, "HOME": str(folder)}
    command = ["bash", str(PROJECT_ROOT / "scripts" / "setup.sh"), ".venv"]
    environment["LOCK"] = str(folder / "lock")
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def steps_of(folder: Path) -> list[str]:
    return (folder / "steps").read_text().split()


def assert_complete(folder: Path, lock: str = "one") -> None:
    """The environment is whole, of this lock, and its scripts name it."""
    home = folder / ".venv"
    assert {path.name for path in home.iterdir()} >= COMPLETE
    assert not (home / "packages-half").exists()
    assert (home / "packages").read_text() == lock
    assert (home / "bin" / "lakehouse").read_text() == f"#!{home}/bin/python\n"
    assert (home / "bin" / "activate").read_text().startswith("PS1=(.venv)\n")


def is_repeated_by_make(folder: Path) -> bool:
    """Whether `make` finds the mark older than the lock."""
    return (folder / ".venv" / ".ready").stat().st_mtime < (folder / "lock").stat().st_mtime


def assert_repeated(folder: Path, lock: str, what: str) -> None:
    """The next set-up ends well and leaves nothing beside the environment."""
    again = set_up(folder, lock=lock)
    assert again.returncode == 0, f"{what}: {again.stderr}"
    assert_complete(folder, lock)
    assert not is_repeated_by_make(folder)
    assert {path.name for path in folder.glob(".venv*")} == {".venv", ".venv.lock"}


def test_the_next_set_up_completes_one_killed_anywhere(folder):
    assert set_up(folder).returncode == 0
    steps = steps_of(folder)
    assert steps == ["venv", "pip", "packages", "project", "jars", "move", "classes"]
    for kill_at in range(1, len(steps) + 1):
        shutil.rmtree(folder / ".venv")
        assert set_up(folder, kill_at).returncode == -9
        in_place = kill_at > steps.index("move")
        assert (folder / ".venv").exists() == in_place
        if in_place:
            assert_complete(folder)
            assert is_repeated_by_make(folder)
        assert_repeated(folder, "one", f"killed at {steps[kill_at - 1]}")


def test_an_environment_stays_whole_until_the_new_one_is_whatever_kills_its_set_up(folder):
    assert set_up(folder).returncode == 0
    offline = set_up(folder, offline="yes", lock="two")
    assert offline.returncode == 2
    assert_complete(folder)
    assert set_up(folder, lock="two").returncode == 0
    steps = steps_of(folder)
    assert steps == ["packages", "project", "jars", "move", "move", "classes"]
    away, in_place = (index + 1 for index, step in enumerate(steps) if step == "move")
    for kill_at in range(1, len(steps) + 1):
        shutil.rmtree(folder / ".venv")
        assert set_up(folder).returncode == 0
        (folder / ".venv" / "extra").touch()
        assert set_up(folder, kill_at, lock="two").returncode == -9
        if kill_at == away:
            # Between the two moves; the next set-up has it back first, without a network too.
            assert not (folder / ".venv").exists()
            assert set_up(folder, offline="yes", lock="two").returncode == 2
        assert_complete(folder, "two" if kill_at >= in_place else "one")
        assert is_repeated_by_make(folder)
        assert_repeated(folder, "two", f"killed at {steps[kill_at - 1]}")
        assert (folder / ".venv" / "extra").exists(), "what a person installed besides"


def test_a_partial_venv_is_replaced_and_a_foreign_folder_is_not(folder):
    """Python, and no pip; folders alone; and a folder of somebody's files, which is not removed."""
    home = folder / ".venv"
    (home / "bin").mkdir(parents=True)
    again = set_up(folder)
    assert again.returncode == 0
    assert "before it was whole" in again.stdout
    assert_complete(folder)
    shutil.rmtree(home)
    home.mkdir()
    (home / "thesis.tex").write_text("years of work")
    refused = set_up(folder)
    assert refused.returncode == 3
    assert "is no Python environment" in refused.stderr
    assert (home / "thesis.tex").exists()


def test_the_activated_environment_of_a_copied_project_finds_its_own_instance(folder):
    assert set_up(folder).returncode == 0
    activate = folder / ".venv" / "bin" / "activate"
    activate.write_text(activate.read_text().replace(str(PROJECT_ROOT), "/the/project/before"))
    assert set_up(folder).returncode == 0
    exports = [line for line in activate.read_text().splitlines() if "DAGSTER_HOME" in line]
    assert exports == [f"export DAGSTER_HOME={PROJECT_ROOT}"]
    assert_complete(folder)


@pytest.mark.parametrize("quote", ["", '"', "'"])
def test_the_scripts_of_a_copied_environment_name_the_copy(folder, quote):
    assert set_up(folder).returncode == 0
    home = folder / ".venv"
    (home / "bin" / "activate").write_text(f"PS1=(.venv)\nVIRTUAL_ENV={quote}/before/.venv{quote}\n")
    (home / "bin" / "pytest").write_text("#!/before/.venv/bin/python\n")
    (home / "bin" / "other").write_text("#!/before/.venv2/bin/python\n# /x/before/.venv\n")
    assert set_up(folder, lock="two").returncode == 0
    assert f"VIRTUAL_ENV={quote}{home}{quote}\n" in (home / "bin" / "activate").read_text()
    assert (home / "bin" / "pytest").read_text() == f"#!{home}/bin/python\n"
    assert (home / "bin" / "other").read_text() == "#!/before/.venv2/bin/python\n# /x/before/.venv\n"
    assert_complete(folder, "two")
