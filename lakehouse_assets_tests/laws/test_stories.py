"""Random stories of two and three machines on one disk end as on one machine. `--stories` is their number.

Belongs here: the machines of these tests. Does not: what a story is (chaos/stories), or a store (e2e/test_stories_on_s3).
"""

from collections.abc import Iterator

import pytest

from lakehouse_assets_tests.chaos.machine import machines
from lakehouse_assets_tests.chaos.stories import HOSTS, Stage


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    home = tmp_path_factory.mktemp("stories")
    with machines(home / "machines", *HOSTS) as running:
        yield Stage(running, home)


@pytest.mark.exhaustive(seconds=40)
@pytest.mark.timeout(1200)
def test_a_story_on_a_disk_ends_as_on_one_machine(stage: Stage, story_seed: int) -> None:
    print(stage.play(story_seed))
