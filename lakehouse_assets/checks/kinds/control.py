"""Control totals: figures of a batch that must equal those that its source reports.

Belongs here: the check that compares with control totals. Does not: where these come from (sources), or other tables
(reconciliation).
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field
from sqlglot import exp

from lakehouse_assets.checks.base import CheckContext, Judgement
from lakehouse_assets.checks.families import BatchCheck
from lakehouse_assets.checks.judgements import ROUNDING
from lakehouse_assets.checks.parameters import Aggregate
from lakehouse_assets.checks.sql.text import columns_of, parse_aggregate

COUNTS = (exp.Count, exp.CountIf)
ZERO_OVER_NO_ROWS = (*COUNTS, exp.ApproxDistinct, exp.RegrCount)
OPERATORS: dict[type[exp.Expr], Callable[..., float]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
    exp.Div: operator.truediv,
    exp.Neg: lambda value: 0 - value,  # never -0.0
    exp.Abs: math.fabs,
    exp.Not: operator.not_,
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}


class ControlTotal(BatchCheck):
    """A figure of the batch equals the one that the source reports (`source.control`).

    ``measure`` is an aggregate over all rows as they came, those that fail other checks and those that could not be read among
    them; a value that could not be cast is NULL there. Both sides are compared as doubles; apart from counts, a difference in
    the last digits (1e-9 of the figure) is none. NULL equals NULL, and a sum of no values equals 0. The same holds with a
    `FILTER`. In a batch without rows, counts (also approximate ones) are 0, and other aggregates are NULL. From these follow
    arithmetic, comparisons, `not`, `is null`, `abs`, `coalesce`, `if`, `case when`, and casts and `round` of whole numbers; any
    other SQL is NULL there. A figure that the source does not report fails: a control file that is missing, that cannot be
    read, or that lacks the figure.
    """

    summary = "a figure of the batch is what the source says that it is"
    example = "{check: control_total, figure: departures, measure: sum(departures)}"

    check: Literal["control_total"]
    figure: str = Field(min_length=1, max_length=100)
    """The figure's name in `source.control`."""
    measure: Aggregate = "count(*)"
    """An aggregate over all rows of the batch."""
    tolerance: float = Field(default=0, ge=0, allow_inf_nan=False)
    """The difference that is allowed, as a share of the source's figure."""

    @property
    def own_columns(self) -> tuple[str, ...]:
        return tuple(sorted(columns_of(self._tree)))

    @property
    def id_parts(self) -> tuple[str, ...]:
        return (self.figure,)

    @property
    def _tree(self) -> exp.Expr:
        return parse_aggregate(self.measure, "measure")

    @property
    def _counts(self) -> bool:
        return isinstance(_unfiltered(self._tree), COUNTS)

    def metrics(self, context: CheckContext) -> dict[str, str]:
        return {"own": f"CAST({self._tree.sql(dialect='spark')} AS DOUBLE)"}

    def judge(self, values: Mapping[str, Any], context: CheckContext) -> Judgement:
        totals = context.control
        if totals is None:
            text = "what the source says was not asked when this was extracted: source.control was not declared yet"
            return Judgement("error", {"figure": self.figure}, text)
        if self.figure not in totals.figures:
            names = ", ".join(sorted(totals.figures)) or "nothing"
            text = totals.problem or f"the source says nothing of {self.figure!r}; it says {names}"
            return Judgement("failed", {"figure": self.figure}, text)
        own, source = values["own"] if "own" in values else _over_no_rows(self._tree), totals.figures[self.figure]
        observed = {"figure": self.figure, "own": _finite(own), "source": _finite(source), "tolerance": self.tolerance}
        problem = f"{self.measure} is {_shown(own)}; the source says {_shown(source)}"
        return Judgement.of(observed, "" if self._equal(own, source) else problem)

    def _equal(self, own: float | None, source: float | None) -> bool:
        if isinstance(_unfiltered(self._tree), exp.Sum):
            # A source may call the sum of no values nothing, or 0.
            own, source = own or 0.0, source or 0.0
        if own is None or source is None:
            return own is source
        if not math.isfinite(own) or not source:
            return own == source and math.isfinite(own)
        # Divided: a tolerance of 0.29 times 100 is less than 29.
        return abs(own - source) / abs(source) <= max(self.tolerance, 0.0 if self._counts else ROUNDING)


def _unfiltered(tree: exp.Expr) -> exp.Expr:
    """Return an aggregate without the parentheses and the FILTER around it."""
    while isinstance(tree, exp.Paren | exp.Filter):
        tree = tree.this
    return tree


def _over_no_rows(tree: exp.Expr) -> float | None:
    """Return what an aggregate is over no rows: 0 for a count, NULL for any other, and what simple SQL makes of these. True
    is 1; what is not known here is NULL.
    """
    bare = _unfiltered(tree)
    if isinstance(bare, ZERO_OVER_NO_ROWS):
        return 0.0
    if isinstance(bare, exp.Literal) and not bare.is_string:
        return float(bare.name)
    if isinstance(bare, exp.Round) or (isinstance(bare, exp.Cast) and bare.to.is_type(*exp.DataType.NUMERIC_TYPES)):
        value = _over_no_rows(bare.this)
        return value if value is not None and value.is_integer() else None
    if isinstance(bare, exp.Coalesce):
        values = [_over_no_rows(part) for part in (bare.this, *bare.expressions)]
        return next((value for value in values if value is not None), None)
    if isinstance(bare, exp.If):
        return _first_true([bare], bare.args.get("false"))
    if isinstance(bare, exp.Case) and not bare.this:
        return _first_true(bare.args["ifs"], bare.args.get("default"))
    if isinstance(bare, exp.Is) and isinstance(bare.expression, exp.Null):
        return float(_over_no_rows(bare.this) is None)
    return _computed(bare)


def _first_true(cases: Sequence[exp.Expr], default: exp.Expr | None) -> float | None:
    """Return the value of the first case whose condition is true; without one, the default's."""
    for case in cases:
        if _over_no_rows(case.this):
            return _over_no_rows(case.args["true"])
    return _over_no_rows(default) if default else None


def _computed(tree: exp.Expr) -> float | None:
    """Return the result of arithmetic or a comparison; NULL if an operand is, as for a division by 0."""
    operands = [_over_no_rows(tree.args[name]) for name in ("this", "expression") if isinstance(tree.args.get(name), exp.Expr)]
    numbers = [number for number in operands if number is not None]
    if type(tree) not in OPERATORS or len(numbers) < len(operands) or (isinstance(tree, exp.Div) and not numbers[1]):
        return None
    return float(OPERATORS[type(tree)](*numbers))


def _finite(value: float | None) -> float | None:
    return value if value is None or math.isfinite(value) else None


def _shown(value: float | None) -> str:
    return "NULL" if value is None else f"{value:.15g}"
