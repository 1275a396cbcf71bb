"""The text shown in place of a personal value, and where one may occur.

Belongs here: rules about texts and rows of tables with `pii` columns. Does not: which columns those are (contracts).
"""

import re
from collections.abc import Collection, Iterable, Sequence

MASKED = "(masked: pii)"
_CONDITION = re.compile(r"\[[A-Z][A-Z_.0-9]{5,}\]")
_CLASS = re.compile(r"\w*(Error|Exception): ")
# The one text about an error of a scan that quotes nothing, and stays (`absent_file_message`).
_ABSENT_FILE = re.compile(
    r"(bronze|silver|gold|quarantine|baseline|ops)/(\S+) lacks a data file that its log names: "
    r"(`lakehouse rebuild \2` writes it anew|see `lakehouse verify`)"
)
# A row that fails one of these may have any column's value in any other column: its cells are not where they belong.
MISPLACING = ("readable_row", "key_not_null", "delete_when")


def mask_text(text: str) -> str:
    """An error's text without what it quotes: its condition (`[CAST_INVALID_INPUT]`) stays. Twice is as once."""
    if MASKED in text or not text or _ABSENT_FILE.fullmatch(text):
        return text
    condition = _CONDITION.match(text)
    return f"{condition.group()} {MASKED}" if condition else MASKED


def absent_file_message(layer: str, table: str) -> str:
    """Return the text about a table whose log names a data file that is gone, with the way out.

    >>> masked(absent_file_message("silver", "t"))
    'silver/t lacks a data file that its log names: `lakehouse rebuild t` writes it anew'
    """
    mend = f"`lakehouse rebuild {table}` writes it anew" if layer == "silver" else "see `lakehouse verify`"
    return f"{layer}/{table} lacks a data file that its log names: {mend}"


def quotes(text: str) -> bool:
    """Whether an error's text is that of a library, which may quote a value, and none of ours."""
    return bool(_CONDITION.match(text) or _CLASS.match(text))


def may_be_misplaced(check: str, columns: Collection[str], pii: Collection[str]) -> bool:
    """Whether a row that fails this check may have a personal value in a column that is not marked. So it may if a value is
    not of its column's type, or the record cannot be read. So it may if the key is missing, or a personal column's value fails
    its check.
    """
    return bool(pii) and (check in MISPLACING or check.startswith("cast_") or bool(set(columns) & set(pii)))


def row_is_misplaced(reasons: Iterable[tuple[str, str]], pii: Collection[str]) -> bool:
    """Whether a row with these reasons (check, columns) shows no value of any column."""
    return any(may_be_misplaced(check, columns.split(", "), pii) for check, columns in reasons)


def has_no_header(columns: Sequence[str], declared: Collection[str]) -> bool:
    """Whether none of a batch's columns is a declared one (names of the source, safe), so that its names may be values."""
    lower_names = {name.lower() for name in declared}
    return bool(columns) and not any(name.lower() in lower_names for name in columns)


def numbered_names(columns: Sequence[str]) -> tuple[str, ...]:
    """Return names in place of those that may be values."""
    return tuple(f"unnamed_{number}" for number, _ in enumerate(columns, 1))
