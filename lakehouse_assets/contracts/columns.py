"""One declared column: its type, where it comes from and what it means.

Belongs here: the shape of a column's promise. Does not: casting (measures).
"""

import re

from pydantic import Field, field_validator

from lakehouse_assets.checks.closed import Closed
from lakehouse_assets.checks.sql_text import columns_of, parse_expression
from lakehouse_assets.checks.types import ATOMIC, data_type
from lakehouse_assets.contracts.spark_types import (
    NESTED,
    Atom,
    Struct,
    keyed_otherwise,
    parse_type,
    parts_of,
    sql_type,
    unfit_fields,
)

OWN = frozenset({"p_extracted_at", "extraction_seq"})


def unfit_name(name: str) -> str | None:
    """Why no column of silver or gold can be called so, None if one can.

    >>> unfit_name("a b").split(":")[0]
    'Delta refuses spaces and any of ,;{}()= in a name'
    """
    if not name or re.search(r"[ ,;{}()\n\t=\0]", name):
        return "Delta refuses spaces and any of ,;{}()= in a name"
    if name.startswith("_") or name.lower() in OWN:
        return "names that begin with _ , p_extracted_at and extraction_seq are the lakehouse's own"
    return None


def declared_type(text: str) -> str:
    """The Spark SQL name of a declared type, nested ones too. Raises ValueError, listing what there is.

    >>> declared_type("Struct<id: Long, tags: array<string>>")
    'struct<id: bigint, tags: array<string>>'
    """
    if not re.match(r"\s*(struct|array|map)\s*<", text, re.IGNORECASE):
        return data_type(text)
    kind = parse_type(text)
    for part in parts_of(kind):
        if isinstance(part, Atom) and part.name not in ATOMIC:
            raise ValueError(f"unknown type {part.name!r} in {text!r}; use one of {', '.join(sorted(ATOMIC))} or decimal(p,s)")
        if isinstance(part, Struct) and not part.fields:
            raise ValueError(f"{text!r}: a struct needs a field, which Parquet cannot do without")
    if keys := keyed_otherwise(kind):
        raise ValueError(f"{text!r}: a map's keys are text, as they come in JSON: map<string, …>, and not {keys[0]}")
    if unfit := unfit_fields(kind):
        raise ValueError(f"{text!r}: field {unfit[0]!r}: Delta refuses spaces and any of ,;{{}}()= in a name")
    return sql_type(kind)


class Column(Closed):
    """A value that cannot be cast is a reason (`cast_<column>`) that holds its row; it never becomes NULL in silence.

    `binary` is read as base64. Names with spaces or any of `,;{}()=`, names beginning with `_`, `p_extracted_at` and
    `extraction_seq` are refused; use `from` for such a source column.
    """

    type: str
    """`string boolean tinyint smallint int bigint float double date timestamp timestamp_ntz binary` or `decimal(p,s)`. `integer
    long short byte bool real` are other names. `struct<a: int, …>`, `array<…>` and `map<string, …>` of these are read from JSON
    text, and cannot be keys."""
    source_name: str | None = Field(default=None, alias="from")
    """The source's name for it. Without it, the column's own."""
    expr: str | None = None
    """A SQL expression that sees the typed value as `value`, and nothing else: `"value / 10"`. Its result is cast to `type`
    again."""
    format: str | None = None
    """The pattern of a date or timestamp, as Spark writes them: `dd.MM.yyyy`."""
    unit: str | None = None
    """Shown in the column schema."""
    description: str | None = None
    """Shown in the column schema."""
    pii: bool = False
    """Keeps the values out of reasons, samples, listings, metadata and alerts, also those of other columns that are made `from`
    the same one. Refused in drift features and in gold's grain. Bronze, silver and quarantine still hold them."""

    @field_validator("type")
    @classmethod
    def _known_type(cls, value: str) -> str:
        return declared_type(value)

    @field_validator("expr")
    @classmethod
    def _sees_value_only(cls, value: str | None) -> str | None:
        if value is not None:
            others = sorted(columns_of(parse_expression(value, "expr")) - {"value"})
            if others:
                raise ValueError(f"expr sees only `value`, not {', '.join(others)}")
        return value

    @property
    def nested(self) -> bool:
        """Whether it has parts, and comes as JSON."""
        return isinstance(parse_type(self.type), NESTED)
