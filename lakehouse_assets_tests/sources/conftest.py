"""Temporary: one Spark session for these tests until lakehouse_assets_tests/conftest.py brings one."""

import os
import sys

import pytest

from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.session import build_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    place = str(tmp_path_factory.mktemp("lake"))
    session = build_session(Settings.from_environment({"LAKEHOUSE_ROOT": place, "LAKEHOUSE_SPARK_MASTER": "local[2]"}))
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
