"""What SQL of the configuration may not say, in an expression or a whole query: it only reads, and twice the same.

Belongs here: what is refused of a parsed tree, and on which line. Does not: the shape of an expression or a query (sql_text).
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from sqlglot import Dialect, TokenType, exp
from sqlglot.optimizer.annotate_types import annotate_types

from lakehouse_assets.checks.patterns import of_like, refusal
from lakehouse_assets.checks.sql_functions import like_it, unknown_function
from lakehouse_assets.checks.sql_places import line_of
from lakehouse_assets.checks.sql_sizes import outgrows

# Code that leaves the data, or that gives another answer the second time. Configuration never runs code (law 5).
FORBIDDEN = frozenset(
    name
    for line in (
        "reflect try_reflect java_method transform_keys_udf secret try_secret http_get sleep identifier",
        "from_protobuf to_protobuf",  # they read a file by its path
        "aes_encrypt",  # with a new beginning each time
        "rand random randn randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id",
        "input_file_name input_file_block_start input_file_block_length",
        "now current_timestamp current_date current_time localtimestamp curdate getdate current_timezone",
        "current_user session_user user current_catalog current_database current_schema version",
    )
    for name in line.split()
)
NONDETERMINISTIC = (exp.Rand, exp.Randn, exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.CurrentUser, exp.Uuid)
# Parsed by sqlglot, and then: a shell command (TRANSFORM … USING), a session variable, a random part of the rows, or
# something that sqlglot leaves out when it writes the text again.
CONSTRUCTS: dict[type[exp.Expr], str] = {
    exp.QueryTransform: "TRANSFORM … USING runs a command; it",
    exp.Parameter: "a session variable",
    exp.SessionParameter: "a session variable",
    exp.TableSample: "TABLESAMPLE",
    exp.Pivot: "PIVOT",
    exp.Version: "time travel",
    exp.Hint: "a hint",
}
# Without a column of that name Spark takes these for a function, even without parentheses.
CLOCKS = frozenset({"current_time", "localtimestamp"})
# Spark takes these texts for times of the clock where a date or a timestamp is wanted.
MOVING = re.compile(r"\s*(now|today|yesterday|tomorrow)(\s+\S+)?\s*", re.IGNORECASE)
# What makes letters that stand in none of its texts.
MAKERS = (exp.Chr, exp.Unhex, exp.Decode, exp.FromBase64, exp.Translate)
# Functions whose second argument is a regular expression, whatever they are called in the parsed tree.
OF_PATTERNS = re.compile(r"regexp|rlike|^split$", re.IGNORECASE)
# Spark puts the environment's value in the place of ${env:NAME}, also within quotes.
SUBSTITUTED = "${"


class UnfitError(ValueError):
    """SQL that is refused, and the line of its text, from 1, on which the reason stands."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.line = line


def guard_query(tree: exp.Expr, text: str, what: str) -> None:
    """Refuse in a longer query what no expression may have either. Raises UnfitError naming what is refused."""
    if SUBSTITUTED in text:
        line = text[: text.index(SUBSTITUTED)].count("\n") + 1
        raise UnfitError(f"{what}: `{SUBSTITUTED}` is not allowed: Spark would put a setting in its place", line)
    refuse_neighbours(Dialect.get_or_raise("spark").tokenize(text), text, what)
    guard(tree, text, what)


def guard(tree: exp.Expr, text: str, what: str) -> None:
    """Refuse what no SQL may have. Raises UnfitError naming what is refused."""
    for node in tree.walk():
        if why := _refused(node, text):
            raise UnfitError(f"{what}: {why}", line_of(node))


def refuse_neighbours(tokens: Sequence[Any], text: str, what: str) -> None:
    """Refuse a quote written twice: 'it''s' is it's for Spark and its for sqlglot, whose text is what runs."""
    for one, two in pairwise(tokens):
        if one.token_type == two.token_type == TokenType.STRING:
            why = f"two strings side by side in {shown(text)}: a quote within a string is written \\'"
            raise UnfitError(f"{what}: {why}", one.line)


def shown(text: str) -> str:
    """The text for a message; the beginning of a long one."""
    return repr(text if len(text) <= 200 else text[:200] + "…")


def _refused(node: exp.Expr, text: str) -> str | None:
    """What is wrong with this part, if anything is."""
    for construct, name in CONSTRUCTS.items():
        if isinstance(node, construct):
            return f"{name} is not allowed in {shown(text)}"
    if isinstance(node, exp.PropertyEQ) and not isinstance(node.parent, exp.Struct):
        return f"an assignment is not allowed in {shown(text)}"
    if isinstance(node, exp.Column) and not node.table and node.name.lower() in CLOCKS:
        return f"{node.name} is not allowed in {shown(text)}: it gives another answer each time"
    # Wherever it stands: Spark also casts by itself, to compare it with a time.
    if isinstance(node, exp.Literal) and node.is_string and MOVING.fullmatch(node.name):
        return f"{node.name!r} is not allowed in {shown(text)}: as a time it gives another answer each time"
    if _is_folded_text(node):
        made = node.sql(dialect="spark")
        return f"{made} in {shown(text)}: Spark could make a time of the clock of it; write out the text that it is"
    if why := _unfit_pattern(node, text):
        return why
    if isinstance(node, NONDETERMINISTIC):
        return f"{node.sql(dialect='spark')} is not allowed in {shown(text)}: it gives another answer each time"
    if isinstance(node, exp.Func):
        return _unfit_function(node, text)
    writes = exp.Command | exp.DDL | exp.Insert | exp.Update | exp.Delete | exp.Merge | exp.Into
    if isinstance(node, writes) and not isinstance(node, exp.Query):
        return f"only reading is allowed in {shown(text)}"
    return None


def _unfit_function(node: exp.Func, text: str) -> str | None:
    name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
    if name in FORBIDDEN:
        return f"the function {name} is not allowed in {shown(text)}"
    if unknown := unknown_function(node):
        return f"Spark has no function {unknown} (in {shown(text)}){like_it(unknown)}"
    if why := outgrows(node):
        return f"{node.sql(dialect='spark')} in {shown(text)}: {why}"
    return None


def _is_folded_text(node: exp.Expr) -> bool:
    """Whether it is a text made of constants alone, which Spark puts together before it looks for `now` or `today`; passed
    over where their letters cannot make such a word.
    """
    if not isinstance(node, exp.Func | exp.DPipe | exp.Bracket) or not node.find(exp.Literal):
        return False
    if node.find(exp.Identifier, exp.Star, exp.Placeholder):
        return False
    letters = {letter for text in node.find_all(exp.Literal) for letter in text.name.lower()}
    if not node.find(*MAKERS) and not any(letters.issuperset(word) for word in ("now", "today", "yesterday", "tomorrow")):
        return False
    kind = annotate_types(node.copy(), dialect="spark").type
    return kind is not None and kind.is_type(*exp.DataType.TEXT_TYPES)


def _unfit_pattern(node: exp.Expr, text: str) -> str | None:
    """A regular expression must be written out, and end on every value; LIKE's too, which Spark makes into one."""
    likes = isinstance(node, exp.Like | exp.ILike)
    for pattern in patterns_of(node):
        if not isinstance(pattern, exp.Literal | exp.RawString):
            way_out = " (contains, startswith and endswith take columns)" if likes else ""
            return f"a regular expression must be written out, as a text, in {shown(text)}{way_out}"
        if why := refusal(of_like(pattern.name, escape_of(node)) if likes else pattern.name):
            return f"the pattern {pattern.name!r} {why}"
    return None


def escape_of(node: exp.Expr) -> str:
    """What takes the meaning from `%` and `_` in a LIKE's pattern."""
    return node.parent.expression.name if isinstance(node.parent, exp.Escape) else "\\"


def patterns_of(node: exp.Expr) -> list[exp.Expr | None]:
    """The arguments that Spark takes for regular expressions."""
    if isinstance(node, exp.StrToMap):
        return [node.args.get("pair_delim"), node.args.get("key_value_delim")]
    if isinstance(node, exp.Like | exp.ILike):
        given = node.expression
        several = given.this if isinstance(given, exp.Any | exp.All) else given
        return list(several.expressions) if isinstance(several, exp.Tuple) else [several.unnest()]
    if not isinstance(node, exp.Func | exp.RegexpLike):
        return []
    if not OF_PATTERNS.search(node.name if isinstance(node, exp.Anonymous) else type(node).__name__):
        return []
    given = node.expressions[1:2] if isinstance(node, exp.Anonymous) else [node.args.get("expression")]
    return [*given] or [None]
