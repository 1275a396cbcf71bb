"""The span of a staged batch in the total order, measured by the scan that counts its rows.

Belongs here: its aggregates, and reading them. Does not: what a span is for (decisions).
"""

from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.decisions.numbers import BatchNumbers
from lakehouse_assets.decisions.order_span import NUMBERS, OrderSpan, definition_of, span_as_text

# Beside the ids of checks, none of which begins so.
SPAN = "_order_span"
AS_NUMBER = {"integer": "CAST({} AS BIGINT)", "days": "unix_date({})", "microseconds": "unix_micros({})"}


def span_metrics(spec: TableContract) -> dict[str, dict[str, str]]:
    """Return the aggregates of a span, as `scan` takes them; none for a table without."""
    name = spec.last_modified
    if name is None or definition_of(spec) is None:
        return {}
    number = AS_NUMBER[NUMBERS[spec.columns[name].type]].format(identifier(name))
    clean = f"CASE WHEN _clean THEN {number} END"
    lacking = f"count_if(_clean AND {identifier(name)} IS NULL)"
    return {SPAN: {"least": f"min({clean})", "greatest": f"max({clean})", "lacking": lacking}}


def measured_span(spec: TableContract, numbers: BatchNumbers) -> str | None:
    """Return the span of a batch as text; None if it was not measured. ``spec``: as the batch was staged."""
    definition, values = definition_of(spec), numbers.metrics.get(SPAN)
    if definition is None or not values:
        return None
    least = None if values["lacking"] else values["least"]
    return span_as_text(definition, OrderSpan(least, values["greatest"]))
