"""Types of parameters in YAML that pydantic does not have: durations, lists of columns, SQL.

Belongs here: text → checked text. It stays as written, since a stored rule set repeats its author's words. Does not: whether
the columns exist (contracts), or what SQL may say (sql/).
"""

import re
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo
from sqlglot import exp

from lakehouse_assets.checks.sql.guard import require_java_patterns
from lakehouse_assets.checks.sql.text import parse_aggregate, parse_expression
from lakehouse_assets.checks.strict_model import is_recorded

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def duration(text: str) -> timedelta:
    """Return the length of ``30s``, ``90m``, ``6h`` or ``2d``. Raises ValueError for another form."""
    match = re.fullmatch(r"(\d{1,6})([smhd])", text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a duration such as 30s, 90m, 6h or 2d")
    return timedelta(**{UNITS[match[2]]: int(match[1])})


def require_java(tree: exp.Expr, info: ValidationInfo) -> None:
    """Refuse regular expressions that Java cannot compile, unless a decision recorded the rules. Raises ValueError."""
    if not is_recorded(info):
        require_java_patterns(tree, str(info.field_name))


def _duration(text: str) -> str:
    duration(text)
    return text


def _columns(columns: tuple[str, ...]) -> tuple[str, ...]:
    names = [name.lower() for name in columns]  # Spark ignores letter case
    if repeated := [name for index, name in enumerate(columns) if name.lower() in names[:index]]:
        raise ValueError(f"{repeated[0]} is listed twice")
    return columns


def _condition(text: str, info: ValidationInfo) -> str:
    require_java(parse_expression(text, str(info.field_name)), info)
    return text


def _aggregate(text: str, info: ValidationInfo) -> str:
    require_java(parse_aggregate(text, str(info.field_name)), info)
    return text


Duration = Annotated[str, AfterValidator(_duration), Field(json_schema_extra={"pattern": r"^\s*\d{1,6}[smhd]\s*$"})]
Columns = Annotated[tuple[str, ...], AfterValidator(_columns)]
Condition = Annotated[str, AfterValidator(_condition)]
Aggregate = Annotated[str, AfterValidator(_aggregate)]
