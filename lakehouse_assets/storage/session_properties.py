"""Properties that a Spark session has within a block, and its own again afterwards.

Belongs here: changing them for a while. Does not: those that a session starts with (session).
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext

from pyspark.sql import SparkSession

MOST_COMPILED = 150  # checks up to which Spark is let make one method of a staging

# Of few rows it takes longer to make and compile a program for a query, and to plan it again on its way, than to run it. The
# program names the window, so that it is another one each time.
FOR_FEW_ROWS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    # A small table is sent to each task by a job of its own; by a shuffle it is part of the query's.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # Of each query Spark writes its plan as a text, whether anybody reads it or not: a twentieth of such a run.
    "spark.sql.debug.maxToStringFields": "1",
}


@contextmanager
def plan_for_few_rows(spark: SparkSession) -> Iterator[None]:
    """Within the block, queries are planned for some thousands of rows: interpreted, by one task."""
    with ExitStack() as stack:
        for key, value in FOR_FEW_ROWS.items():
            stack.enter_context(set_session_property(spark, key, value))
        yield


@contextmanager
def write_unsorted(spark: SparkSession) -> Iterator[None]:
    """Within the block, a task that writes into two folders has a file open in each, and does not sort its rows by folder. Each
    open file takes memory.
    """
    with set_session_property(spark, "spark.sql.maxConcurrentOutputFileWriters", "2"):
        yield


@contextmanager
def limit_codegen(spark: SparkSession, checks: int) -> Iterator[None]:
    """Turn off whole-stage code generation within the block if there are many checks. The method for some hundreds of them
    takes more memory to compile than a run has.
    """
    with set_session_property(spark, "spark.sql.codegen.wholeStage", "false") if checks > MOST_COMPILED else nullcontext():
        yield


@contextmanager
def no_codegen(spark: SparkSession) -> Iterator[None]:
    """Within the block, expressions are interpreted: compiling a projection with hundreds of branches takes half a minute."""
    with (
        set_session_property(spark, "spark.sql.codegen.wholeStage", "false"),
        set_session_property(spark, "spark.sql.codegen.factoryMode", "NO_CODEGEN"),
    ):
        yield


@contextmanager
def disable_ansi(spark: SparkSession) -> Iterator[None]:
    """Within the block, a new expression gives NULL where a cast or a division would stop the scan."""
    with set_session_property(spark, "spark.sql.ansi.enabled", "false"):
        yield


@contextmanager
def rule_semantics(spark: SparkSession) -> Iterator[None]:
    """Within the block, a new expression means what it means in a lake: by ANSI rules, with times in UTC.

    Build a frame in it and run it outside: files that the session reads then keep the session's own meaning.
    """
    with (
        set_session_property(spark, "spark.sql.ansi.enabled", "true"),
        set_session_property(spark, "spark.sql.session.timeZone", "UTC"),
    ):
        yield


@contextmanager
def set_session_property(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """Within the block, the session has this value of a property."""
    before = spark.conf.get(key, None)
    spark.conf.set(key, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, before)
