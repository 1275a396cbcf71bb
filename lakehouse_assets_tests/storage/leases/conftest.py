"""A lake under leases in the tests' own JVM. Belongs here: fixtures of this folder. Does not: the log store (leased)."""

import pytest

from lakehouse_assets_tests.leased import log_store_of_leases


@pytest.fixture
def leased(settings):
    """A lake that several machines write."""
    return settings.model_copy(update={"lock": "lease", "lease_seconds": 60})


@pytest.fixture
def leased_spark(spark, leased):
    """The tests' session, whose Delta tables that are opened from now on have the log store of leases."""
    with log_store_of_leases(spark, leased):
        yield spark
