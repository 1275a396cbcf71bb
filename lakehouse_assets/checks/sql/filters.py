"""`FILTER (WHERE …)` of an aggregate, said by CASE: Spark does not observe a filtered one.

Belongs here: rewriting SQL text. Does not: which aggregates are observed (measures/observed_scan).
"""

import sqlglot
from sqlglot import exp

# Of these, NULL does not count, so that a row without a value is a row left out.
IGNORING_NULL = (
    exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Stddev, exp.StddevSamp, exp.StddevPop, exp.Variance, exp.VariancePop,
    exp.ApproxQuantile,
)  # fmt: skip


def without_filters(sql: str) -> str | None:
    """Return the same aggregate without `FILTER`; None where that is not known.

    >>> without_filters("avg(x) FILTER (WHERE y > 1)")
    'AVG(CASE WHEN y > 1 THEN x END)'
    >>> without_filters("count(1) FILTER (WHERE a OR b) / count(*)")
    'COUNT(CASE WHEN a OR b THEN 1 END) / COUNT(*)'
    >>> without_filters("collect_list(x) FILTER (WHERE y)")
    """
    if "filter" not in sql.lower():
        return sql
    tree = sqlglot.parse_one(sql, dialect="spark")
    for filtered in list(tree.find_all(exp.Filter)):
        aggregate, condition = filtered.this, filtered.expression.this
        value = aggregate.this
        if isinstance(aggregate, exp.CountIf):
            aggregate.set("this", exp.and_(condition.copy(), value.copy()))
        elif isinstance(aggregate, IGNORING_NULL) and not isinstance(value, exp.Distinct) and not aggregate.expressions:
            chosen = exp.Literal.number(1) if isinstance(value, exp.Star) else value.copy()
            aggregate.set("this", exp.Case().when(condition.copy(), chosen))
        else:
            return None
        if filtered is tree:
            tree = aggregate
        else:
            filtered.replace(aggregate)
    return tree.sql(dialect="spark")
