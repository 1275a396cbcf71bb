"""The kinds of faults that a rehearsal puts into copies of windows. A new kind is one more entry of `FAULTS`.

Belongs here: each kind's sizes, the columns that can have it, its SQL over a copied row, and the rule that would see it. Does
not: choosing columns or copying rows (rehearsal_copies), or judging the copies (rehearse).

Ten families are those of Auto-Validate-by-History (Tu et al., KDD 2023), written anew: other columns' values, units, letter
case, missing values, more and fewer rows, biased samples, and replaced, inserted and deleted characters.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lakehouse_assets.operations.rehearsal_columns import (
    BOOLEAN,
    DATE,
    MOMENT,
    NUMBER,
    PLAIN,
    TEXT,
    FaultColumn,
    RehearsalFigures,
)

MOST_GROUPS = 20
# Of each row and copy: a number in [0, 1), and a whole number for choices within a value.
DRAW, CHOICE = "_rehearsal_draw", "_rehearsal_choice"
LETTERS = {TEXT: "abcdefghijklmnopqrstuvwxyz", NUMBER: "0123456789"}


class Size(NamedTuple):
    """How large a fault is: its name, the share of the rows that have it, and an amount in the fault's own unit."""

    label: str
    share: float = 1.0
    amount: float = 1.0


NO_SIZE = Size("")
SOME_OR_ALL = (Size("10 % of rows", 0.1), Size("all rows"))
TENTH_OR_HALF = (Size("10 % of rows", 0.1), Size("50 % of rows", 0.5))


@dataclass(frozen=True)
class Fault:
    """A kind of fault. ``kinds``: of the columns that can have it; none: it is a fault of the rows. ``advice``: the rules or
    drift features that would see it, with ``{column}`` and ``{partner}``.

    ``text``: SQL of the faulty text, which ``share`` of the rows with a value get. ``times``: SQL of how many times a row is in
    the copy. ``swaps``: instead of ``text``, the values of another column of the same kind. ``fits``: whether values with
    such figures can have it. ``removed_by_key``: a table with a key publishes the same rows in spite of it. ``most``: how many
    rows a copy has at most for one of its window.
    """

    name: str
    summary: str
    sizes: tuple[Size, ...]
    advice: str
    kinds: frozenset[str] = frozenset()
    text: Callable[[FaultColumn, Size], str] | None = None
    times: Callable[[FaultColumn | None, Size], str] | None = None
    swaps: bool = False
    fits: Callable[[RehearsalFigures], bool] = lambda figures: True
    removed_by_key: bool = False
    most: Callable[[Size], float] = lambda size: 1

    def can_be_in(self, column: FaultColumn, figures: RehearsalFigures) -> bool:
        """Return whether a column with such values can have it."""
        return column.kind in self.kinds and figures.filled > 0 and self.fits(figures)

    def texts(self, column: FaultColumn, partner: FaultColumn | None, size: Size) -> Mapping[str, str]:
        """Return SQL of the faulty texts by bronze's column."""
        if self.swaps and partner:
            return {column.stored: partner.text, partner.stored: column.text}
        return {column.stored: self.text(column, size)} if self.text else {}


def _varies(figures: RehearsalFigures) -> bool:
    return (figures.spread or 0.0) > 0.0


def _edited(column: FaultColumn, letter: str, replaced: int) -> str:
    """SQL of the text with ``letter`` in place of so many characters at a random place."""
    position = f"1 + CAST(pmod({CHOICE}, greatest(length({column.text}), 1)) AS INT)"
    return f"overlay({column.text} PLACING {letter} FROM {position} FOR {replaced})"


def _letter(column: FaultColumn) -> str:
    letters = LETTERS[column.kind]
    return f"substr('{letters}', 1 + CAST(pmod({CHOICE} div 1000, {len(letters)}) AS INT), 1)"


def _misread(column: FaultColumn, _: Size) -> str:
    # ASCII survives every character set but UTF-16, whose first two bytes are no characters.
    text = column.text
    latin = f"decode(encode({text}, 'UTF-8'), 'ISO-8859-1')"
    return f"CASE WHEN octet_length({text}) > length({text}) THEN {latin} ELSE concat('\ufffd', {text}) END"


def _later(column: FaultColumn, size: Size) -> str:
    later = column.later(int(size.amount))
    # Of the dates, those that the shift takes over midnight.
    over = f"CASE WHEN {DRAW} < {size.amount / 24!r}D THEN {later} ELSE {column.text} END"
    return over if column.kind == DATE else later


def _keep_lowest(column: FaultColumn | None, size: Size) -> str:
    return f"CASE WHEN {column.number} <= {column.quantile(size.amount)} THEN 1 ELSE 0 END" if column else "1"


def _keep_highest(column: FaultColumn | None, size: Size) -> str:
    return f"CASE WHEN {column.number} >= {column.quantile(size.amount)} THEN 1 ELSE 0 END" if column else "1"


def _lose_group(column: FaultColumn | None, size: Size) -> str:
    if column is None:
        return "1"
    return f"CASE WHEN {column.filled} <=> {column.figure('usual' if size.amount else 'first')} THEN 0 ELSE 1 END"


_VOLUME = "row_count or row_count_ratio; or any `drift:`, which judges the number of rows too"
_TEXT_RULE = "matches or in_set of {column}; or {column} as a drift feature"
_RANGE = "in_range of {column}; or {column} as a drift feature"
_TYPO = "matches, in_set, length or in_range of {column}; or {column} as a drift feature"
_BIAS = "row_count_ratio, or statistic of {column}; or {column} as a drift feature"
_NUMBERS, _TEXTS, _TIMES = frozenset({NUMBER}), frozenset({TEXT}), frozenset({MOMENT, DATE})
_KINDS = (
    Fault(
        "swapped_columns", "two columns of one kind are exchanged", SOME_OR_ALL,
        "in_range, in_set or matches of {column} and {partner}; or both as drift features", PLAIN, swaps=True,
    ),
    Fault(
        "unit", "numbers are in another unit",
        (
            Size("×10 in 10 % of rows", 0.1, 10), Size("×10 in all rows", 1.0, 10),
            Size("×1000 in 10 % of rows", 0.1, 1000), Size("×1000 in all rows", 1.0, 1000),
        ),
        _RANGE, _NUMBERS, text=lambda column, size: column.scaled(int(size.amount)),
    ),
    Fault(
        "upper_case", "texts are in capital letters", SOME_OR_ALL, _TEXT_RULE, _TEXTS,
        text=lambda column, _: f"upper({column.text})",
    ),
    Fault(
        "lower_case", "texts are in small letters", SOME_OR_ALL, _TEXT_RULE, _TEXTS,
        text=lambda column, _: f"lower({column.text})",
    ),
    Fault(
        "nulls", "values are missing", (Size("1 % of rows", 0.01), *SOME_OR_ALL),
        "not_null or null_share of {column}; or {column} as a drift feature", PLAIN,
        text=lambda *_: "CAST(NULL AS STRING)",
    ),
    Fault(
        "duplicated_rows", "rows arrive more than once", (Size("twice", amount=2), Size("ten times", amount=10)), _VOLUME,
        times=lambda _, size: str(int(size.amount)), removed_by_key=True, most=lambda size: size.amount,
    ),
    Fault(
        "missing_rows", "rows are lost by chance", (Size("half of the rows", amount=0.5), Size("nine of ten", amount=0.9)),
        _VOLUME, times=lambda _, size: f"CASE WHEN {DRAW} < {size.amount!r}D THEN 0 ELSE 1 END",
    ),
    Fault(
        "lowest_values_only", "only the rows with the lowest values arrive",
        (Size("the lowest tenth", amount=0.1), Size("the lower half", amount=0.5)), _BIAS, _NUMBERS | _TIMES,
        times=_keep_lowest, fits=_varies,
    ),
    Fault(
        "highest_values_only", "only the rows with the highest values arrive",
        (Size("the highest tenth", amount=0.9), Size("the upper half", amount=0.5)), _BIAS, _NUMBERS | _TIMES,
        times=_keep_highest, fits=_varies,
    ),
    Fault(
        "replaced_characters", "one character is another", TENTH_OR_HALF, _TYPO, _TEXTS | _NUMBERS,
        text=lambda column, _: _edited(column, _letter(column), 1),
    ),
    Fault(
        "inserted_characters", "there is one character too many", TENTH_OR_HALF, _TYPO, _TEXTS | _NUMBERS,
        text=lambda column, _: _edited(column, _letter(column), 0),
    ),
    Fault(
        "deleted_characters", "one character is missing", TENTH_OR_HALF, _TYPO, _TEXTS | _NUMBERS,
        text=lambda column, _: _edited(column, "''", 1),
    ),
    Fault("encoding", "texts are decoded by the wrong character set", SOME_OR_ALL, _TEXT_RULE, _TEXTS, text=_misread),
    Fault(
        "stuck_value", "one value is repeated", (Size("50 % of rows", 0.5), Size("all rows")),
        "distinct_count or statistic of {column}; or {column} as a drift feature", PLAIN,
        text=lambda column, _: column.figure("stuck"), fits=lambda figures: figures.distinct > 1,
    ),
    Fault(
        "time_zone", "times are of another zone", (Size("one hour", amount=1), Size("five hours", amount=5)),
        "a sql check that {column} is within :window_start and :window_end; or freshness of {column}", _TIMES, text=_later,
    ),
    Fault(
        "offset", "all numbers are higher", (Size("by half a deviation", amount=0.5), Size("by two deviations", amount=2.0)),
        "{column} as a drift feature; or statistic of {column}", _NUMBERS,
        text=lambda column, size: column.moved(size.amount), fits=_varies,
    ),
    Fault(
        "lost_group", "all rows of one value are lost",
        (Size("the most frequent", amount=1), Size("the first by name", amount=0)),
        "distinct_count of {column}; or {column} as a drift feature", frozenset({TEXT, BOOLEAN}),
        times=_lose_group, fits=lambda figures: 2 <= figures.distinct <= MOST_GROUPS,
    ),
)  # fmt: skip
FAULTS: dict[str, Fault] = {fault.name: fault for fault in _KINDS}
