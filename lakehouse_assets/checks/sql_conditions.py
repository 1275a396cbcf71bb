"""Expressions that stand where something true or false is wanted, and are neither.

Belongs here: what is certainly no condition, by the types of the columns. Does not: what SQL may say (sql_guard), or the
types that Spark compares (types).
"""

from collections.abc import Mapping

from sqlglot import exp

from lakehouse_assets.checks.types import TIMES, family

ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg)
NEVER_TRUE = frozenset({"number", "binary", *TIMES})


def no_condition(tree: exp.Expr, types: Mapping[str, str]) -> str:
    """That an expression is no condition over columns of these types; nothing where it may be one.

    >>> from sqlglot import parse_one
    >>> no_condition(parse_one("a + 1", dialect="spark"), {})
    "'a + 1' is arithmetic, and no condition"
    >>> no_condition(parse_one("a > 1", dialect="spark"), {"a": "int"})
    ''
    """
    bare, what = tree.unnest(), ""
    if isinstance(bare, ARITHMETIC):
        what = "arithmetic"
    elif isinstance(bare, exp.Column) and not bare.table:
        kind = next((kind for name, kind in types.items() if name.lower() == bare.name.lower()), "")
        what = kind if family(kind) in NEVER_TRUE else ""
    return f"{tree.sql(dialect='spark')!r} is {what}, and no condition" if what else ""
