"""The functions that Spark has: one that it has not is told when the YAML is loaded, and not by every window.

Belongs here: names of functions in parsed SQL. Does not: which of them may not be used (sql_guard), or columns (sql_columns).
"""

import re
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

from sqlglot import exp

# Written like functions, and part of Spark's grammar: it does not list them.
SYNTAX = frozenset({"try_cast", "timestampadd", "timestampdiff"})
CALLED = re.compile(r"([A-Za-z_]\w*)\(")


@cache
def functions() -> frozenset[str]:
    """Spark's built-in functions, as `SHOW FUNCTIONS` lists them (kept as a file, so that no session is needed)."""
    return frozenset(files("lakehouse_assets.checks").joinpath("spark_functions.txt").read_text("utf-8").split())


def unknown_function(node: exp.Expr) -> str | None:
    """The function that a part of parsed SQL calls, where Spark has none of that name.

    >>> from sqlglot import parse_one
    >>> unknown_function(parse_one("lenght(a)", dialect="spark"))
    'lenght'
    >>> unknown_function(parse_one("nvl(a, 1)", dialect="spark"))
    """
    if not isinstance(node, exp.Func):
        return None
    name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
    if name not in functions() and not isinstance(node, exp.Anonymous):
        # As it is written for Spark, which may be by another name than in the configuration, or as no call at all.
        called = CALLED.match(node.sql(dialect="spark"))
        name = called[1].lower() if called else ""
    return name if name and name not in functions() | SYNTAX else None


def like_it(name: str) -> str:
    """What may have been meant, for a message; nothing where no name is near."""
    near = get_close_matches(name, sorted(functions()), 3)
    return f"; there is {', '.join(near)}" if near else ""
