"""The types that a column may be declared with, under Spark SQL's names.

Belongs here: names of types. Does not: casting (measures).
"""

import re

ATOMIC = {
    "string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date", "timestamp", "timestamp_ntz",
    "binary",
}  # fmt: skip
ALIASES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "bool": "boolean", "real": "float"}
DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")


def data_type(text: str) -> str:
    """The Spark SQL name of a declared type. Raises ValueError, listing what there is."""
    name = text.strip().lower()
    name = ALIASES.get(name, name)
    found = DECIMAL.fullmatch(name)
    if found and 1 <= int(found[1]) <= 38 and int(found[2]) <= int(found[1]):
        return f"decimal({int(found[1])},{int(found[2])})"
    if name in ATOMIC:
        return name
    raise ValueError(f"unknown type {text!r}; use one of {', '.join(sorted(ATOMIC))} or decimal(p,s)")
