"""What a worker depends on, and that a change of it is seen."""

import os
import sys
import types

import pytest

from lakehouse_assets.orchestration.workers.fingerprint import LoadedFiles, environment_mark, file_mark, folder_mark

ENV = {"LAKEHOUSE_ROOT": "/lake", "AWS_PROFILE": "a", "OWN": "1"}


@pytest.mark.parametrize(
    "extra",
    [
        {"TERM": "xterm"},
        {"PWD": "/x", "OLDPWD": "/y", "SHLVL": "2", "_": "z"},
        # What `make dev` adds.
        {"MAKELEVEL": "1", "MAKEFLAGS": "", "MFLAGS": "", "MAKE_TERMOUT": "/dev/pts/0", "PYTHONDONTWRITEBYTECODE": ""},
        {"VIRTUAL_ENV": "/p/.venv", "VIRTUAL_ENV_PROMPT": "(p) ", "PS1": "(p) $ "},
        {"MAIL": "/var/mail/me", "MOTD_SHOWN": "pam", "COLORFGBG": "15;0"},
    ],
)
def test_a_terminal_makes_no_other_environment(extra):
    assert environment_mark({**ENV, **extra}, "/p") == environment_mark(ENV, "/p")


def test_an_activated_environment_is_no_other_one(tmp_path):
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / ".venv")

    def mark(path: str) -> str:
        return environment_mark({**ENV, "PATH": path}, "/p", str(programs / "python"))

    (tmp_path / ".venv" / "pyvenv.cfg").touch()
    plain = mark("/usr/bin:/bin")
    assert mark(f"{programs}:/usr/bin:/bin") == mark(f"{tmp_path}/link/bin:/usr/bin:/bin") == plain
    assert mark("/own/java/bin:/usr/bin:/bin") != plain
    # The programs beside a Python of the system are not its own.
    (tmp_path / ".venv" / "pyvenv.cfg").unlink()
    assert mark(f"{programs}:/usr/bin:/bin") != plain


@pytest.mark.parametrize(
    ("environ", "folder", "python"),
    [
        ({**ENV, "OWN": "2"}, "/p", sys.executable),
        ({**ENV, "LAKEHOUSE_SECRET_X": "s"}, "/p", sys.executable),
        ({"LAKEHOUSE_ROOT": "/lake"}, "/p", sys.executable),
        (ENV, "/q", sys.executable),
        (ENV, "/p", "/other/python"),
        # No value runs into the next name.
        ({"LAKEHOUSE_ROOT": "/lake", "AWS_PROFILE": "a\nOWN=1"}, "/p", sys.executable),
    ],
)
def test_any_other_difference_makes_one(environ, folder, python):
    assert environment_mark(environ, folder, python) != environment_mark(ENV, "/p")


def test_every_change_below_a_folder_changes_its_mark(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "defs.yaml").write_text("x")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    marks = [folder_mark([tmp_path, None])]
    assert folder_mark([tmp_path]) == marks[0]
    (tmp_path / "a" / "defs.yaml").write_text("xy")
    marks.append(folder_mark([tmp_path]))
    os.utime(tmp_path / "a" / "defs.yaml", ns=(1, 1))
    marks.append(folder_mark([tmp_path]))
    (tmp_path / "a" / "gold.sql").touch()
    marks.append(folder_mark([tmp_path]))
    (tmp_path / "a" / "gold.sql").rename(tmp_path / "gold.sql")
    marks.append(folder_mark([tmp_path]))
    (tmp_path / "gold.sql").unlink()
    assert folder_mark([tmp_path]) == marks[2]
    assert len(set(marks)) == 5


def test_loaded_code_that_changes_is_seen(tmp_path, monkeypatch):
    read, early, late = tmp_path / "dagster.yaml", tmp_path / "early.py", tmp_path / "late.py"
    early.write_text("1")
    os.utime(early, (1_700_000_000, 1_700_000_000))
    now = 1_700_000_000.0

    def load(file):
        module = types.ModuleType(file.stem)
        module.__file__ = str(file)
        monkeypatch.setitem(sys.modules, f"of_this_test_{file.stem}", module)

    load(early)
    loaded = LoadedFiles([read, None], now)
    assert loaded.changed(now) is None
    # A module that is loaded later, as old as the process.
    late.write_text("1")
    os.utime(late, (now - 5, now - 5))
    load(late)
    assert loaded.changed(now) is None
    os.utime(late, (now - 3, now - 3))
    assert loaded.changed(now) == str(late)
    os.utime(late, (now - 5, now - 5))
    early.unlink()
    assert loaded.changed(now) == str(early)
    early.write_text("1")
    os.utime(early, (now, now))
    read.touch()
    assert loaded.changed(now) == str(read)
    read.unlink()
    # Written while the process ran, and loaded: nobody knows whether before or after.
    newer = tmp_path / "newer.py"
    newer.write_text("1")
    os.utime(newer, (now + 5, now + 5))
    load(newer)
    assert loaded.changed(now + 10) == str(newer)
    # A clock that is ahead is no change, or the worker would start again for ever.
    assert LoadedFiles([], now).changed(now + 1) is None
    assert file_mark(tmp_path / "nowhere") is None
