"""Lists of jars: a person's beside ours.

Belongs here: names of jars. Does not: which jars a session needs (session).
"""

import re


def join_jars(ours: str, theirs: str) -> list[str]:
    """Return both lists of jars. A person's jar takes the place of ours of the same name, whatever its version."""
    own = [jar.strip() for jar in theirs.split(",") if jar.strip()]
    names = {_artifact(jar) for jar in own}
    return [*(jar for jar in ours.split(",") if jar and _artifact(jar) not in names), *own]


def _artifact(jar: str) -> str:
    """Return a jar's name without its version, and without the group that Ivy puts before it.

    >>> _artifact("/opt/io.delta_delta-spark_4.1_2.13-4.4.0.jar"), _artifact("hdfs://x/delta-spark_4.1_2.13-4.4.1.jar")
    ('delta-spark_4.1_2.13', 'delta-spark_4.1_2.13')
    """
    name = re.sub(r"-\d[\w.-]*\.jar$", "", jar.rpartition("/")[2])
    return re.sub(r"^[a-z][a-z0-9]*(\.[a-z0-9]+)+_", "", name)
