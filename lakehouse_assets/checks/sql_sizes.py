"""How much a function of the configuration's SQL may make of one value: a text or a list of a stated, modest size.

Belongs here: the functions that grow by a number they are given. Does not: patterns (sql_bounds), or walking (sql_guard).
"""

from sqlglot import exp

LARGEST = 10_000
# By name, which argument says how often, or how long.
GROWING: dict[type[exp.Expr], str] = {exp.Repeat: "times", exp.Space: "this", exp.Pad: "expression"}


def outgrows(node: exp.Expr) -> str | None:
    """Why this function could make more than memory holds; None if it cannot.

    >>> from sqlglot import parse_one
    >>> outgrows(parse_one("repeat('x', 2000000000)", dialect="spark"))
    'how much it makes must be written as a number, at most 10,000'
    >>> outgrows(parse_one("lpad(v, 10, '0')", dialect="spark"))
    """
    sizes = _sizes(node)
    if not sizes:
        return None
    numbers = [_number(size) for size in sizes]
    if isinstance(node, exp.GenerateSeries):
        # Of dates the ends are no numbers, and a step is an interval.
        if not any(number is not None for number in numbers[:2]):
            return None
        start, end, step = [*numbers, 1][:3]
        few = start is not None and end is not None and step and abs(end - start) // abs(step) < LARGEST
    else:
        few = numbers[0] is not None and numbers[0] <= LARGEST
    if not few:
        return f"how much it makes must be written as a number, at most {LARGEST:,}"
    above = node.parent
    while above is not None:
        # Of a list that is gone through, each element has the lambda's body.
        gone_through = above.parent.this.walk() if isinstance(above, exp.Lambda) and above.parent else []
        if _sizes(above) or any(_sizes(part) for part in gone_through):
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
