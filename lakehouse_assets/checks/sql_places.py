"""Where a part of parsed SQL stands in its text.

Belongs here: lines of nodes. Does not: what SQL may say (sql_guard), or files (contracts).
"""

from sqlglot import exp


def line_of(node: exp.Expr) -> int:
    """The line, from 1, on which a node of a parsed tree begins; of the nearest part around it where itself keeps no place.

    >>> from sqlglot import parse_one
    >>> line_of(parse_one("select a,\\n b + 1 as c from t").selects[1])
    2
    """
    around: exp.Expr | None = node
    while around is not None:
        lines = [part.meta["line"] for part in around.walk() if "line" in part.meta]
        if lines:
            return min(lines)
        around = around.parent
    return 1
