"""An error as one line of text for a person: with its quotations, or without them if they may be personal values.

Belongs here: the one way from an exception to text that leaves the process. Does not: printing or storing it.
"""

import re
import traceback
from pathlib import Path

from pyspark.errors import AnalysisException, ParseException

from lakehouse_assets.decisions.personal import MASKED, absent_file_message, mask_text
from lakehouse_assets.errors import EvidenceError, LakehouseError, java_causes

LENGTH = 300
CONDITION = re.compile(r"\[[A-Z][A-Z_.0-9]{5,}\]")
# Their texts contain names of code, SQL and the contract, and no values.
WITHOUT_VALUES = (LakehouseError, AnalysisException, ParseException, ImportError, AttributeError, NameError)
PACKAGE = Path(__file__).resolve().parent.parent
# Their texts name files, machines and columns, and quote no row. Exact names: Java's parsers derive theirs from IOException.
WITHOUT_ROWS = re.compile(
    r"(java\.io\.(IOException|FileNotFoundException|EOFException)|java\.nio\.file\.\w+|java\.net\.\w+"
    r"|java\.lang\.(OutOfMemoryError|StackOverflowError|InterruptedException|ClassNotFoundException|NoClassDefFoundError)"
    r"|org\.apache\.hadoop\.(fs|security)\.[\w.$]+|org\.apache\.spark\.memory\.\w+)"
)


# How Spark and Delta name a data file that their table's log has and the folder has not.
ABSENT_FILE = re.compile(r"FILE_NOT_EXIST|DELTA_FILE_NOT_FOUND|FileNotFoundException|FileNotFoundError")
LOGS = r"ops(?=/(?:decisions|extractions|positions|baselines|check_results)/)"
DATA_FILE = re.compile(rf"/(silver|gold|bronze|quarantine|baseline|{LOGS})/([^/\s]+)/(?!_delta_log)[^\s]*\.parquet")


def plain_text(error: BaseException) -> str:
    """Return an error's essential line without the JVM's stack. It is the one with an error condition (`[CAST_INVALID_INPUT]
    …`), else the class and first line of the innermost cause.
    """
    if text := _absent_file_text(error):
        return text
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for line in lines:
        if condition := CONDITION.search(line):
            return line[condition.start() :][:LENGTH]
    if causes := _causes(error):
        name, text = causes[-1]
        first_line = next((line.strip() for line in text.splitlines() if line.strip()), "no message")
        return f"{name.rpartition('.')[2]}: {first_line}"[:LENGTH]
    return (lines[0] if lines else type(error).__name__)[:LENGTH]


def masked_text(error: BaseException) -> str:
    """Return an error without quotations of rows: its condition or class, and the line of this project that raised it."""
    if isinstance(error, WITHOUT_VALUES) or _absent_file_text(error):
        return plain_text(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{type(error).__name__}: {error.strerror}{f': {error.filename}' if error.filename else ''}"
    causes = _causes(error)
    if causes and WITHOUT_ROWS.fullmatch(causes[-1][0]):
        return plain_text(error)
    text = plain_text(error)
    if CONDITION.match(text):
        return f"{mask_text(text)}{_code_location(error)}"
    name = causes[-1][0].rpartition(".")[2] if causes else type(error).__name__
    return f"{name}: {MASKED}{_code_location(error)}"


def error_text(error: BaseException, personal: bool) -> str:
    """Return the error as text. ``personal``: it comes from rows with personal columns."""
    return masked_text(error) if personal else plain_text(error)


def as_evidence_error(error: BaseException) -> EvidenceError | None:
    """Return the error that names the way out where a data file is gone; None for any other error."""
    text = _absent_file_text(error)
    return EvidenceError(text) if text else None


def _absent_file_text(error: BaseException) -> str:
    """Return the text for a table that lacks a data file, with the way out; empty for any other error. It quotes no row."""
    for text in [f"{type(error).__name__}: {error}", *[f"{name}: {message}" for name, message in _causes(error)]]:
        if ABSENT_FILE.search(text) and (match := DATA_FILE.search(text)):
            return absent_file_message(*match.groups())
    return ""


def _causes(error: BaseException) -> list[tuple[str, str]]:
    """Return class and message of each Java cause, outermost first; none for a Python error."""
    return [(str(cause.getClass().getName()), str(cause.getMessage() or "")) for cause in java_causes(error)]


def _code_location(error: BaseException) -> str:
    """Return the innermost line of this project that raised the error."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if PACKAGE in path.parents:
            return f" (at {path.relative_to(PACKAGE)}:{frame.lineno})"
    return ""
