"""How long a text may be that SQL of the configuration searches with a regular expression: longer ones are an error.

Belongs here: putting the limit into a parsed tree. Does not: which patterns are refused (patterns, sql_guard), or parsing.
"""

import re
from typing import TypeVar

from sqlglot import exp, parse_one

from lakehouse_assets.checks.patterns import LONGEST, of_like, opens
from lakehouse_assets.checks.sql_guard import escape_of, patterns_of

Tree = TypeVar("Tree", bound=exp.Expr)
TOO_LONG = f"a text of more than {LONGEST} characters is not searched with a regular expression; take left(x, {LONGEST})"
# What Spark, or a single pass, answers without trying again: the text begins, ends or holds, begins and ends.
PLAIN_LIKE = re.compile(r"%?[^%_\\]*%?|[^%_\\]*%[^%_\\]*")


def limited(tree: Tree) -> Tree:
    """The tree, or a copy in which no pattern with an open repeat meets a text that is too long: that is an error, and so
    never a pass.

    >>> limited(parse_one("v rlike 'a+b'", dialect="spark")).sql(dialect="spark")[:40]
    'CASE WHEN LENGTH(v) > 4096 THEN RAISE_ER'
    >>> limited(parse_one("v rlike '^[a-z]'", dialect="spark")).sql(dialect="spark")
    "v RLIKE '^[a-z]'"
    """
    if not any(_searches_openly(node) for node in tree.walk()):
        return tree
    changed = tree.copy()
    # What stands within comes first, so that what stands around it takes it up.
    for node in reversed(list(changed.walk())):
        if _searches_openly(node):
            subject = node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
            if not isinstance(subject, exp.Literal):
                subject.replace(_or_error(subject.copy()))
    return changed


def _searches_openly(node: exp.Expr) -> bool:
    likes = isinstance(node, exp.Like | exp.ILike)
    for pattern in patterns_of(node):
        if pattern is None:
            continue
        escape = escape_of(node)
        if likes and PLAIN_LIKE.fullmatch(pattern.name) and escape not in pattern.name:
            continue
        if opens(of_like(pattern.name, escape) if likes else pattern.name):
            return True
    return False


def _or_error(text: exp.Expr) -> exp.Expr:
    """The text itself up to the limit. What is computed is mentioned once, or texts within texts would grow without end."""
    if isinstance(text, exp.Column):
        return _case(text)
    tree = parse_one("element_at(transform(array(given), _text -> searched), 1)", dialect="spark")
    given, searched = (next(c for c in tree.find_all(exp.Column) if c.name == name) for name in ("given", "searched"))
    searched.replace(_case(exp.to_identifier("_text")))
    given.replace(text)
    return tree


def _case(text: exp.Expr) -> exp.Expr:
    length = exp.func("length", text.copy(), dialect="spark")
    error = exp.Anonymous(this="raise_error", expressions=[exp.Literal.string(TOO_LONG)])
    return exp.Case().when(exp.GT(this=length, expression=exp.Literal.number(LONGEST)), error).else_(text.copy())
