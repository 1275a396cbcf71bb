"""Servers that several stories share. Belongs here: fixtures of e2e. Does not: starting a server (servers)."""

import pytest

from lakehouse_assets_tests.e2e.servers import Broker, kafka_jars


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    try:
        kafka_jars()
    except (RuntimeError, OSError) as error:
        pytest.skip(str(error))
    # A compacted topic is compacted at once, not within 15 seconds.
    with Broker(tmp_path_factory.mktemp("kafka"), log_cleaner_backoff_ms=100).up() as broker:
        yield broker


@pytest.fixture
def on(settings, broker):
    """The settings of a lake whose topics the broker has."""
    return settings.model_copy(update={"kafka_bootstrap": broker.address})
