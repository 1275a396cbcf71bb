"""Random stories of two and three machines on an S3 server end as on one machine on a disk. `--stories` is their number.

Belongs here: the server and the machines. Does not: what a story is (chaos/stories), or a disk (laws/test_stories).
"""

from collections.abc import Iterator

import pytest

from lakehouse_assets_tests.chaos.machine import machines
from lakehouse_assets_tests.chaos.stories import HOSTS, Stage
from lakehouse_assets_tests.e2e.servers import fetch_jars_of_s3
from lakehouse_assets_tests.e2e.store_proxy import store_behind_proxy

STORE = "s3a://lake"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    home = tmp_path_factory.mktemp("stories")
    with store_behind_proxy(home) as proxy:
        fetch_jars_of_s3()
        with machines(home / "machines", *HOSTS, root=STORE, variables=proxy.variables) as running:
            yield Stage(running, home, STORE, proxy)


@pytest.mark.exhaustive(seconds=90)
@pytest.mark.timeout(1200)
def test_a_story_on_s3_ends_as_on_one_machine(stage: Stage, story_seed: int) -> None:
    print(stage.play(story_seed))
