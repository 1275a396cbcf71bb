"""What a row's reason adds about its probable cause: how a record is not readable, and numbers with a decimal comma.

Belongs here: SQL of when an addition applies, and its text, which quotes no value. Does not: the rules (stage).
"""

from lakehouse_assets.checks.sql.text import literal
from lakehouse_assets.contracts.columns import Column
from lakehouse_assets.contracts.number_marks import (
    LOOKS_LIKE_COMMA,
    LOOKS_LIKE_EITHER,
    LOOKS_LIKE_THOUSANDS,
    NumberMarks,
    is_number,
)
from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.measures.scan import READABLE

Hints = tuple[tuple[str, str], ...]
READABLE_MESSAGE = "the record can be read"
# Whether a record is of a file that can be read.
OF_A_FILE = "_corrupt_record IS NOT NULL AND size(_columns) > 0"
UNDECODED = "(contains(_corrupt_record, '\ufffd') OR NOT is_valid_utf8(_corrupt_record))"
OTHERWISE = {
    "csv": "its quotes do not pair, or it has more or fewer fields than the header",
    "json": "it is no JSON object",
    "fixed": "its line has another width",
}


def record_hints(spec: TableContract) -> Hints:
    """Return why a record of a text file is not readable, by kind; nothing for other sources."""
    source = spec.source
    if not isinstance(source, FilesSource) or source.format not in OTHERWISE:
        return ()
    undecoded = UNDECODED
    if source.format == "fixed":
        undecoded = f"startswith(_corrupt_record, {literal(f'a line that is not {source.encoding}: ')})"
    advice = "" if source.format == "json" else ": is source.encoding right?"
    not_decoded = ((f"{OF_A_FILE} AND {undecoded}", f": it is not {source.encoding}{advice}"),)
    otherwise = ((OF_A_FILE, f": {OTHERWISE[source.format]}"),)
    return otherwise if source.encoding == "iso-8859-1" else (*not_decoded, *otherwise)


def count_record_kinds(spec: TableContract) -> dict[str, dict[str, str]]:
    """Return the aggregates over staged rows that count unreadable records by kind, as `scan` takes them."""
    kinds = {
        addition.removeprefix(": "): f"r.check = '{READABLE}' AND r.message = {literal(READABLE_MESSAGE + addition)}"
        for _, addition in record_hints(spec)
    }
    return {READABLE: {kind: f"count_if(exists(_reasons, r -> {is_one}))" for kind, is_one in kinds.items()}} if kinds else {}


def number_hints(spec: TableContract, column: Column, raw: str) -> Hints:
    """Return what names the keys for commas in numbers; nothing where that key does not apply. ``raw``: SQL of the text."""
    is_text = isinstance(spec.source, FilesSource) and spec.source.format in ("csv", "fixed")
    if not (is_text and is_number(column.type) and NumberMarks.of(spec.source).are_plain):
        return ()
    return (
        (f"{raw} RLIKE {literal(LOOKS_LIKE_EITHER)}", ": is source.decimal or source.thousands ',' in all files?"),
        (f"{raw} RLIKE {literal(LOOKS_LIKE_THOUSANDS)}", ": is source.thousands ',' in all files?"),
        (f"{raw} RLIKE {literal(LOOKS_LIKE_COMMA)}", ": is source.decimal ',' in all files?"),
    )


def with_hints(message: str, hints: Hints) -> str:
    """Return SQL of a reason's message: with the first addition that applies.

    >>> with_hints("a", (("x", "b"),))
    "CASE WHEN x THEN 'ab' ELSE 'a' END"
    """
    if not hints:
        return literal(message)
    cases = " ".join(f"WHEN {applies} THEN {literal(message + addition)}" for applies, addition in hints)
    return f"CASE {cases} ELSE {literal(message)} END"
