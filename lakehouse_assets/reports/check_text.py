"""A check's rule in words.

Belongs here: check → sentence. Does not: its results, or where it is shown.
"""

from lakehouse_assets.checks.base import Check
from lakehouse_assets.checks.families import RowCheck

BUILT_IN = {
    "readable_row": "Every record could be read.",
    "casts": "Every value has its column's declared type.",
    "key_not_null": "Every row has a complete key.",
    "delete_when": "The condition that deletes a key can be evaluated in every row.",
    "source_columns": "The batch has the columns that the contract names.",
    "supersede": "The batch is plausible beside what it would replace.",
}
DRIFT = "The batch is distributed like the accepted windows before it. The gate has already quarantined one that is not."


def describe_check(check: Check) -> str:
    """Return its own description, or its rule with its parameters."""
    if check.description:
        return check.description
    if isinstance(check, RowCheck):
        return f"{check.message()} · {check.check}, {check.severity}"
    values = check.model_dump(mode="json", exclude_defaults=True, exclude={*Check.model_fields, "check"})
    values |= {"where": check.where} if check.where else {}
    parameters = ", ".join(f"{n} {' '.join(map(str, v)) if isinstance(v, list | dict) else v}" for n, v in values.items())
    return f"{check.summary}{f' ({parameters})' if parameters else ''} · {check.check}, {check.severity}"
