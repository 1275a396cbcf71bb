"""Rows of staged Parquet files read by Arrow: of few rows, a query of Spark takes longer to plan than to run.

Belongs here: reading the newest rows of one batch. Does not: staging them (pipeline/staging), or merging them (small_merges).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import dataset

from lakehouse_assets.storage.footers import has_int96, has_julian_days, path_of, read_footer

# The folder of what is staged apart.
NEWEST, OTHERS = "/_newest=true/", "/_newest=false/"


@dataclass(frozen=True)
class StagedBatch:
    """``files``: all files of a staging, as Spark names them. ``count``: the rows of its only batch; None: there are others, or
    the rows to publish are not as they are staged.
    """

    files: Sequence[str]
    count: int | None = None

    def read_newest(self, columns: Sequence[str]) -> pa.Table | None:
        """Return these columns of the clean rows that are the newest of their keys. None where Arrow cannot read them, or may
        read them otherwise than Spark does; or if the files have other rows than those of the batch.
        """
        try:
            return None if self.count is None else _read_newest(self.files, columns, self.count)
        except (OSError, pa.ArrowException):
            return None


def _read_newest(files: Sequence[str], columns: Sequence[str], count: int) -> pa.Table | None:
    footers = {path_of(file): read_footer(path_of(file)) for file in files}
    if sum(footer.num_rows for footer in footers.values()) != count:
        return None
    if any(has_julian_days(footer) or has_int96(footer) for footer in footers.values()):
        return None
    apart = [path for path in footers if NEWEST in path]
    paths = apart or [path for path in footers if OTHERS not in path]
    if not paths:
        return None
    newest, clean = dataset.field("_newest"), dataset.field("_clean")
    return dataset.dataset(paths, format="parquet").to_table(columns=list(columns), filter=clean if apart else clean & newest)
