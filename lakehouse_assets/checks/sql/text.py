"""SQL as text, never spliced: identifiers and literals built by sqlglot, expressions of the configuration parsed and guarded.

Belongs here: the shape of a YAML expression, and safe changes of it. Does not: what no SQL may contain (guard), or any check
kind.
"""

import re
import struct
from collections.abc import Collection, Iterable
from datetime import UTC, date, datetime
from typing import Any

from sqlglot import Dialect, TokenType, exp
from sqlglot.errors import SqlglotError

from lakehouse_assets.checks.sql.bounds import limit_searched_texts
from lakehouse_assets.checks.sql.guard import SUBSTITUTED, guard, quote_text, refuse_adjacent_strings

# Their answer depends on the order of the rows, which is undefined; that of the last three, where rows are equal.
BY_ORDER = (
    exp.First, exp.Last, exp.AnyValue, exp.FirstValue, exp.LastValue, exp.ArrayAgg, exp.GroupConcat,
    exp.Mode, exp.ArgMax, exp.ArgMin,
)  # fmt: skip
LONGEST = 20_000
CONTROL = r"\p{Cntrl}+"
MOST_EXAMPLES, SHORT = 3, 200  # of a batch's failures, and characters of one


def identifier(name: str) -> str:
    """Return a column or view name, quoted for Spark.

    >>> identifier("a`b")
    '`a``b`'
    """
    if SUBSTITUTED in name:
        raise ValueError(f"the name {name!r} holds `{SUBSTITUTED}`, which Spark would replace")
    return exp.to_identifier(name, quoted=True).sql(dialect="spark")


def literal(value: Any) -> str:
    """Return a value as Spark SQL. Times are UTC. Raises TypeError for a type without a literal.

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
        parts = [exp.Literal.string(part).sql(dialect="spark") for part in re.split(r"(?<=\$)(?=\{)", value)]
        return parts[0] if len(parts) == 1 else f"CONCAT({', '.join(parts)})"
    raise TypeError(f"no SQL literal for {type(value).__name__}")


def short_text(value: str) -> str:
    """Return SQL: this text, shortened, on one line. Line breaks mean something in the channels that show it."""
    return f"substring(regexp_replace({value}, {literal(CONTROL)}, ' '), 1, {SHORT})"


def not_matching(column: str, pattern: str, longest: int) -> str:
    """Return SQL that is true for a text without a match. A text over ``longest`` characters has none: it is not searched,
    since the time of a search grows with the text.
    """
    name = identifier(column)
    return f"CASE WHEN length({name}) > {longest} THEN TRUE ELSE NOT ({name} RLIKE {literal(pattern)}) END"


def not_in(column: str, values: Iterable[Any]) -> str:
    """Return SQL that is true for a value other than these.

    >>> not_in("a", [1, 2])
    '`a` NOT IN (1, 2)'
    """
    literals = [float_literal(value, column) if isinstance(value, float) else literal(value) for value in values]
    return f"{identifier(column)} NOT IN ({', '.join(literals)})"


def float_literal(value: float, column: str) -> str:
    """Return SQL of a number as a column of doubles or floats has it. 0.7 as a float is less than 0.7 as a double, and Spark
    would compare them as doubles. It decides by the column's type when it plans. A number that no float is near stays a
    double.
    """
    as_double = literal(value)
    try:
        is_near = bool(struct.unpack("f", struct.pack("f", value))[0]) or not value
    except OverflowError:
        is_near = False
    if not is_near:
        return as_double
    return f"if(typeof({identifier(column)}) = 'float', CAST(CAST({as_double} AS FLOAT) AS DOUBLE), {as_double})"


def parse_expression(text: str, what: str, *, allow_windows: bool = False, parameters: Collection[str] = ()) -> exp.Expr:
    """Return one expression over a row (with ``allow_windows``, over its batch). Raises ValueError that names what is refused.

    ``parameters``: names that it may contain as ``:name``.
    """
    expression = _parse_one_expression(text, what)
    if isinstance(expression, exp.Alias | exp.Star):
        raise ValueError(f"{what}: {text!r} is not one SQL expression")
    if any(parameter.name not in parameters for parameter in expression.find_all(exp.Placeholder)):
        names = f": there are {', '.join(f':{name}' for name in parameters)}" if parameters else ""
        raise ValueError(f"{what}: a parameter is not allowed in {text!r}{names}")
    if expression.find(exp.Subquery, exp.Select, exp.Exists):
        raise ValueError(f"{what}: a subquery is not allowed in {text!r}")
    if not allow_windows and expression.find(exp.Window):
        raise ValueError(f"{what}: a window function is not allowed in {text!r}")
    if any(window.alias for window in expression.find_all(exp.Window)):
        raise ValueError(f"{what}: write the window out, `over (…)`, in {text!r}: a named one is not declared here")
    if any(not node.find_ancestor(exp.Window) for node in expression.find_all(exp.AggFunc)):
        raise ValueError(f"{what}: an aggregate needs `over (…)` in {text!r}")
    return limit_searched_texts(expression)


def parse_aggregate(text: str, what: str) -> exp.Expr:
    """Return one number of a group of rows, such as ``sum(x)``. Raises ValueError that names what is refused."""
    expression = _parse_one_expression(text, what)
    if expression.find(exp.Placeholder, exp.Subquery, exp.Select, exp.Exists, exp.Window):
        raise ValueError(f"{what}: only aggregates of columns are allowed in {quote_text(text)}")
    if node := expression.find(*BY_ORDER):
        raise ValueError(f"{what}: {node.sql(dialect='spark')} depends on the order of the rows, in {quote_text(text)}")
    if any(node.find_ancestor(exp.AggFunc) for node in expression.find_all(exp.AggFunc)):
        raise ValueError(f"{what}: an aggregate of an aggregate has no meaning in {quote_text(text)}")
    if isinstance(expression, exp.Alias) or not expression.find(exp.AggFunc):
        raise ValueError(f"{what}: {quote_text(text)} is no aggregate, such as sum(x) or count(*)")
    if any(node.find_ancestor(exp.Where) for node in expression.find_all(exp.AggFunc)):
        raise ValueError(f"{what}: an aggregate within FILTER has no meaning in {quote_text(text)}")
    bare = [c for c in expression.find_all(exp.Column) if not c.find_ancestor(exp.AggFunc, exp.Filter)]
    if bare:
        raise ValueError(f"{what}: {bare[0].name} is outside of any aggregate in {quote_text(text)}")
    return limit_searched_texts(expression)


def of_clean_rows(aggregate: exp.Expr) -> str:
    """Return an aggregate (from `parse_aggregate`) over the clean rows of a staged batch.

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
    """Return one read-only SELECT over `batch`. Raises ValueError that names what is refused."""
    tree = _parse("", text, what)
    if not isinstance(tree, exp.Select):
        raise ValueError(f"{what}: only one SELECT is allowed, not {text!r}")
    guard(tree, text, what)
    for clause in tree.find_all(exp.With):
        if clause.recursive or any(cte.alias.lower() == "batch" for cte in clause.expressions):
            raise ValueError(f"{what}: a recursive WITH, or one named `batch`, is not allowed in {text!r}")
    for table in tree.find_all(exp.Table):
        is_plain = isinstance(table.this, exp.Identifier) and not table.db
        if not is_plain or (table.name.lower() != "batch" and not _names_cte(table)):
            raise ValueError(f"{what}: only `batch` can be read, not {table.sql(dialect='spark')}")
    return limit_searched_texts(tree)


def columns_of(expression: exp.Expr) -> set[str]:
    """Return the names of the columns that an expression uses; of `a.b`, `a`."""
    return {column.parts[0].name for column in expression.find_all(exp.Column)}


def _names_cte(table: exp.Table) -> bool:
    """Return whether WITH defines this name before its use. A query's own name, or a later one, would read the catalog."""
    below: exp.Expr = table
    node = table.parent
    passed: set[int] = set()
    while node:
        passed.add(id(below))
        clause = node.args.get("with_")
        for cte in clause.expressions if clause else ():
            if id(cte) in passed:
                break
            if cte.alias.lower() == table.name.lower():
                return True
        below, node = node, node.parent
    return False


def add_partition(expression: exp.Expr, column: str) -> exp.Expr:
    """Return the expression with every window function also partitioned by a column, so that it never crosses batches."""
    changed = expression.copy()
    for window in changed.find_all(exp.Window):
        added = exp.column(exp.to_identifier(column, quoted=True))
        window.set("partition_by", [*(window.args.get("partition_by") or []), added])
    return changed


def _parse_one_expression(text: str, what: str) -> exp.Expr:
    tree = _parse("SELECT ", text, what)
    clauses = {name for name, value in tree.args.items() if value and name not in ("kind", "hint")}
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1 or clauses != {"expressions"}:
        raise ValueError(f"{what}: {quote_text(text)} is not one SQL expression")
    guard(tree.expressions[0], text, what)
    return tree.expressions[0]


def _parse(prefix: str, text: str, what: str) -> exp.Expr:
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
        refuse_adjacent_strings(tokens, text, what)
        trees = spark.parser().parse(tokens, prefix + text)
        for tree in trees:
            # SQL that nests too deeply to be written fails here, when the YAML is loaded.
            str(tree and tree.sql(dialect="spark"))
    except SqlglotError as error:
        raise ValueError(f"{what}: {text!r} is not SQL: {str(error).splitlines()[0][:200]}") from None
    except RecursionError:
        raise ValueError(f"{what}: the SQL is nested too deeply") from None
    if len(trees) != 1 or trees[0] is None:
        raise ValueError(f"{what}: {text!r} is not one SQL expression")
    return trees[0]
