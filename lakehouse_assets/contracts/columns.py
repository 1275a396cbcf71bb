"""One declared column: its type, where it comes from and what it means.

Belongs here: the declaration of a column. Does not: casting (measures).
"""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator

from lakehouse_assets.checks.parameters import require_java
from lakehouse_assets.checks.sql.text import columns_of, parse_expression
from lakehouse_assets.checks.strict_model import StrictModel
from lakehouse_assets.checks.types import ATOMIC, data_type
from lakehouse_assets.contracts import spark_types
from lakehouse_assets.contracts.batch import BATCH_COLUMNS

REFUSED = "Delta refuses spaces and any of ,;{}()= in a name"


def unfit_name(name: str) -> str | None:
    """Return why silver and gold cannot have a column of this name; None if they can.

    >>> unfit_name("a b")
    'Delta refuses spaces and any of ,;{}()= in a name'
    """
    if spark_types.is_refused_name(name):
        return REFUSED
    if name.startswith("_") or name.lower() in BATCH_COLUMNS:
        return "p_extracted_at, extraction_seq and names that begin with _ are reserved"
    return None


def declared_type(text: str) -> str:
    """Return the Spark SQL name of a declared type, nested types included. Raises ValueError, which lists the types.

    >>> declared_type("Struct<id: Long, tags: array<string>>")
    'struct<id: bigint, tags: array<string>>'
    """
    if not re.match(r"\s*(struct|array|map)\s*<", text, re.IGNORECASE):
        return data_type(text)
    kind = spark_types.parse_type(text)
    for part in spark_types.parts_of(kind):
        if isinstance(part, spark_types.Atom) and part.name not in ATOMIC:
            raise ValueError(f"unknown type {part.name!r} in {text!r}; use one of {', '.join(sorted(ATOMIC))} or decimal(p,s)")
        if isinstance(part, spark_types.Struct) and not part.fields:
            raise ValueError(f"{text!r}: a struct needs at least one field: Parquet stores no empty one")
    if keys := spark_types.keyed_otherwise(kind):
        raise ValueError(f"{text!r}: a map's keys are text, as they come in JSON: map<string, …>, and not {keys[0]}")
    if unfit := spark_types.unfit_fields(kind):
        raise ValueError(f"{text!r}: field {unfit[0]!r}: {REFUSED}")
    return spark_types.sql_type(kind)


DeclaredType = Annotated[str, AfterValidator(declared_type)]


class Column(StrictModel):
    """A value that cannot be cast quarantines its row, with the reason `cast_<column>`. It never becomes NULL silently.

    `binary` is read as base64. Names with spaces or any of `,;{}()=`, names beginning with `_`, `p_extracted_at` and
    `extraction_seq` are refused; use `from` for such a source column.
    """

    type: DeclaredType
    """`string boolean tinyint smallint int bigint float double date timestamp timestamp_ntz binary` or `decimal(p,s)`. `integer
    long short byte bool real` are other names. `struct<a: int, …>`, `array<…>` and `map<string, …>` of these are read from JSON
    text, and cannot be keys."""
    source_name: str | tuple[str, ...] | None = Field(default=None, alias="from")
    """The source's name for it. Without it, the column's own. After the source renamed it, both names, the newest first:
    `[State, Status]`. Of each row, the first of them that has a value is read."""
    expr: str | None = None
    """A SQL expression that sees the typed value as `value`, and nothing else: `"value / 10"`. Its result is cast to `type`
    again."""
    format: str | None = None
    """The pattern of a date or timestamp, as Spark writes them: `dd.MM.yyyy`."""
    unit: str | None = None
    """Shown in the column schema, and in silver's column comment."""
    description: str | None = None
    """Shown in the column schema, and in silver's column comment."""
    pii: bool = False
    """Masks the values in reasons, samples, errors, logs, listings, metadata and alerts. The same holds for other columns
    `from` the same source column ([what is masked where](tables.md#personal-data)). Refused in drift features and in gold's
    grain. Bronze, silver and quarantine still have the values."""

    @field_validator("source_name")
    @classmethod
    def _different_names(cls, value: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        if value is None or isinstance(value, str):
            return value
        if not value:
            raise ValueError("from is an empty list; list the source's names, the newest first")
        if len({name.lower() for name in value}) < len(value):
            raise ValueError(f"from: {', '.join(value)}: a name is listed twice (case does not count)")
        return value[0] if len(value) == 1 else value

    @field_validator("expr")
    @classmethod
    def _sees_value_only(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None:
            tree = parse_expression(value, "expr")
            require_java(tree, info)
            others = sorted(columns_of(tree) - {"value"})
            if others:
                raise ValueError(f"expr sees only `value`, not {', '.join(others)}")
        return value

    @property
    def nested(self) -> bool:
        """Whether it is a struct, array or map. These come as JSON."""
        return isinstance(spark_types.parse_type(self.type), spark_types.NESTED)


def _expand_short_types(columns: Any) -> Any:
    """Return declared columns with `name: type` written as `name: {type: …}`."""
    if isinstance(columns, dict):
        return {name: {"type": column} if isinstance(column, str) else column for name, column in columns.items()}
    return columns


def _refuse_names(columns: dict[str, Column]) -> dict[str, Column]:
    """Raise ValueError for the first name that silver cannot have, or that another has in other letter case."""
    lower: set[str] = set()
    for name in columns:
        if why := unfit_name(name):
            raise ValueError(f"column {name!r}: {why}; use `from:` for the source's")
        if name.lower() in lower:
            raise ValueError(f"{name}: another column has this name in other letter case, which Spark cannot tell apart")
        lower.add(name.lower())
    return columns


Columns = Annotated[dict[str, Column], BeforeValidator(_expand_short_types), AfterValidator(_refuse_names)]
