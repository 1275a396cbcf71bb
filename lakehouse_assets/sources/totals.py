"""What a database says of a window: the figures of `source.control`.

Belongs here: the aggregates as SQL, and what they are of no rows. Does not: the connection (postgres).
"""

from collections.abc import Sequence

from lakehouse_assets.checks.control import ControlTotals
from lakehouse_assets.contracts.jdbc_source import JdbcSource
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.errors import SourceError
from lakehouse_assets.sources.postgres import Postgres, Span, name_in_sql

NUMBERS = ("smallint", "integer", "bigint", "real", "double precision", "numeric")


def totals(source: JdbcSource, database: Postgres, spans: Sequence[Span]) -> dict[Window, ControlTotals]:
    """Of each of these windows. One query. Raises SourceError, also for a column that is not there or is no number."""
    asked = source.totals
    if not asked:
        return {}
    for figure, (name, column) in asked.items():
        kind = database.kinds.get(column)
        if column != "*" and kind is None:
            raise SourceError(f"{source.place}: source.control.{figure}: there is no column {column!r}")
        if name != "count" and kind not in NUMBERS:
            raise SourceError(f"{source.place}: source.control.{figure}: {column} is {kind}, and no number")
    cells = [f"{name}({column if column == '*' else name_in_sql(column)})::float8" for name, column in asked.values()]
    answered = database.grouped(cells, spans)
    none = tuple(0.0 if name == "count" else None for name, _ in asked.values())
    return {s.window: ControlTotals(dict(zip(asked, answered.get(s.window, none), strict=True))) for s in spans}
