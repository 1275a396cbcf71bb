"""Spark and leases in the tests' own JVM.

Belongs here: turning the log store of leases on and off. Does not: holding a lease.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.leases import guards
from lakehouse_assets.storage.log_store import log_store_properties


@contextmanager
def log_store_of_leases(spark: SparkSession, settings: Settings) -> Iterator[SparkSession]:
    """Within the block, Delta tables that are opened for the first time have the log store of leases."""
    conf = spark.sparkContext._jsc.sc().conf()
    for key, value in log_store_properties().items():
        conf.set(key, value)
    guards.announce_guards(settings)
    try:
        yield spark
    finally:
        for key in log_store_properties():
            conf.remove(key)
