"""SQL as text, never spliced: identifiers and literals built by sqlglot, expressions of the configuration parsed and guarded.

Belongs here: what may be written in a YAML expression and how it is changed safely. Does not: any check kind.
"""

from datetime import date, datetime
from typing import Any

from sqlglot import exp, parse
from sqlglot.errors import SqlglotError

# Code that leaves the data, or that gives another answer the second time. Configuration never runs code (law 5).
FORBIDDEN = frozenset(
    (
        "reflect try_reflect java_method rand random randn uuid shuffle uniform randstr now current_timestamp current_date "
        "current_time localtimestamp unix_timestamp curdate getdate monotonically_increasing_id spark_partition_id "
        "input_file_name input_file_block_start input_file_block_length current_user session_user user current_catalog "
        "current_database current_schema version sleep"
    ).split()
)
NONDETERMINISTIC = (exp.Rand, exp.Randn, exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.CurrentUser, exp.Uuid)


def identifier(name: str) -> str:
    """A column or view name, quoted for Spark.

    >>> identifier("a`b")
    '`a``b`'
    """
    return exp.to_identifier(name, quoted=True).sql(dialect="spark")


def literal(value: Any) -> str:
    """A value as Spark SQL. Times are UTC; raises TypeError for a type that has no literal.

    >>> literal("it's")
    "'it\\\\'s'"
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}Z'"
    if isinstance(value, date):
        return f"DATE '{value:%Y-%m-%d}'"
    if isinstance(value, float):
        return f"CAST({exp.Literal.string(repr(value)).sql(dialect='spark')} AS DOUBLE)"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return exp.Literal.string(value).sql(dialect="spark")
    raise TypeError(f"no SQL literal for {type(value).__name__}")


def parse_expression(text: str, what: str, *, allow_windows: bool = False) -> exp.Expr:
    """One expression over a row (with ``allow_windows``, over its batch). Raises ValueError naming what is refused."""
    tree = _one(f"SELECT {text}", text, what)
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1 or set(_clauses(tree)) != {"expressions"}:
        raise ValueError(f"{what}: {text!r} is not one SQL expression")
    expression = tree.expressions[0]
    if isinstance(expression, exp.Alias | exp.Star):
        raise ValueError(f"{what}: {text!r} is not one SQL expression")
    _guard(expression, text, what)
    if expression.find(exp.Subquery, exp.Select, exp.Exists):
        raise ValueError(f"{what}: a subquery is not allowed in {text!r}")
    if not allow_windows and expression.find(exp.Window):
        raise ValueError(f"{what}: a window function is not allowed in {text!r}")
    bare = [node for node in expression.find_all(exp.AggFunc) if not node.find_ancestor(exp.Window)]
    if bare:
        raise ValueError(f"{what}: an aggregate needs `over (…)` in {text!r}")
    return expression


def parse_select(text: str, what: str) -> exp.Select:
    """One read-only SELECT over `batch`. Raises ValueError naming what is refused."""
    tree = _one(text, text, what)
    if not isinstance(tree, exp.Select):
        raise ValueError(f"{what}: only one SELECT is allowed, not {text!r}")
    _guard(tree, text, what)
    names = {cte.alias for cte in tree.find_all(exp.CTE)} | {"batch"}
    for table in tree.find_all(exp.Table):
        if table.name not in names or table.db:
            raise ValueError(f"{what}: only `batch` can be read, not {table.sql(dialect='spark')}")
    return tree


def columns_of(expression: exp.Expr) -> set[str]:
    """Names of the columns that an expression uses."""
    return {column.name for column in expression.find_all(exp.Column)}


def add_partition(expression: exp.Expr, column: str) -> exp.Expr:
    """Every window function of the expression also partitioned by a column, so that it never looks across batches."""
    changed = expression.copy()
    for window in changed.find_all(exp.Window):
        added = exp.column(exp.to_identifier(column, quoted=True))
        window.set("partition_by", [*(window.args.get("partition_by") or []), added])
    return changed


def _clauses(tree: exp.Select) -> list[str]:
    return [name for name, value in tree.args.items() if value and name not in ("kind", "hint")]


def _one(sql: str, text: str, what: str) -> exp.Expr:
    if not text.strip():
        raise ValueError(f"{what}: the SQL is empty")
    if "--" in text or "/*" in text or ";" in _without_strings(text):
        raise ValueError(f"{what}: comments and `;` are not allowed in {text!r}")
    try:
        trees = parse(sql, dialect="spark")
    except SqlglotError as error:
        raise ValueError(f"{what}: {text!r} is not SQL: {str(error).splitlines()[0][:200]}") from None
    except RecursionError:
        raise ValueError(f"{what}: the SQL is nested too deeply") from None
    if len(trees) != 1 or trees[0] is None:
        raise ValueError(f"{what}: {text!r} is not one SQL expression")
    return trees[0]


def _without_strings(text: str) -> str:
    kept, quote = [], ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"`":
            quote = character
        else:
            kept.append(character)
    return "".join(kept)


def _guard(tree: exp.Expr, text: str, what: str) -> None:
    for node in tree.walk():
        if isinstance(node, NONDETERMINISTIC):
            raise ValueError(
                f"{what}: {node.sql(dialect='spark')} is not allowed in {text!r}: it gives another answer each time"
            )
        if isinstance(node, exp.Func):
            name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
            if name in FORBIDDEN:
                raise ValueError(f"{what}: the function {name} is not allowed in {text!r}")
        if isinstance(
            node, exp.Command | exp.DDL | exp.Insert | exp.Update | exp.Delete | exp.Merge | exp.Into
        ) and not isinstance(node, exp.Query):
            raise ValueError(f"{what}: only reading is allowed in {text!r}")
