"""The suite itself: what a seed draws of the exhaustive tests, what the docs and the Makefile name, and the size of functions.

Belongs here: facts about the text of tests and code. Does not: what any test proves.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from lakehouse_assets_tests.conftest import LONGEST
from lakehouse_assets_tests.slices import draw
from lakehouse_assets_tests.support import PROJECT_ROOT

TESTS = Path(__file__).parent
SECONDS = {f"test_{number}": 10.0 * number for number in range(1, 21)}


def test_a_seed_draws_the_same_tests_again_and_another_seed_others():
    drawn = [draw(SECONDS, seed, 300) for seed in ("a", "a", "b")]
    assert drawn[0] == drawn[1] != drawn[2]
    assert draw(dict(reversed(SECONDS.items())), "a", 300) == drawn[0]


def test_a_slice_fits_its_seconds_and_leaves_no_test_out_that_would_fit():
    for seed in map(str, range(100)):
        drawn = draw(SECONDS, seed, 300)
        left = 300 - sum(SECONDS[name] for name in drawn)
        assert 0 <= left < min(SECONDS[name] for name in SECONDS.keys() - drawn)


def test_every_test_is_drawn_in_the_end():
    assert set().union(*(draw(SECONDS, str(seed), 300) for seed in range(100))) == SECONDS.keys()


def test_the_docs_list_every_file_with_exhaustive_tests_and_no_other():
    marked = {
        file.relative_to(TESTS).as_posix()
        for file in TESTS.rglob("test_*.py")
        if file != Path(__file__) and "mark.exhaustive(" in file.read_text()
    }
    section = (PROJECT_ROOT / "docs" / "development.md").read_text().partition("### Exhaustive tests")[2].partition("\n#")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("|")]
    listed = {name for cell in cells for name in re.findall(r"`([\w/]+\.py)`", cell)}
    assert listed == marked


def test_long_files_and_those_of_a_check_are_there():
    assert [name for name in LONGEST if not (TESTS / name).is_file()] == []
    makefile = (PROJECT_ROOT / "Makefile").read_text()
    quick = re.search(r"^QUICK := \$\(addprefix lakehouse_assets_tests/,(.*)\)$", makefile, re.M)
    without = re.findall(r"^QUICK \+= --ignore=lakehouse_assets_tests/(.*)$", makefile, re.M)
    assert quick and without
    assert [name for name in [*quick[1].split(), *without] if not (TESTS / name).exists()] == []


BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try)
MOST_LINES, DEEPEST = 60, 4


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for file in sorted((PROJECT_ROOT / "lakehouse_assets").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef):
                yield f"{file.relative_to(PROJECT_ROOT)}:{node.lineno} {node.name}", node


def depth(node: ast.AST) -> int:
    """How many blocks of a function lie within each other. An `elif` is as deep as its `if`."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.ClassDef):
            is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
            deepest = max(deepest, depth(child) + (isinstance(child, BLOCKS) and not is_elif))
    return deepest


def test_no_function_is_longer_than_sixty_lines_or_nested_deeper_than_four_blocks():
    long = [name for name, node in functions() if (node.end_lineno or 0) - node.lineno + 1 > MOST_LINES]
    assert long == []
    assert [name for name, node in functions() if depth(node) > DEEPEST] == []
    nested = ast.parse("def f():\n for a in b:\n  if a:\n   c\n  elif b:\n   with d:\n    e\n").body[0]
    assert depth(nested) == 3


def test_one_file_imports_dagsters_private_modules_and_states_the_use_of_each():
    private = re.compile(r"^\s*(from|import) dagster(_\w+)?\._", re.MULTILINE)
    files = [file for file in (PROJECT_ROOT / "lakehouse_assets").rglob("*.py") if private.search(file.read_text())]
    assert [file.name for file in files] == ["dagster_private.py"]
    names = [line for line in files[0].read_text().splitlines() if re.match(r"    \w+,|from .* import \w", line)]
    assert len(names) > 20
    assert [line for line in names if "  # " not in line] == []


def test_no_model_has_private_attributes():
    """A copy of a frozen model has all that the model has: what is no field gets lost where one is made of another's fields."""
    files = [file for file in (PROJECT_ROOT / "lakehouse_assets").rglob("*.py") if "PrivateAttr" in file.read_text()]
    assert files == []


def test_no_command_imports_the_command_line():
    """Which imports all commands: within a function such an import would hide the circle."""
    folder = PROJECT_ROOT / "lakehouse_assets" / "cli"
    modules = {file.stem for file in folder.glob("*.py")}
    for file in folder.glob("*.py"):
        if file.name not in ("__init__.py", "__main__.py", "worker_process.py"):
            imports = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)]
            names = {alias.name for node in imports if node.module == "lakehouse_assets.cli" for alias in node.names}
            assert names <= modules, file


def test_a_late_import_gives_its_reason():
    """In commands and frames every import waits for its use (pyproject.toml); elsewhere a comment gives the cost."""
    for file in (PROJECT_ROOT / "lakehouse_assets").rglob("*.py"):
        if file.relative_to(PROJECT_ROOT / "lakehouse_assets").parts[0] not in ("cli", "frames", "__init__.py"):
            lines = file.read_text().splitlines()
            functions = [node for node in ast.walk(ast.parse("\n".join(lines))) if isinstance(node, ast.FunctionDef)]
            late = [
                node for function in functions for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)
            ]
            assert [f"{file}:{node.lineno}" for node in late if "noqa: PLC0415 (" not in lines[node.lineno - 1]] == []
