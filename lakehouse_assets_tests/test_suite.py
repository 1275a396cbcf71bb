"""The suite itself: what a seed draws of the exhaustive tests, and that the docs and the Makefile name what is there.

Belongs here: facts about the tests. Does not: what any of them proves.
"""

import re
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
    quick = re.search(r"^QUICK := \$\(addprefix lakehouse_assets_tests/,(.*)\)$", (PROJECT_ROOT / "Makefile").read_text(), re.M)
    assert quick and [name for name in quick[1].split() if not (TESTS / name).exists()] == []
