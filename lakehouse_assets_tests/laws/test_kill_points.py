"""Every operation that writes has kill points, and every step that an operation names is one of them.

Belongs here: the lists against the code. Does not: killing anything (test_kill, test_kill_files).
"""

import ast
import fnmatch
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from lakehouse_assets import operations
from lakehouse_assets.operations.maintain import maintain
from lakehouse_assets.operations.release import release
from lakehouse_assets.operations.restore_logs import GIVING_UP
from lakehouse_assets.pipeline import gate, mend
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.publish import publish
from lakehouse_assets_tests.chaos.play import POINTS, WITHIN
from lakehouse_assets_tests.support import PROJECT_ROOT, Killed, heal, land, readings, runner, window

MODULES: list[ModuleType] = [
    *(importlib.import_module(module.name) for module in pkgutil.iter_modules(operations.__path__, f"{operations.__name__}.")),
    mend,
]
PACKAGE = PROJECT_ROOT / "lakehouse_assets"
# Steps that no operation of POINTS comes to, and the tests that stop there.
KILLED_ELSEWHERE = {
    "positions_recorded": ("e2e/test_stream.py", "e2e/test_jdbc.py"),
    "rest_measured": ("pipeline/test_named_rows_story.py",),
    "observed_done": ("e2e/test_guard_faults.py", "e2e/test_guard_publish.py"),
    "events_sent": ("orchestration/test_notify.py",),
}
# Other steps, with the reason why no test stops there.
NOT_KILLED = {
    "inputs_of_an_unapplied_decision_are_gone": "nothing was written",
    "rules_of_an_unapplied_decision_are_gone": "nothing was written",
    "profiles_of_*_windows_restored": "the next run reads again what is lacking: pipeline/test_evidence.py",
}
# Public functions of a run that have no kill points of their own.
EXCEPTIONS = {
    "try_checks": "writes nothing",
    "try_gold_checks": "writes nothing",
    "newest_of": "writes nothing",
    "suggest": "writes nothing",
    "suggested_checks": "writes nothing",
    "try_proposals": "writes nothing",
    "rehearse": "writes nothing",
    "replay": "writes nothing but staging",
    "find_other_verdicts": "`replay`, of several decisions",
    "maintain_gold": "the steps of `maintain`, on another table",
    "compact": "the compactions of `maintain`",
    "compact_logs": "a part of `maintain` and `compact`",
    "apply_once": "a part of `pin`, `unpin`, `reset` and `seed`",
    "forget": "`reset`, of a guard",
    "restore_extractions": "a part of `restore_logs`",
    "restore_positions": "a part of `restore_logs`",
    "mend_bronze": "a part of `mend`",
    "mend_quarantine": "a part of `mend`",
    "mend_silver": "a part of `mend` and of `rebuild`",
}


def points_of_operations() -> set[str]:
    """All kill points of operations."""
    return {point for points in POINTS.values() for point in points} | {*GIVING_UP}


def operations_of_a_run() -> Iterator[str]:
    """Yield the public functions whose first argument is a run."""
    for module in MODULES:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            parameters = [*inspect.signature(function).parameters]
            if function.__module__ == module.__name__ and not name.startswith("_") and parameters[:1] == ["run"]:
                yield name


def test_every_operation_has_kill_points_or_is_an_exception():
    names = set(operations_of_a_run())
    assert names - EXCEPTIONS.keys() == POINTS.keys() - {"run"}
    assert names >= EXCEPTIONS.keys(), "an exception that is no operation"


def step_names(path: Path) -> Iterator[str]:
    """Yield the names that a file passes to `step`, with * for each computed part. A message to a person has blanks."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and node.args and getattr(node.func, "attr", getattr(node.func, "id", "")) == "step":
            parts = node.args[0].values if isinstance(node.args[0], ast.JoinedStr) else [node.args[0]]
            texts = [str(part.value) if isinstance(part, ast.Constant) else "*" for part in parts]
            if re.fullmatch(r"[\w*]*\w[\w*]*", name := "".join(texts)):
                yield name


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__.split(".")[-1])
def test_every_step_of_an_operation_is_a_kill_point(module):
    names = {name for name in step_names(Path(str(module.__file__))) if "*" not in name}
    assert names <= points_of_operations()


def test_steps_within_the_gate_are_kill_points():
    names = {name for name in step_names(Path(gate.__file__)) if "*" not in name}
    assert names | {"before_write"} == {point for points in WITHIN.values() for point in points}


def test_every_step_of_the_project_is_a_kill_point_or_an_exception():
    names = {name for path in PACKAGE.rglob("*.py") for name in step_names(path)}
    assert {"bronze_committed", "*_done", "events_sent"} <= names
    points = points_of_operations()
    rest = {name for name in names if not fnmatch.filter(points, name)}
    assert rest == KILLED_ELSEWHERE.keys() | NOT_KILLED.keys()


@pytest.mark.parametrize(("name", "file"), [(name, file) for name, files in KILLED_ELSEWHERE.items() for file in files])
def test_the_test_that_kills_at_a_step_names_it(name, file):
    assert f'"{name}"' in (PROJECT_ROOT / "lakehouse_assets_tests" / file).read_text()


@pytest.mark.exhaustive(seconds=20)
def test_a_recovery_within_an_operation_reports_each_of_its_steps(spark, settings):
    """So that it can be killed there as well: what a run left is completed by a release, step by step."""
    strict = readings(checks=[{"check": "in_range", "column": "value", "max": 5}])
    for day, value in ((1, 9), (2, 3)):
        land(settings, day, [f"a,{day},{value},2024-01-0{day}T00:00:00Z"])
    heal(spark, settings, [1], strict)

    def die(step: str) -> None:
        if step == "log_done":
            raise Killed

    run = runner(spark, settings, strict, die)
    extract(run, [window(2)])
    with pytest.raises(Killed):
        publish(run, [window(2)])
    reached: list[str] = []
    run = runner(spark, settings, strict, reached.append)
    release(run, window(1).start, None, waived=["in_range_value"], by="ann", because="right")
    completing = [f"{step.__name__}_done" for step in (*gate.RECOVERING, *gate.COMPLETING)]
    assert [step for step in reached if step in completing][: len(completing)] == completing
    reached.clear()
    maintain(run)
    assert reached == [point for point in POINTS["maintain"] if not point.endswith("+")]
