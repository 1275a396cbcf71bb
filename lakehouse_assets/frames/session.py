"""The session and the frame that a gate is given: what it cannot work with is refused before anything is read.

Belongs here: refusals, and a session of the gate's own beside the caller's. Does not: starting a JVM (storage/session).
"""

import re
from contextlib import suppress
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakehouse_assets.errors import EnvironmentMissing, RefusedError
from lakehouse_assets.storage.java import is_connect
from lakehouse_assets.storage.sql_functions import register_functions

OLDEST = (4, 1)
ANSI = "spark.sql.ansi.enabled"
ZONE = "spark.sql.session.timeZone"
STREAM = (
    "call the gate for each micro-batch: `frame.writeStream.foreachBatch(lambda batch, number: gate.publish(batch, …).close())`"
)


def require_frame(frame: Any) -> DataFrame:
    """Return the frame if a gate can judge it. Raises RefusedError for another object, a stream or a closed session, and
    EnvironmentMissing for an older Spark.
    """
    if not isinstance(frame, DataFrame):
        raise RefusedError(f"a PySpark DataFrame is wanted, not a {type(frame).__module__}.{type(frame).__qualname__}")
    require_session(frame.sparkSession)
    if frame.isStreaming:
        raise RefusedError(f"the frame is a stream, which has no end; {STREAM}")
    names: dict[str, str] = {}
    for name in frame.columns:
        if name.lower() in names:
            both = f"{names[name.lower()]!r} and {name!r}"
            raise RefusedError(f"the frame has two columns {both}, which SQL cannot tell apart; rename one of them")
        names[name.lower()] = name
    return frame


def require_session(spark: SparkSession) -> None:
    """Raise RefusedError for a closed session, and EnvironmentMissing for one of a Spark before 4.1."""
    if is_closed(spark):
        raise RefusedError("the frame's Spark session is closed; start one, and read the frame with it")
    version = str(spark.version)
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or tuple(map(int, numbers.groups())) < OLDEST:
        raise EnvironmentMissing(f"the session is of Spark {version}; the gate needs Spark 4.1, where its sketches begin")
    if is_connect(spark) and spark.conf.get(ANSI, "true") != "true":
        raise EnvironmentMissing(
            f"this Spark Connect session has {ANSI}=false, by which a failing cast would pass; set it to true"
        )
    if is_connect(spark) and (zone := spark.conf.get(ZONE, "UTC")) not in {"UTC", "Etc/UTC", "GMT"}:
        raise EnvironmentMissing(
            f"this Spark Connect session has {ZONE}={zone}, in which times would mean others than in UTC; set it to UTC"
        )


def is_closed(spark: SparkSession) -> bool:
    """Whether the session was stopped."""
    if is_connect(spark):
        return bool(getattr(spark, "is_stopped", False))
    context: Any = spark.sparkContext
    return context._jsc is None or bool(context._jsc.sc().isStopped())


def runs_locally(spark: SparkSession) -> bool:
    """Whether the workers see this process's temporary folder: they are threads of a JVM that it started."""
    return not is_connect(spark) and str(spark.sparkContext.master).startswith("local")


def copy_session(spark: SparkSession) -> SparkSession:
    """Return a copy of the session with its settings, and views of its own, in which rules mean what they mean in a lake.

    The SQL functions of extensions are registered in both: a frame's rows are flagged where they are read. Raises ConfigError
    for one that Spark cannot register.
    """
    register_functions(spark)
    if is_connect(spark):
        own: SparkSession = spark.cloneSession()  # type: ignore[attr-defined]
    else:
        classic: Any = spark
        own = type(classic)(classic.sparkContext, classic._jsparkSession.cloneSession(), {})
    own.conf.set(ANSI, "true")
    own.conf.set(ZONE, "UTC")
    return own


def end_session(own: SparkSession) -> None:
    """End a session of the gate's own. Over Spark Connect it is a session on the server and a channel to it. PySpark would
    wait for them at the end of the process (SPARK-55620). Not by `stop`, which may end a local server under the caller.
    """
    if is_connect(own):
        client: Any = own.client  # type: ignore[attr-defined]
        client.set_retry_policies([])  # a server that is gone has released it: not asked for ten minutes
        with suppress(Exception):
            client.release_session()
        with suppress(Exception):  # what the call did is done
            client.close()
