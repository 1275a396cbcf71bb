"""SQL as text, never spliced: identifiers and literals built by sqlglot, expressions of the configuration parsed and guarded.

Belongs here: the shape of what may be written in a YAML expression and how it is changed safely. Does not: what no SQL may
say (sql_guard), or any check kind.
"""

import re
from collections.abc import Collection, Iterable
from datetime import UTC, date, datetime
from typing import Any

from sqlglot import Dialect, TokenType, exp
from sqlglot.errors import SqlglotError

from lakehouse_assets.checks.sql_bounds import limited
from lakehouse_assets.checks.sql_guard import SUBSTITUTED, guard, refuse_neighbours, shown

# Their answer hangs on the order of the rows, which nobody promises; of the last three where rows are alike.
BY_ORDER = (
    exp.First, exp.Last, exp.AnyValue, exp.FirstValue, exp.LastValue, exp.ArrayAgg, exp.GroupConcat,
    exp.Mode, exp.ArgMax, exp.ArgMin,
)  # fmt: skip
LONGEST = 20_000


def identifier(name: str) -> str:
    """A column or view name, quoted for Spark.

    >>> identifier("a`b")
    '`a``b`'
    """
    if SUBSTITUTED in name:
        raise ValueError(f"the name {name!r} holds `{SUBSTITUTED}`, which Spark would replace")
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
        moment = value.astimezone(UTC) if value.tzinfo else value
        return f"TIMESTAMP '{moment.replace(tzinfo=None).isoformat(' ', 'microseconds')}Z'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, float):
        return f"CAST({exp.Literal.string(repr(value)).sql(dialect='spark')} AS DOUBLE)"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        parts = re.split(r"(?<=\$)(?=\{)", value)
        quoted = [exp.Literal.string(part).sql(dialect="spark") for part in parts]
        return quoted[0] if len(quoted) == 1 else f"CONCAT({', '.join(quoted)})"
    raise TypeError(f"no SQL literal for {type(value).__name__}")


def unlike(column: str, pattern: str, longest: int) -> str:
    """SQL, true for a text in which the pattern is not found. A longer text is not looked at, and true as well: the time that
    a pattern takes grows with the text.
    """
    name = identifier(column)
    return f"CASE WHEN length({name}) > {longest} THEN TRUE ELSE NOT ({name} RLIKE {literal(pattern)}) END"


def none_of(column: str, values: Iterable[Any]) -> str:
    """SQL, true for a value that is none of these.

    >>> none_of("a", [1, 2])
    '`a` NOT IN (1, 2)'
    """
    return f"{identifier(column)} NOT IN ({', '.join(literal(value) for value in values)})"


def parse_expression(text: str, what: str, *, allow_windows: bool = False, parameters: Collection[str] = ()) -> exp.Expr:
    """One expression over a row (with ``allow_windows``, over its batch). Raises ValueError naming what is refused.

    ``parameters``: names that may stand in it, as ``:name``.
    """
    tree = _one("SELECT ", text, what)
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1 or set(_clauses(tree)) != {"expressions"}:
        raise ValueError(f"{what}: {text!r} is not one SQL expression")
    expression = tree.expressions[0]
    if isinstance(expression, exp.Alias | exp.Star):
        raise ValueError(f"{what}: {text!r} is not one SQL expression")
    guard(expression, text, what)
    if any(parameter.name not in parameters for parameter in expression.find_all(exp.Placeholder)):
        known = f": there are {', '.join(f':{name}' for name in parameters)}" if parameters else ""
        raise ValueError(f"{what}: a parameter is not allowed in {text!r}{known}")
    if expression.find(exp.Subquery, exp.Select, exp.Exists):
        raise ValueError(f"{what}: a subquery is not allowed in {text!r}")
    if not allow_windows and expression.find(exp.Window):
        raise ValueError(f"{what}: a window function is not allowed in {text!r}")
    if any(window.alias for window in expression.find_all(exp.Window)):
        raise ValueError(f"{what}: write the window out, `over (…)`, in {text!r}: a named one is not declared here")
    bare = [node for node in expression.find_all(exp.AggFunc) if not node.find_ancestor(exp.Window)]
    if bare:
        raise ValueError(f"{what}: an aggregate needs `over (…)` in {text!r}")
    return limited(expression)


def parse_aggregate(text: str, what: str) -> exp.Expr:
    """One number of a whole group of rows, such as ``sum(x)``. Raises ValueError naming what is refused."""
    tree = _one("SELECT ", text, what)
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1 or set(_clauses(tree)) != {"expressions"}:
        raise ValueError(f"{what}: {shown(text)} is not one SQL expression")
    expression = tree.expressions[0]
    guard(expression, text, what)
    if expression.find(exp.Placeholder, exp.Subquery, exp.Select, exp.Exists, exp.Window):
        raise ValueError(f"{what}: only aggregates of columns are allowed in {shown(text)}")
    if node := expression.find(*BY_ORDER):
        raise ValueError(f"{what}: {node.sql(dialect='spark')} depends on the order of the rows, in {shown(text)}")
    if any(node.find_ancestor(exp.AggFunc) for node in expression.find_all(exp.AggFunc)):
        raise ValueError(f"{what}: an aggregate of an aggregate has no meaning in {shown(text)}")
    if isinstance(expression, exp.Alias) or not expression.find(exp.AggFunc):
        raise ValueError(f"{what}: {shown(text)} is no aggregate, such as sum(x) or count(*)")
    if any(node.find_ancestor(exp.Where) for node in expression.find_all(exp.AggFunc)):
        raise ValueError(f"{what}: an aggregate within FILTER has no meaning in {shown(text)}")
    bare = [c for c in expression.find_all(exp.Column) if not c.find_ancestor(exp.AggFunc, exp.Filter)]
    if bare:
        raise ValueError(f"{what}: {bare[0].name} is outside of any aggregate in {shown(text)}")
    return limited(expression)


def of_clean_rows(aggregate: exp.Expr) -> str:
    """An aggregate (as `parse_aggregate` gives it) over the clean rows of a staged batch.

    >>> of_clean_rows(parse_aggregate("sum(a) / count(*)", "x"))
    'SUM(a) FILTER(WHERE _clean) / COUNT(*) FILTER(WHERE _clean)'
    >>> of_clean_rows(parse_aggregate("sum(a) filter (where b or c)", "x"))
    'SUM(a) FILTER(WHERE _clean AND (b OR c))'
    """

    def of_clean(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Filter):
            return exp.Filter(this=node.this, expression=exp.Where(this=exp.and_(exp.column("_clean"), node.expression.this)))
        if isinstance(node, exp.AggFunc) and not node.find_ancestor(exp.AggFunc, exp.Filter):
            return exp.Filter(this=node.copy(), expression=exp.Where(this=exp.column("_clean")))
        return node

    return aggregate.copy().transform(of_clean).sql(dialect="spark")


def parse_select(text: str, what: str) -> exp.Select:
    """One read-only SELECT over `batch`. Raises ValueError naming what is refused."""
    tree = _one("", text, what)
    if not isinstance(tree, exp.Select):
        raise ValueError(f"{what}: only one SELECT is allowed, not {text!r}")
    guard(tree, text, what)
    for given in tree.find_all(exp.With):
        if given.recursive or any(cte.alias.lower() == "batch" for cte in given.expressions):
            raise ValueError(f"{what}: a recursive WITH, or one named `batch`, is not allowed in {text!r}")
    for table in tree.find_all(exp.Table):
        plain = isinstance(table.this, exp.Identifier) and not table.db
        if not plain or (table.name.lower() != "batch" and not _declared(table)):
            raise ValueError(f"{what}: only `batch` can be read, not {table.sql(dialect='spark')}")
    return limited(tree)


def columns_of(expression: exp.Expr) -> set[str]:
    """Names of the columns that an expression uses; of `a.b` it is `a`."""
    return {column.parts[0].name for column in expression.find_all(exp.Column)}


def _declared(table: exp.Table) -> bool:
    """Whether a name is one of WITH that is visible here: a query's own name, or a later one, would read the catalog."""
    below: exp.Expr = table
    node = table.parent
    passed: set[int] = set()
    while node:
        passed.add(id(below))
        given = node.args.get("with_")
        for cte in given.expressions if given else ():
            if id(cte) in passed:
                break
            if cte.alias.lower() == table.name.lower():
                return True
        below, node = node, node.parent
    return False


def add_partition(expression: exp.Expr, column: str) -> exp.Expr:
    """Every window function of the expression also partitioned by a column, so that it never looks across batches."""
    changed = expression.copy()
    for window in changed.find_all(exp.Window):
        added = exp.column(exp.to_identifier(column, quoted=True))
        window.set("partition_by", [*(window.args.get("partition_by") or []), added])
    return changed


def _clauses(tree: exp.Select) -> list[str]:
    return [name for name, value in tree.args.items() if value and name not in ("kind", "hint")]


def _one(prefix: str, text: str, what: str) -> exp.Expr:
    if not text.strip():
        raise ValueError(f"{what}: the SQL is empty")
    if len(text) > LONGEST:
        raise ValueError(f"{what}: the SQL is longer than {LONGEST} characters")
    if SUBSTITUTED in text:
        raise ValueError(f"{what}: `{SUBSTITUTED}` is not allowed in {text!r}: Spark would put a setting in its place")
    spark = Dialect.get_or_raise("spark")
    try:
        tokens = spark.tokenize(prefix + text)
        if any(token.comments or token.token_type in (TokenType.SEMICOLON, TokenType.HINT) for token in tokens):
            raise ValueError(f"{what}: comments and `;` are not allowed in {text!r}")
        refuse_neighbours(tokens, text, what)
        trees = spark.parser().parse(tokens, prefix + text)
        for tree in trees:
            # Written once here, so that what nests too deeply to be written is refused when it is loaded.
            str(tree and tree.sql(dialect="spark"))
    except SqlglotError as error:
        raise ValueError(f"{what}: {text!r} is not SQL: {str(error).splitlines()[0][:200]}") from None
    except RecursionError:
        raise ValueError(f"{what}: the SQL is nested too deeply") from None
    if len(trees) != 1 or trees[0] is None:
        raise ValueError(f"{what}: {text!r} is not one SQL expression")
    return trees[0]
