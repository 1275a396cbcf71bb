"""The length limit of texts that SQL of the configuration searches with a regular expression: longer ones are an error.

Belongs here: adding the limit to a parsed tree. Does not: which patterns are refused (patterns, guard), or parsing.
"""

import re
from typing import TypeVar

from sqlglot import exp, parse_one

from lakehouse_assets.checks.pattern_steps import LONGEST
from lakehouse_assets.checks.patterns import has_open_repeat, like_to_regex
from lakehouse_assets.checks.sql.guard import like_escape, patterns_of

Tree = TypeVar("Tree", bound=exp.Expr)
TOO_LONG = f"a text of more than {LONGEST} characters is not searched with a regular expression; take left(x, {LONGEST})"
# Spark answers these without backtracking: the text begins, ends, contains, begins and ends.
PLAIN_LIKE = re.compile(r"%?[^%_\\]*%?|[^%_\\]*%[^%_\\]*")


def limit_searched_texts(tree: Tree) -> Tree:
    """Return the tree, or a copy in which a text that is too long for a pattern with an open repeat is an error, never a pass.

    >>> limit_searched_texts(parse_one("v rlike 'a+b'", dialect="spark")).sql(dialect="spark")[:40]
    'CASE WHEN LENGTH(v) > 4096 THEN RAISE_ER'
    >>> limit_searched_texts(parse_one("v rlike '^[a-z]'", dialect="spark")).sql(dialect="spark")
    "v RLIKE '^[a-z]'"
    """
    if not any(_has_open_search(node) for node in tree.walk()):
        return tree
    changed = tree.copy()
    # Inner nodes first, since outer ones copy them.
    for node in reversed(list(changed.walk())):
        if _has_open_search(node):
            subject = node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
            if not isinstance(subject, exp.Literal):
                subject.replace(_or_error(subject.copy()))
    return changed


def _has_open_search(node: exp.Expr) -> bool:
    patterns = [pattern.name for pattern in patterns_of(node) if pattern is not None]
    if isinstance(node, exp.Like | exp.ILike):
        escape = like_escape(node)
        searched = [pattern for pattern in patterns if escape in pattern or not PLAIN_LIKE.fullmatch(pattern)]
        patterns = [like_to_regex(pattern, escape) for pattern in searched]
    return any(map(has_open_repeat, patterns))


def _or_error(text: exp.Expr) -> exp.Expr:
    """Return the text, or an error beyond the limit. A computed text occurs once, or nested texts would grow without end."""
    if isinstance(text, exp.Column):
        return _case(text)
    tree = parse_one("element_at(transform(array(computed), _text -> checked), 1)", dialect="spark")
    computed, checked = (next(c for c in tree.find_all(exp.Column) if c.name == name) for name in ("computed", "checked"))
    checked.replace(_case(exp.to_identifier("_text")))
    computed.replace(text)
    return tree


def _case(text: exp.Expr) -> exp.Expr:
    length = exp.func("length", text.copy(), dialect="spark")
    error = exp.Anonymous(this="raise_error", expressions=[exp.Literal.string(TOO_LONG)])
    return exp.Case().when(exp.GT(this=length, expression=exp.Literal.number(LONGEST)), error).else_(text.copy())
