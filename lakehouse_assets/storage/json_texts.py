"""Values of Spark as JSON: different values have different texts.

Belongs here: the one way to write them. Does not: reading JSON (sources), or JSON of Python's values.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

MOMENT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
# Spark's own format cuts moments off at the millisecond.
EXACT = {"timestampFormat": f"{MOMENT}XXX", "timestampNTZFormat": MOMENT}


def as_json(value: Column, *, with_nulls: bool = False) -> Column:
    """Return a struct, an array or a map as JSON, with moments to the microsecond. ``with_nulls``: NULL fields, too."""
    return F.to_json(value, EXACT | {"ignoreNullFields": "false"} if with_nulls else EXACT)
