"""Each test of frames begins and ends without staged rows of another."""

import pytest

from lakehouse_assets.frames.staging_folder import OPEN_FOLDERS


@pytest.fixture(autouse=True)
def no_staged_rows():
    yield
    for folder in list(OPEN_FOLDERS):
        folder.remove()
