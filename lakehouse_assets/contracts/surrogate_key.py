"""A table's `surrogate_key:`: one column of silver that identifies a row by a hash of other columns.

Belongs here: its shape, and the types that it can hash. Does not: computing it (measures/surrogate_key).
"""

from typing import Literal

from pydantic import Field, field_validator

from lakehouse_assets.checks.strict_model import StrictModel
from lakehouse_assets.contracts.columns import Column, unfit_name
from lakehouse_assets.contracts.spark_types import Atom, Decimal, SparkType

# How a value is written before it is hashed. Types of one form write equal values alike, so that a column may widen.
Form = Literal["text", "truth", "number", "date", "moment", "bytes"]
FORMS: dict[str, Form] = {
    "string": "text", "boolean": "truth", "tinyint": "number", "smallint": "number", "int": "number", "bigint": "number",
    "date": "date", "timestamp": "moment", "timestamp_ntz": "moment", "binary": "bytes",
}  # fmt: skip


class SurrogateKeySpec(StrictModel):
    """A column of silver with the SHA-256 of other columns, as 64 hex digits ([how it is made](tables.md#surrogate-keys)). It
    follows from the row's values alone, so a rebuild gives the same one.
    """

    name: str
    """The column. It is a `string`, is never NULL, and comes after the declared columns. Checks and drift features cannot name
    it: name the columns that it is made of."""
    columns: tuple[str, ...] = Field(alias="from", min_length=1)
    """Declared columns, in the order in which they are hashed. Not of type `float` or `double`, and not nested. It is unique if
    they identify a row. If one of them is `pii`, it is personal too."""

    @field_validator("name")
    @classmethod
    def _fits(cls, value: str) -> str:
        if why := unfit_name(value):
            raise ValueError(f"column {value!r}: {why}")
        return value

    @field_validator("columns")
    @classmethod
    def _differ(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if twice := [name for index, name in enumerate(value) if name in value[:index]]:
            raise ValueError(f"{twice[0]!r} is listed twice")
        return value

    def as_column(self, *, pii: bool) -> Column:
        """Return the declaration of the column in silver."""
        return Column(type="string", description=f"SHA-256 of {', '.join(self.columns)}", pii=pii)


def form_of(kind: SparkType) -> Form | None:
    """Return how values of a type are written to be hashed; None for a type whose values have no text of their own.

    >>> form_of(Atom("int")) == form_of(Decimal(12, 2)), form_of(Atom("double"))
    (True, None)
    """
    if isinstance(kind, Decimal):
        return "number"
    return FORMS.get(kind.name) if isinstance(kind, Atom) else None
