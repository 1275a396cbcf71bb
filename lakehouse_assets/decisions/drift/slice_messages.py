"""The words for the rows of a batch that are off: a slice, an interval, a category.

Belongs here: this part of a drift message. Does not: the rest of it (messages), or finding the rows.
"""

import json
import re

from lakehouse_assets.decisions.drift.excess import Excess
from lakehouse_assets.decisions.drift.pseudonyms import is_pseudonym
from lakehouse_assets.decisions.drift.slice_scores import SliceFinding
from lakehouse_assets.decisions.drift.slices import Conditions

_PLAIN = re.compile(r"\w[\w .:+/#-]*")
MOST_CHARACTERS = 40


def describe_conditions(conditions: Conditions) -> str:
    """`origin = LGA and carrier = UA`; a name with other characters than letters, digits and a few more is quoted.

    >>> describe_conditions((("origin", "LGA"), ("note", "two\\nlines")))
    'origin = LGA and note = "two\\\\nlines"'
    """
    return " and ".join(f"{column} = {quote_name(name)}" for column, name in conditions)


def quote_name(name: str) -> str:
    """A category's name on one line, cut to 40 characters."""
    short = name if len(name) <= MOST_CHARACTERS else f"{name[: MOST_CHARACTERS - 1]}…"
    is_plain = _PLAIN.fullmatch(name) is not None and name == name.strip()
    return short if is_plain or is_pseudonym(name) else json.dumps(short, ensure_ascii=not short.isprintable())


def describe_slice(finding: SliceFinding, unit: str | None) -> str:
    """`pressure_kpa is 0.11 kPa lower than usual where origin = LGA (24 of 72 rows)`."""
    return f"{finding.feature} is {_move(finding, unit)} than usual {_where(finding)}"


def describe_slice_more(finding: SliceFinding, unit: str | None) -> str:
    """What follows a sentence on the whole window."""
    return f", above all {_where(finding)}: {_move(finding, unit)} than usual there"


def describe_excess(feature: str, excess: Excess) -> str:
    """`between 101.2 and 101.4: 180 rows where 20 are usual`."""
    rows = f"{excess.rows:,} rows where {excess.usual:,.0f} are usual"
    if excess.category is not None:
        return f"{feature} = {quote_name(excess.category)}: {rows}"
    low, high = f"{excess.low:.5g}", f"{excess.high:.5g}"
    return f"at {low}: {rows}" if low == high else f"between {low} and {high}: {rows}"


def _where(finding: SliceFinding) -> str:
    return f"where {describe_conditions(finding.conditions)} ({finding.rows:,} of {finding.of_rows:,} rows)"


def _move(finding: SliceFinding, unit: str | None) -> str:
    amount = f"{abs(finding.change):.3g}" + (f" {unit}" if unit else "")
    return f"{amount} {'higher' if finding.change > 0 else 'lower'}"
