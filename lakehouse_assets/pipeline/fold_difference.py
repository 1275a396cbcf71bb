"""Silver's rows against those of its fold: which of them only one of the two has.

Belongs here: this comparison. Does not: the fold itself (fold), or replacing silver by it (operations/rebuild).
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql.text import identifier


def find_differences(silver: DataFrame, folded: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return the rows that only silver has, and those that only the fold has, each as often as the other lacks it.

    Only columns of both in the same type are compared: of another type nothing can be.
    """
    kinds = dict(silver.dtypes)
    shared = [name for name, kind in folded.dtypes if kinds.get(name) == kind]
    of_silver, of_fold = _select_comparable(silver, shared), _select_comparable(folded, shared)
    return of_silver.exceptAll(of_fold), of_fold.exceptAll(of_silver)


def _select_comparable(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return these columns. Spark compares all but maps, and what has one within: those as text."""
    kinds = dict(rows.dtypes)
    texts = {name: F.to_json(identifier(name)).alias(name) for name in columns if "map<" in kinds[name]}
    return rows.select(*[texts.get(name, F.col(identifier(name))) for name in columns])
