"""What an aggregate is over no rows, without Spark: counts are 0, and simple SQL follows from these.

Belongs here: SQL whose result is the same whatever the types of the columns. Does not: rows.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from enum import Enum

from sqlglot import exp


class Unknown(Enum):
    """The value of SQL that is not evaluated here. It may be NULL or any other."""

    VALUE = "unknown"


UNKNOWN = Unknown.VALUE
Value = float | Unknown | None  # true is 1, None is NULL
COUNTS = (exp.Count, exp.CountIf)
NULL_AGGREGATES = (
    exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Median, exp.Quantile, exp.ApproxQuantile, exp.Skewness, exp.Kurtosis,
    exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop, exp.Corr, exp.CovarPop, exp.CovarSamp,
    exp.LogicalAnd, exp.LogicalOr,
)  # fmt: skip
OPERATORS: dict[type[exp.Expr], Callable[..., float]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: operator.truediv,
    exp.Neg: lambda value: 0 - value,  # never -0.0
    exp.Abs: math.fabs,
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}
# Whole numbers below these are the same after a cast.
CAST_LIMITS = {
    exp.DType.TINYINT: 2**7,
    exp.DType.SMALLINT: 2**15,
    exp.DType.INT: 2**31,
    exp.DType.BIGINT: 2**53,
    exp.DType.FLOAT: 2**24,
}
CAST_FUNCTIONS = ("tinyint", "smallint", "bigint", "decimal")  # parsed as functions, unlike int() and double()
NUMBER = re.compile(r"\d{1,15}(\.\d{1,15})?")
MOST_DIGITS = 38  # of a decimal
DIVIDED_DIGITS = 6  # that a quotient of decimals has at least


def over_no_rows(tree: exp.Expr) -> float | None:
    """Return what an aggregate is over no rows. True is 1; what is not known here is NULL."""
    value = _value(tree)
    return None if isinstance(value, Unknown) else value


def strip_filter(tree: exp.Expr) -> exp.Expr:
    """Return an aggregate without the parentheses and the FILTER around it."""
    while isinstance(tree, exp.Paren | exp.Filter):
        tree = tree.this
    return tree


def _value(tree: exp.Expr) -> Value:
    bare = strip_filter(tree)
    if isinstance(bare, (*COUNTS, exp.ApproxDistinct, exp.RegrCount)):
        return 0.0
    if isinstance(bare, (*NULL_AGGREGATES, exp.Null)):
        return None
    if isinstance(bare, exp.Literal):
        return UNKNOWN if bare.is_string or not math.isfinite(float(bare.name)) else float(bare.name)
    if isinstance(bare, exp.Boolean):
        return float(bare.this)
    if isinstance(bare, exp.Cast):
        return _cast(bare.this, bare.to)
    if isinstance(bare, exp.Round):
        return _round(bare)
    if isinstance(bare, exp.Coalesce):
        return next((value for part in (bare.this, *bare.expressions) if (value := _value(part)) is not None), None)
    if isinstance(bare, exp.If):
        return _first_true([bare], bare.args.get("false"))
    if isinstance(bare, exp.Case) and not bare.this:
        return _first_true(bare.args["ifs"], bare.args.get("default"))
    if isinstance(bare, exp.Anonymous) and len(bare.expressions) == 1:
        return _call(bare.name.lower(), bare.expressions[0])
    if type(bare) in OPERATORS:
        operands = [bare.args[name] for name in ("this", "expression") if isinstance(bare.args.get(name), exp.Expr)]
        return _computed(type(bare), *map(_value, operands))
    return _truth(bare)


def _truth(tree: exp.Expr) -> Value:
    """Return the value of a condition, by the rules of SQL for NULL."""
    if isinstance(tree, exp.Not):
        return _negated(_value(tree.this))
    if isinstance(tree, exp.Or):
        return _any_true([_value(tree.this), _value(tree.expression)])
    if isinstance(tree, exp.And):
        return _all_true([_value(tree.this), _value(tree.expression)])
    if isinstance(tree, exp.Is) and isinstance(tree.expression, exp.Null):
        return _is_null(_value(tree.this))
    if isinstance(tree, exp.In) and tree.expressions:
        value = _value(tree.this)
        return _any_true(_computed(exp.EQ, value, _value(each)) for each in tree.expressions)
    if isinstance(tree, exp.Between):
        value, low, high = (_value(tree.args[name]) for name in ("this", "low", "high"))
        return _all_true([_computed(exp.GTE, value, low), _computed(exp.LTE, value, high)])
    return UNKNOWN


def _first_true(cases: Sequence[exp.Expr], default: exp.Expr | None) -> Value:
    """Return the value of the first case whose condition is true; without one, the default's."""
    for case in cases:
        condition = _value(case.this)
        if isinstance(condition, Unknown):
            return UNKNOWN
        if condition:
            return _value(case.args["true"])
    return _value(default) if default else None


def _any_true(values: Iterable[Value]) -> Value:
    several = list(values)
    if any(value for value in several if not isinstance(value, Unknown)):
        return 1.0
    return UNKNOWN if UNKNOWN in several else None if None in several else 0.0


def _all_true(values: Iterable[Value]) -> Value:
    return _negated(_any_true(map(_negated, values)))


def _negated(value: Value) -> Value:
    return value if value is None or isinstance(value, Unknown) else float(not value)


def _is_null(value: Value) -> Value:
    return value if isinstance(value, Unknown) else float(value is None)


def _computed(kind: type[exp.Expr], *operands: Value) -> Value:
    """Return the result of arithmetic or a comparison; NULL if an operand is, as for a division by 0."""
    numbers = [value for value in operands if value is not None and not isinstance(value, Unknown)]
    if None in operands or (kind is exp.Div and operands[1] == 0):
        return None
    if len(numbers) < len(operands):
        return UNKNOWN
    result = float(OPERATORS[kind](*numbers))
    # Beyond these, the types of the operands decide.
    is_exact = abs(result) < 2**31 and (kind is not exp.Div or _rounded(result, DIVIDED_DIGITS) == result)
    return result if is_exact else UNKNOWN


def _round(tree: exp.Round) -> Value:
    decimals = tree.args.get("decimals")
    value, digits = _value(tree.this), _value(decimals) if decimals else 0.0
    if value is None or digits is None:
        return None
    if isinstance(value, Unknown) or isinstance(digits, Unknown) or abs(digits) > MOST_DIGITS or digits % 1:
        return UNKNOWN
    return _rounded(value, int(digits))


def _rounded(value: float, digits: int) -> float:
    """Return the value as Spark rounds it: half up, by the digits that are shown of it. Never -0.0."""
    unit = Decimal(1).scaleb(-digits)
    return float(Decimal(repr(value)).quantize(unit, ROUND_HALF_UP, Context(prec=400))) + 0.0


def _cast(tree: exp.Expr, kind: exp.DataType) -> Value:
    """Return the value if the type has exactly the same."""
    bare = strip_filter(tree)
    # A decimal literal, such as 0.5BD, is parsed as the cast of a text.
    is_number = isinstance(bare, exp.Literal) and bare.is_string and NUMBER.fullmatch(bare.name)
    value = float(bare.name) if is_number else _value(bare)
    if value is None or isinstance(value, Unknown) or kind.this == exp.DType.DOUBLE:
        return value
    if kind.this == exp.DType.DECIMAL:
        precision, scale = [*(int(part.name) for part in kind.expressions), *((10, 0)[len(kind.expressions) :])]
        return value if abs(value) < 10 ** (precision - scale) and _rounded(value, scale) == value else UNKNOWN
    return value if value % 1 == 0 and abs(value) < CAST_LIMITS.get(kind.this, 0) else UNKNOWN


def _call(name: str, argument: exp.Expr) -> Value:
    if name in ("isnull", "isnotnull"):
        is_null = _is_null(_value(argument))
        return is_null if name == "isnull" else _negated(is_null)
    return _cast(argument, exp.DataType.build(name, dialect="spark")) if name in CAST_FUNCTIONS else UNKNOWN
