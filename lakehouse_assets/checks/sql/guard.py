"""What SQL of the configuration may not contain, in an expression or a query: it only reads, and repeats its answer.

Belongs here: what is refused of a parsed tree, and on which line. Does not: the shape of an expression or a query (text).
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from sqlglot import Dialect, TokenType, exp
from sqlglot.optimizer.annotate_types import annotate_types

from lakehouse_assets.checks.pattern_meaning import java_refusal
from lakehouse_assets.checks.patterns import like_to_regex, refusal
from lakehouse_assets.checks.sql.functions import size_problem, suggestion, unknown_function

# Functions that leave the data, or give another answer the second time. Configuration never runs code (law 5): only the files
# of extensions do.
FORBIDDEN = frozenset(
    name
    for line in (
        "reflect try_reflect java_method transform_keys_udf secret try_secret http_get sleep identifier",
        "from_protobuf to_protobuf",  # read a file by its path
        "aes_encrypt",  # with another initial vector each time
        "rand random randn randstr uniform uuid shuffle monotonically_increasing_id spark_partition_id",
        "input_file_name input_file_block_start input_file_block_length",
        "now current_timestamp current_date current_time localtimestamp curdate getdate current_timezone",
        "current_user session_user user current_catalog current_database current_schema version",
    )
    for name in line.split()
)
NONDETERMINISTIC = (exp.Rand, exp.Randn, exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.CurrentUser, exp.Uuid)
# sqlglot parses them as: a shell command (TRANSFORM … USING), a session variable, a random part of the rows, or something that
# it omits when it writes the SQL.
CONSTRUCTS: dict[type[exp.Expr], str] = {
    exp.QueryTransform: "TRANSFORM … USING runs a command; it",
    exp.Parameter: "a session variable",
    exp.SessionParameter: "a session variable",
    exp.TableSample: "TABLESAMPLE",
    exp.Pivot: "PIVOT",
    exp.Version: "time travel",
    exp.Hint: "a hint",
}
# Without a column of that name, Spark calls the function, even without parentheses.
CLOCKS = frozenset({"current_time", "localtimestamp"})
# Spark casts these texts to times of the clock.
MOVING = re.compile(r"\s*(now|today|yesterday|tomorrow)(\s+\S+)?\s*", re.IGNORECASE)
# Functions that make letters which none of their arguments contains.
MAKERS = (exp.Chr, exp.Unhex, exp.Decode, exp.FromBase64, exp.Translate)
# Functions whose second argument is a regular expression, by their name in SQL or in the parsed tree.
OF_PATTERNS = re.compile(r"regexp|rlike|^split$", re.IGNORECASE)
# Spark replaces ${env:NAME} by the environment's value, also within quotes.
SUBSTITUTED = "${"


class UnfitError(ValueError):
    """SQL that is refused. ``line``: the line of the reason, from 1."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.line = line


def guard_query(tree: exp.Expr, text: str, what: str) -> None:
    """Refuse in a query of several lines what no expression may contain. Raises UnfitError that names it."""
    if SUBSTITUTED in text:
        line = text[: text.index(SUBSTITUTED)].count("\n") + 1
        raise UnfitError(f"{what}: `{SUBSTITUTED}` is not allowed: Spark would put a setting in its place", line)
    refuse_adjacent_strings(Dialect.get_or_raise("spark").tokenize(text), text, what)
    guard(tree, text, what)


def guard(tree: exp.Expr, text: str, what: str) -> None:
    """Refuse what no SQL may contain. Raises UnfitError that names it."""
    for node in tree.walk():
        if why := _refused(node, text):
            raise UnfitError(f"{what}: {why}", line_of(node))


def require_java_patterns(tree: exp.Expr, what: str) -> None:
    """Refuse regular expressions that Java cannot compile, in a guarded tree. The rules of a decision may have them, so `guard`
    accepts them. Raises UnfitError that names one.
    """
    for node in tree.walk():
        for pattern in () if isinstance(node, exp.Like | exp.ILike) else patterns_of(node):
            if pattern is not None and (why := java_refusal(pattern.name)):
                raise UnfitError(f"{what}: the pattern {pattern.name!r} {why}", line_of(node))


def line_of(node: exp.Expr) -> int:
    """Return the line, from 1, on which a node of a parsed tree begins; if it has none, that of the nearest node around it.

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


def refuse_adjacent_strings(tokens: Sequence[Any], text: str, what: str) -> None:
    """Refuse a doubled quote: 'it''s' is it's for Spark, and its for sqlglot, which writes the SQL that runs."""
    for one, two in pairwise(tokens):
        if one.token_type == two.token_type == TokenType.STRING:
            why = f"two strings side by side in {quote_text(text)}: a quote within a string is written \\'"
            raise UnfitError(f"{what}: {why}", one.line)


def quote_text(text: str) -> str:
    """Return the text for a message; of a long one, its beginning."""
    return repr(text if len(text) <= 200 else text[:200] + "…")


def _refused(node: exp.Expr, text: str) -> str | None:
    """Return why this part is refused; None if it is not."""
    for construct, name in CONSTRUCTS.items():
        if isinstance(node, construct):
            return f"{name} is not allowed in {quote_text(text)}"
    if isinstance(node, exp.PropertyEQ) and not isinstance(node.parent, exp.Struct):
        return f"an assignment is not allowed in {quote_text(text)}"
    if isinstance(node, exp.Column) and not node.table and node.name.lower() in CLOCKS:
        return f"{node.name} is not allowed in {quote_text(text)}: it gives another answer each time"
    # Anywhere: Spark casts it implicitly when it compares it with a time.
    if isinstance(node, exp.Literal) and node.is_string and MOVING.fullmatch(node.name):
        return f"{node.name!r} is not allowed in {quote_text(text)}: as a time it gives another answer each time"
    if _is_folded_text(node):
        clock = "Spark could make a time of the clock of it; write out the text that it is"
        return f"{node.sql(dialect='spark')} in {quote_text(text)}: {clock}"
    if why := _unfit_pattern(node, text):
        return why
    if isinstance(node, NONDETERMINISTIC):
        return f"{node.sql(dialect='spark')} is not allowed in {quote_text(text)}: it gives another answer each time"
    if isinstance(node, exp.Func):
        return _unfit_function(node, text)
    writes = exp.Command | exp.DDL | exp.Insert | exp.Update | exp.Delete | exp.Merge | exp.Into
    if isinstance(node, writes) and not isinstance(node, exp.Query):
        return f"only reading is allowed in {quote_text(text)}"
    return None


def _unfit_function(node: exp.Func, text: str) -> str | None:
    name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
    if name in FORBIDDEN:
        return f"the function {name} is not allowed in {quote_text(text)}"
    if unknown := unknown_function(node):
        return f"Spark has no function {unknown} (in {quote_text(text)}){suggestion(unknown)}"
    if why := size_problem(node):
        return f"{node.sql(dialect='spark')} in {quote_text(text)}: {why}"
    return None


def _is_folded_text(node: exp.Expr) -> bool:
    """Return whether it is a text of constants alone that may become `now` or `today`: Spark folds it before it casts."""
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
    """Refuse a regular expression that is no literal, or may not end on some value. Spark turns LIKE into one, too."""
    likes = isinstance(node, exp.Like | exp.ILike)
    for pattern in patterns_of(node):
        if not isinstance(pattern, exp.Literal | exp.RawString):
            way_out = " (contains, startswith and endswith take columns)" if likes else ""
            return f"a regular expression must be written out, as a text, in {quote_text(text)}{way_out}"
        if why := refusal(like_to_regex(pattern.name, like_escape(node)) if likes else pattern.name):
            return f"the pattern {pattern.name!r} {why}"
    return None


def like_escape(node: exp.Expr) -> str:
    """Return the escape character of a LIKE's pattern."""
    return node.parent.expression.name if isinstance(node.parent, exp.Escape) else "\\"


def patterns_of(node: exp.Expr) -> list[exp.Expr | None]:
    """Return the arguments that Spark uses as regular expressions."""
    if isinstance(node, exp.StrToMap):
        return [node.args.get("pair_delim"), node.args.get("key_value_delim")]
    if isinstance(node, exp.Like | exp.ILike):
        pattern = node.expression.this if isinstance(node.expression, exp.Any | exp.All) else node.expression
        return list(pattern.expressions) if isinstance(pattern, exp.Tuple) else [pattern.unnest()]
    if not isinstance(node, exp.Func | exp.RegexpLike):
        return []
    if not OF_PATTERNS.search(node.name if isinstance(node, exp.Anonymous) else type(node).__name__):
        return []
    return (node.expressions[1:2] or [None]) if isinstance(node, exp.Anonymous) else [node.args.get("expression")]
