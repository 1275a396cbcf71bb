"""Names say what they name: no bare participle, no riddle, in functions, arguments, variables and test names. No two classes
of the package share a name.

Belongs here: the names of the trees in TREES. Does not: docstrings, strings, attributes of other objects, or keyword arguments.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse_assets_tests.support import PROJECT_ROOT

TREES = ("lakehouse_assets", "lakehouse_assets_tests", "benchmarks", "scripts")
# Never the whole name of anything.
BARE = frozenset(
    "act acts asked book came crowded culprit culprits done found given gone got held kept known made meant place placed places"
    " riding said says seen standing stands taken taught tell tells told took watched watcher whole words".split()
)
# Never a part of the name of a function or a class.
RIDDLES = frozenset("act acts culprit held said says stands taught teaches tell tells told".split())


def bad_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name of each definition, argument and assignment whose name breaks a rule."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                name, parts = node.name, RIDDLES & set(node.name.lower().split("_"))
            case ast.arg():
                name, parts = node.arg, frozenset()
            case ast.Name(ctx=ast.Store()):
                name, parts = node.id, frozenset()
            case ast.Attribute(ctx=ast.Store(), value=ast.Name(id="self")):
                name, parts = node.attr, frozenset()
            case ast.alias(asname=str()):
                name, parts = node.asname or "", frozenset()
            case _:
                continue
        if parts or name.strip("_").lower() in BARE:
            yield getattr(node, "lineno", 0), name


def bad_names_of(root: Path, tree: str) -> list[str]:
    """Return `file:line: name` of each bad name in the Python files of a folder."""
    return [
        f"{path.relative_to(root)}:{line}: {name}"
        for path in sorted((root / tree).rglob("*.py"))
        for line, name in bad_names(ast.parse(path.read_text()))
    ]


@pytest.mark.parametrize("tree", TREES)
def test_names_are_nouns_or_verbs_with_an_object(tree):
    bad = bad_names_of(PROJECT_ROOT, tree)
    assert not bad, "name what it is (rows, message, run_operation, …):\n" + "\n".join(bad)


def test_no_two_public_classes_share_a_name():
    files = defaultdict(list)
    for path in (PROJECT_ROOT / "lakehouse_assets").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and node.name[0] != "_":
                files[node.name].append(str(path.relative_to(PROJECT_ROOT)))
    shared = {name: paths for name, paths in files.items() if len(paths) > 1}
    assert not shared


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("def told(): ...", "told"),
        ("def f(given): ...", "given"),
        ("def f(*, _held=1): ...", "_held"),
        ("def f(**said): ...", "said"),
        ("HELD = 1", "HELD"),
        ("for place, path in []: ...", "place"),
        ("[found for found in ()]", "found"),
        ("f = lambda seen: 1", "seen"),
        ("if taken := 1: ...", "taken"),
        ("with open('x') as made: ...", "made"),
        ("class A:\n    known: int = 1", "known"),
        ("class A:\n    def f(self):\n        self.acts = 1", "acts"),
        ("import ledger as book", "book"),
        ("def test_a_fault_is_held(): ...", "test_a_fault_is_held"),
        ("class Told: ...", "Told"),
    ],
)
def test_every_binding_is_read(source, name):
    assert [found_name for _, found_name in bad_names(ast.parse(source))] == [name]


def test_other_names_are_accepted():
    source = "def find(rows, found_rows, holder): f(held=1, said=2); x.told = rows; whole_batch = 'told'; return x.acts"
    assert list(bad_names(ast.parse(source))) == []


def test_a_bad_name_is_reported_with_its_file_and_line(tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.py").write_text("rows = 1\n\ntold = 2\n")
    assert bad_names_of(tmp_path, "tree") == ["tree/a.py:3: told"]
