"""Fields of fixed width: where each is in a line.

Belongs here: the shape of `source.fields` (pure). Does not: reading lines (sources/fixed_files).
"""

from collections.abc import Sequence
from typing import NamedTuple

from pydantic import Field

from lakehouse_assets.checks.strict_model import StrictModel


class FixedField(StrictModel):
    """One field of a line of fixed width."""

    name: str = Field(min_length=1, max_length=300)
    """The column's name in bronze."""
    width: int = Field(ge=1, le=1_000_000)
    """How many characters it has."""
    start: int | None = Field(default=None, ge=1, le=1_000_000)
    """The position of its first character, from 1. Without it, the field begins where the one before it ends."""


class Position(NamedTuple):
    """A field's name, its first character from 1, and its width."""

    name: str
    start: int
    width: int


def field_positions(fields: Sequence[FixedField]) -> tuple[Position, ...]:
    """Return where the fields are, in their order. Raises ValueError for fields that overlap, or share a name.

    >>> field_positions([FixedField(name="id", width=3), FixedField(name="n", start=9, width=4)])
    (Position(name='id', start=1, width=3), Position(name='n', start=9, width=4))
    """
    positions: list[Position] = []
    names: dict[str, str] = {}
    for field in fields:
        start = field.start or (positions[-1].start + positions[-1].width if positions else 1)
        position = Position(field.name, start, field.width)
        for other in positions:
            if start < other.start + other.width and other.start < start + field.width:
                raise ValueError(f"fields: {field.name!r} and {other.name!r} overlap at character {max(start, other.start)}")
        if twin := names.get(field.name.lower()):
            raise ValueError(f"fields: {twin!r} and {field.name!r} are one name, since Spark ignores letter case")
        names[field.name.lower()] = field.name
        positions.append(position)
    return tuple(positions)


def line_width(positions: Sequence[Position]) -> int:
    """Return how many characters a line has."""
    return max(position.start + position.width - 1 for position in positions)
