"""One declared column: its type, where it comes from and what it means.

Belongs here: the types that silver knows and the shape of a column's promise. Does not: casting (measures).
"""

import re

from pydantic import BaseModel, ConfigDict, Field, field_validator

from lakehouse_assets.checks.sql_text import columns_of, parse_expression

ATOMIC = {
    "string",
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "date",
    "timestamp",
    "timestamp_ntz",
    "binary",
}
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


class Column(BaseModel):
    """``from``: the source's name. ``expr`` sees the typed value as ``value``; its result is cast to ``type`` again."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    type: str
    source_name: str | None = Field(default=None, alias="from")
    expr: str | None = None
    format: str | None = Field(default=None, description="pattern of a date or timestamp, as Spark writes them")
    unit: str | None = None
    description: str | None = None
    pii: bool = False

    @field_validator("type")
    @classmethod
    def _known_type(cls, value: str) -> str:
        return data_type(value)

    @field_validator("expr")
    @classmethod
    def _sees_value_only(cls, value: str | None) -> str | None:
        if value is not None:
            others = sorted(columns_of(parse_expression(value, "expr")) - {"value"})
            if others:
                raise ValueError(f"expr sees only `value`, not {', '.join(others)}")
        return value
