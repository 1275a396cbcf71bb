"""Functions in SQL of the configuration: whether Spark has them, and how much they may make of one value.

Belongs here: names and sizes, so that a mistake fails when the YAML is loaded, not in every window. Does not: forbidden
functions (guard), patterns (patterns, bounds), or columns (columns).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

from sqlglot import exp, parse_one

from lakehouse_assets.errors import ConfigError
from lakehouse_assets.extensions import extensions

# Part of Spark's grammar and written like functions, so not in its list.
SYNTAX = frozenset({"try_cast", "timestampadd", "timestampdiff"})
CALL = re.compile(r"([A-Za-z_]\w*)\(")
LARGEST = 10_000
# Functions that return a text of a size: the argument with the size.
GROWING: dict[type[exp.Expr], str] = {exp.Repeat: "times", exp.Space: "this", exp.Pad: "expression"}


@dataclass(frozen=True)
class SqlFunction:
    """A function that SQL of the configuration may call. It must be deterministic, and only read its arguments.

    ``returns``: a Spark SQL type. One of ``python``: a function of plain values; ``java``: a class of Spark's `UDF0` to `UDF22`
    that is on Spark's class path (`spark.jars`).
    """

    name: str
    returns: str
    python: Callable[..., Any] | None = None
    java: str | None = None


@cache
def own_functions() -> dict[str, SqlFunction]:
    """Return the extensions' functions by name. Raises ConfigError for an unfit one, or a name that is taken."""
    by_name: dict[str, SqlFunction] = {}
    sources: dict[str, str] = {}
    for extension in extensions("functions"):
        own = [each for each in extension.members if isinstance(each, SqlFunction)]
        if not own:
            raise ConfigError(f"{extension.source}: it has no SQL function: a value of SqlFunction")
        for each in own:
            if not re.fullmatch(r"[a-z_][a-z0-9_]{0,99}", each.name):
                raise ConfigError(f"{extension.source}: function {each.name!r}: lower-case letters, digits and _, at most 100")
            if each.name in spark_functions() | SYNTAX:
                raise ConfigError(f"{extension.source}: function {each.name!r}: Spark has a function of this name; rename it")
            if not isinstance(parse_one(f"{each.name}(x)", dialect="spark"), exp.Anonymous):
                raise ConfigError(f"{extension.source}: function {each.name!r}: SQL's grammar has this name already; rename it")
            if each.name in sources:
                raise ConfigError(f"two SQL functions are called {each.name!r}: in {sources[each.name]} and {extension.source}")
            if (each.python is None) == (each.java is None):
                raise ConfigError(f"{extension.source}: function {each.name!r}: give it either `python` or `java`")
            by_name[each.name], sources[each.name] = each, extension.source
    return by_name


@cache
def spark_functions() -> frozenset[str]:
    """Return Spark's built-in functions, from a stored copy of `SHOW FUNCTIONS` that needs no session."""
    return frozenset(files("lakehouse_assets.checks.sql").joinpath("spark_functions.txt").read_text("utf-8").split())


@cache
def functions() -> frozenset[str]:
    """Return the functions that SQL may call: Spark's own, and those of extensions."""
    return spark_functions() | own_functions().keys()


def unknown_function(node: exp.Expr) -> str | None:
    """Return the function that a part of parsed SQL calls, if Spark has none of that name.

    >>> from sqlglot import parse_one
    >>> unknown_function(parse_one("lenght(a)", dialect="spark"))
    'lenght'
    >>> unknown_function(parse_one("nvl(a, 1)", dialect="spark"))
    """
    if not isinstance(node, exp.Func):
        return None
    name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
    if name not in functions() and not isinstance(node, exp.Anonymous):
        # Spark's SQL may have another name for it than the configuration, or no call at all.
        call = CALL.match(node.sql(dialect="spark"))
        name = call[1].lower() if call else ""
    return name if name and name not in functions() | SYNTAX else None


def suggestion(name: str) -> str:
    """Return the end of a message with similar names; "" if there are none."""
    near = get_close_matches(name, sorted(functions()), 3)
    return f"; there is {', '.join(near)}" if near else ""


def size_problem(node: exp.Expr) -> str | None:
    """Return why this function could make more than memory holds; None if it cannot.

    >>> from sqlglot import parse_one
    >>> size_problem(parse_one("repeat('x', 2000000000)", dialect="spark"))
    'how much it makes must be written as a number, at most 10,000'
    >>> size_problem(parse_one("lpad(v, 10, '0')", dialect="spark"))
    """
    sizes = _sizes(node)
    if not sizes:
        return None
    numbers = [_number(size) for size in sizes]
    if isinstance(node, exp.GenerateSeries):
        # A series of dates: the ends are no numbers, and the step is an interval.
        if not any(number is not None for number in numbers[:2]):
            return None
        start, end, step = [*numbers, 1][:3]
        is_small = start is not None and end is not None and step and abs(end - start) // abs(step) < LARGEST
    else:
        is_small = numbers[0] is not None and numbers[0] <= LARGEST
    if not is_small:
        return f"how much it makes must be written as a number, at most {LARGEST:,}"
    above = node.parent
    while above is not None:
        # A lambda's body is evaluated for each element of its list.
        elements = above.parent.this.walk() if isinstance(above, exp.Lambda) and above.parent else []
        if _sizes(above) or any(_sizes(part) for part in elements):
            return "it stands within another function that makes much of little"
        above = above.parent
    return None


def _sizes(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.GenerateSeries):
        return [part for part in (node.args.get("start"), node.args.get("end"), node.args.get("step")) if part is not None]
    if isinstance(node, exp.Anonymous) and node.name.lower() == "array_repeat":
        return node.expressions[1:2] or [node]
    for kind, argument in GROWING.items():
        if isinstance(node, kind):
            return [node.args.get(argument) or node]
    return []


def _number(node: exp.Expr) -> int | None:
    negative = isinstance(node, exp.Neg)
    inner = node.this if negative else node
    if not isinstance(inner, exp.Literal) or inner.is_string:
        return None
    try:
        return -int(inner.name) if negative else int(inner.name)
    except ValueError:
        return None
