"""The types, formats and number marks that a file's sampled texts show, for a first `defs.yaml`.

Belongs here: guesses from values. Does not: reading the file, keys, or the YAML (draft).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from lakehouse_assets.contracts.number_marks import PLAIN_MARKS, NumberMarks

# A number with a leading zero (a postcode) or more digits than a double keeps is text: as a number it would be another.
FORMS = {
    "boolean": r"(?i)true|false",
    "bigint": r"[+-]?(0|[1-9]\d{0,17})",
    "double": r"[+-]?((0|[1-9]\d{0,14})(\.\d*)?|\.\d+)([eE][+-]?\d+)?",
    "date": r"\d{4}-\d{2}-\d{2}",
    "timestamp": r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?",
}
NUMBERS = ("bigint", "double")
# The first of those that read most columns is taken; of those that read them alike, one with a point before the fraction.
MARKS = [NumberMarks(*marks) for marks in (",", ",.", ", ", ",'", ".,", ".'", ". ")]
DAY_AND_MONTH = re.compile(r"(\d\d)([./-])(\d\d)\2(\d{4})(?: ([01]\d|2[0-3]):[0-5]\d(:[0-5]\d)?)?")


@dataclass(frozen=True)
class DraftValues:
    """``types``, ``formats``: by column. ``marks``: of all numbers. ``ambiguous``: columns whose day may be the month.
    ``ambiguous_numbers``: columns whose mark may be before the fraction or between thousands.
    """

    types: dict[str, str]
    formats: dict[str, str] = field(default_factory=dict)
    marks: NumberMarks = PLAIN_MARKS
    ambiguous: tuple[str, ...] = ()
    ambiguous_numbers: tuple[str, ...] = ()

    @property
    def marks_advice(self) -> str:
        """Return which marks were guessed, and which could not be; "" if numbers are plain."""
        if self.ambiguous_numbers:
            either = f"{', '.join(self.ambiguous_numbers)} may have a mark before the fraction or between thousands"
            return f"{either}, and stays text: declare a type, and source.decimal or source.thousands"
        options = ", ".join(f"{name} {mark!r}" for name, mark in self.marks.as_options().items())
        return f"numbers are read with {options}, guessed; check it" if options else ""

    @property
    def formats_advice(self) -> str:
        """Return which formats were guessed, and which could not be."""
        guessed = [f"{column} is read as {form}" for column, form in self.formats.items()]
        either = [
            f"{column} may have the day or the month first, and stays text: declare a type and `format:`"
            for column in self.ambiguous
        ]
        return "; ".join([*guessed, *either])


def draft_plain_values(values: Mapping[str, Sequence[str]]) -> DraftValues:
    """Return the types alone: of a file whose format writes numbers and times in one way."""
    return DraftValues({column: _type(some) for column, some in values.items()})


def draft_values(values: Mapping[str, Sequence[str]]) -> DraftValues:
    """Return what the texts of each column show. A column without texts is a string."""
    types = {column: _type(some) for column, some in values.items()}
    marks, ambiguous_numbers = _marks(values, types)
    for column in [name for name, kind in types.items() if kind in ("string", "double")]:
        plain = [marks.plain_text(value) for value in values[column]]
        kind = _type([text for text in plain if text is not None])
        if None not in plain and kind in NUMBERS:
            types[column] = kind
    formats: dict[str, str] = {}
    ambiguous: list[str] = []
    for column in [name for name, kind in types.items() if kind == "string" and values[name]]:
        candidates = _formats(values[column])
        if len(candidates) == 1:
            formats[column], types[column] = candidates[0], "timestamp" if "HH" in candidates[0] else "date"
        elif candidates:
            ambiguous.append(column)
    return DraftValues(types, formats, marks, tuple(ambiguous), ambiguous_numbers)


def _type(values: Sequence[str]) -> str:
    return next((kind for kind, form in FORMS.items() if values and all(re.fullmatch(form, v) for v in values)), "string")


def _marks(values: Mapping[str, Sequence[str]], types: Mapping[str, str]) -> tuple[NumberMarks, tuple[str, ...]]:
    """Return the marks that make numbers of most columns of text, and leave no number a text; and the columns that other such
    marks read as other numbers. If there is one, the marks are plain.
    """
    texts = {column: some for column, some in values.items() if some and types[column] in ("string", *NUMBERS)}
    readings: dict[NumberMarks, dict[str, list[str | None]]] = {}
    most = 0
    for marks in MARKS:
        plain = {column: [marks.plain_text(value) for value in some] for column, some in texts.items()}
        plain = {column: some for column, some in plain.items() if all(map(_is_number, some))}
        count = sum(types[column] == "string" for column in plain)
        if count >= max(most, 1) and all(column in plain for column, kind in types.items() if kind in NUMBERS):
            readings = {marks: plain} if count > most else {**readings, marks: plain}
            most = count
    if not readings:
        return PLAIN_MARKS, ()
    first = next(iter(readings.values()))
    ambiguous = tuple(c for c, some in first.items() if any(other.get(c, some) != some for other in readings.values()))
    # Numbers that show no decimal mark are read with a point.
    alike = [marks for marks, columns in readings.items() if columns == first]
    best = next((marks for marks in alike if marks.decimal == "."), alike[0])
    return (PLAIN_MARKS, ambiguous) if ambiguous else (best, ())


def _is_number(text: str | None) -> bool:
    return text is not None and any(re.fullmatch(FORMS[kind], text) for kind in NUMBERS)


def _formats(values: Sequence[str]) -> list[str]:
    """Return the formats of dates by which all texts can be read. With points, the day comes first everywhere.

    >>> _formats(["31.01.2024 08:00"]), _formats(["31/01/2024"]), _formats(["01/02/2024"]), _formats(["1.2.2024"])
    (['dd.MM.yyyy HH:mm'], ['dd/MM/yyyy'], ['dd/MM/yyyy', 'MM/dd/yyyy'], [])
    """
    matches = [DAY_AND_MONTH.fullmatch(value) for value in values]
    shapes = {(m[2], m[5] is not None, m[6] is not None) if m else None for m in matches}
    if len(shapes) != 1 or None in shapes:
        return []
    [(separator, has_time, has_seconds)] = [shape for shape in shapes if shape]
    time = " HH:mm:ss" if has_seconds else " HH:mm" if has_time else ""
    orders = {"dd MM yyyy": (1, 3), "MM dd yyyy": (3, 1)} if separator != "." else {"dd MM yyyy": (1, 3)}
    return [
        order.replace(" ", separator) + time
        for order, (day, month) in orders.items()
        if all(_is_day(int(m[4]), int(m[month]), int(m[day])) for m in matches if m)
    ]


def _is_day(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True
