"""One declared column: its type, where it comes from and what it means.

Belongs here: the shape of a column's promise. Does not: casting (measures).
"""

import re

from pydantic import Field, field_validator

from lakehouse_assets.checks.sql_text import columns_of, parse_expression
from lakehouse_assets.checks.types import data_type
from lakehouse_assets.contracts.frozen import Frozen

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


class Column(Frozen):
    """A value that cannot be cast is a reason (`cast_<column>`) that holds its row; it never becomes NULL in silence.

    `binary` is read as base64. Names with spaces or any of `,;{}()=`, names beginning with `_`, `p_extracted_at` and
    `extraction_seq` are refused; use `from` for such a source column.
    """

    type: str
    """`string boolean tinyint smallint int bigint float double date timestamp timestamp_ntz binary` or `decimal(p,s)`. `integer
    long short byte bool real` are other names."""
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
    """Keeps the values out of reasons, samples, listings, metadata and alerts. Refused in drift features. Bronze, silver and
    quarantine still hold them."""

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
