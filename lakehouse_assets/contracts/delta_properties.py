"""The Delta table properties and constraints that a table's YAML may set, and why it may not set others.

Belongs here: their names, and the validation of each alone. Does not: setting them (storage), or the table (table).
"""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ValidationError

from lakehouse_assets.checks.kinds.sql import Expression
from lakehouse_assets.checks.sql.text import parse_expression

# The check that quarantines rows which a constraint would refuse, and which no override can waive.
CONSTRAINT = "constraint_"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
RESERVED = ("provider", "location", "owner", "external", "comment", "is_managed_location")
# Properties of Delta that change how files are written or kept, and no answer of a reader.
ALLOWED = (
    "delta.autoOptimize.autoCompact", "delta.autoOptimize.optimizeWrite", "delta.checkpoint.writeStatsAsJson",
    "delta.checkpoint.writeStatsAsStruct", "delta.enableExpiredLogCleanup", "delta.logRetentionDuration",
    "delta.randomizeFilePrefixes", "delta.targetFileSize", "delta.tuneFileSizesForRewrites",
)  # fmt: skip
# The beginnings of those that the project itself depends on.
NEEDED = {
    "lakehouse.": "the project records its own state there",
    "delta.constraints.": "declare it under constraints:",
    "delta.feature.": "a feature would shut out readers without Spark",
    "delta.min": "a protocol version would shut out readers without Spark",
    "delta.columnmapping.": "readers without Spark would see NULL in renamed columns",
    "delta.enabledeletionvectors": "readers without Spark cannot open a table with deletion vectors",
    "delta.enabletypewidening": "readers without Spark cannot open a table with type widening",
    "delta.enablechangedatafeed": "gold reads it to derive only what changed",
    "delta.appendonly": "silver is updated by MERGE",
    "delta.deletedfileretentionduration": "set maintenance.vacuum_days",
    "delta.checkpointpolicy": "readers without Spark need the classic checkpoints",
    "delta.checkpointinterval": "readers need a short log",
    "delta.dataskipping": "the evidence and maintenance read the statistics of all files",
}


def _refuse_properties(properties: dict[str, str]) -> dict[str, str]:
    for name, value in properties.items():
        if why := next((why for beginning, why in NEEDED.items() if name.lower().startswith(beginning)), None):
            raise ValueError(f"{name}: the project depends on this property: {why}; remove it")
        if name.lower().startswith("delta.") and name not in ALLOWED:
            raise ValueError(f"{name}: of Delta's own properties there are {', '.join(ALLOWED)}")
        if not NAME.fullmatch(name) or name.lower() in RESERVED:
            raise ValueError(
                f"{name!r} is no name of a property: letters, digits, _, - and dots, and not {', '.join(RESERVED)}"
            )
        if not value:
            raise ValueError(f"{name}: the value is empty; leave the property out")
    return properties


def _as_texts(properties: Any) -> Any:
    """Return plain values as the texts that Delta stores: `true`, `7`."""
    if not isinstance(properties, dict):
        return properties
    plain = (bool, int, float)
    return {name: str(each).lower() if isinstance(each, plain) else each for name, each in properties.items()}


def _refuse_constraints(constraints: dict[str, str]) -> dict[str, str]:
    for name, text in constraints.items():
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,50}", name):
            raise ValueError(f"{name!r} is no name of a constraint: lower-case letters, digits and _, beginning with a letter")
        parse_expression(text, name)
    return constraints


def with_implied_checks(data: Any, *, is_recorded: bool = False) -> Any:
    """Return a contract's data with a check for each constraint, so that a row that Delta would refuse is quarantined. Raises
    ValueError for another check of that name. ``is_recorded``: the data is a rule set, whose checks of those names stay.
    """
    constraints, checks = (data.get("constraints"), data.get("checks") or ()) if isinstance(data, dict) else (None, ())
    if not isinstance(constraints, dict) or not constraints or not isinstance(checks, list | tuple):
        return data
    by_name = {check.get("name") if isinstance(check, dict) else getattr(check, "name", None): check for check in checks}
    implied = []
    for name, text in constraints.items():
        check = {"check": "expression", "name": f"{CONSTRAINT}{name}", "expr": text}
        declared = by_name.get(check["name"])
        if declared is None:
            implied.append(check)
        elif not is_recorded and not _means(declared, check):
            raise ValueError(
                f"constraints.{name}: another check is called {check['name']}; give it another name, or remove it: the"
                " constraint's own check quarantines each row that Delta would refuse"
            )
    return {**data, "checks": [*checks, *implied]}


def _means(declared: Any, implied: dict[str, str]) -> bool:
    """Whether a declared check is the implied one: an effect or a condition of its own would let rows through."""
    try:
        one, other = Expression.model_validate(declared), Expression.model_validate(implied)
    except ValidationError:
        return False
    return one.model_dump(exclude={"description"}) == other.model_dump(exclude={"description"})


Properties = Annotated[dict[str, str], BeforeValidator(_as_texts), AfterValidator(_refuse_properties)]
Constraints = Annotated[dict[str, str], AfterValidator(_refuse_constraints)]
