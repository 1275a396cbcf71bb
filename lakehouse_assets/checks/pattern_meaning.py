"""Where Java reads a regular expression otherwise than Python, or refuses it.

Belongs here: escapes, ignored case and look-behinds of a pattern that is not refused. Does not: its steps (patterns).
"""

import re
import re._parser as parser  # pyright: ignore[reportMissingImports] (the standard library's, without stubs)
from collections.abc import Iterable, Iterator
from typing import Any

from lakehouse_assets.checks.pattern_steps import REPEATS
from lakehouse_assets.checks.patterns import tries_too_many_lengths

# Java tries each of the lengths that a look-behind may have, at each character: more would be too many steps.
LONGEST_LOOK_BEHIND = 256
ESCAPE = re.compile(r"\\.", re.DOTALL)
ESCAPE_OR_CLASS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
GLOBAL_FLAGS = re.compile(r"(?:\(\?[a-z]+\))*")


def java_refusal(pattern: str) -> str | None:
    """Return why Java cannot compile a pattern that is not refused, or takes too long for its look-behinds; None if neither.

    >>> java_refusal(r"[\\b]"), java_refusal("(?i)straße")
    ('has \\\\b within [ ], which is none of Java\'s: write \\\\x08 for a backspace', None)
    """
    for escape, is_in_class in _escapes(pattern):
        if why := _unknown_escape(escape, is_in_class):
            return f"has {why}"
    for name, argument, _ in _nodes(parser.parse(pattern), 0):
        if name in ("ASSERT", "ASSERT_NOT") and argument[0] < 0:
            if any(inner == "GROUPREF" for inner, _, _ in _nodes(argument[1], 0)):
                return "looks back for a reference to a group, whose length Java does not know: write out what it may be"
            least, most = argument[1].getwidth()
            if least < most and most > LONGEST_LOOK_BEHIND:
                return f"looks back over more than {LONGEST_LOOK_BEHIND} characters: bound its repeats, such as {{1,9}} for +"
    if tries_too_many_lengths(pattern):
        return "looks back in too many ways, each of which Java tries at each character: bound its repeats, such as {1,9}"
    return None


def other_meaning(pattern: str) -> str | None:
    """Return why a pattern that is not refused means something else to Java than to Python; None if it does not. Spark runs it
    as Java's, so the rules of a decision may have it.

    >>> other_meaning("(?i)straße"), other_meaning("(?iu)straße")
    ('ignores the case of ASCII letters only: write (?iu) for (?i)', None)
    """
    if why := java_refusal(pattern):
        return why
    for escape, is_in_class in _escapes(pattern):
        if why := _other_escape(escape, is_in_class):
            return f"has {why}"
    tree: Any = parser.parse(pattern)
    names_unicode = "u" in GLOBAL_FLAGS.match(pattern)[0]  # pyright: ignore[reportOptionalSubscript] (it matches any text)
    flags = tree.state.flags if names_unicode else tree.state.flags & ~re.UNICODE
    for name, argument, flags_there in _nodes(tree, flags):
        if flags_there & re.IGNORECASE and not flags_there & re.UNICODE and _is_of_one_case(name, argument):
            return "ignores the case of ASCII letters only: write (?iu) for (?i)"
    return None


def _escapes(pattern: str) -> Iterator[tuple[str, bool]]:
    """Yield up to four characters after each backslash that escapes one, and whether they are within [ ]."""
    for part in ESCAPE_OR_CLASS.finditer(pattern):
        for match in ESCAPE.finditer(part[0]):
            start = part.start() + match.start() + 1
            yield pattern[start : start + 4], part[0].startswith("[")


def _unknown_escape(escape: str, is_in_class: bool) -> str | None:
    """Return what Java does not have, with the way out; None if it has it."""
    if escape.startswith("U"):
        return "\\U, which is none of Java's: write the character itself"
    if escape.startswith("b") and is_in_class:
        return "\\b within [ ], which is none of Java's: write \\x08 for a backspace"
    if re.match("0(?![0-7])", escape):
        return "\\0, which needs digits in Java: write \\x00"
    if is_in_class and (octal := re.match("[1-3]?[0-7]{1,2}", escape)) and octal[0][0] != "0":
        return _no_octal(octal[0])
    return None


def _other_escape(escape: str, is_in_class: bool) -> str | None:
    """Return what Java has and does not read as Python does, with the way out; None if both read it alike."""
    if escape.startswith("v"):
        return "\\v, which is any line break to Java: write \\x0B, or \\s for any space"
    if longer := re.match("0[0-3][0-7]{2}", escape):
        return f"\\{longer[0]}, of which Python reads \\{escape[:3]} only: write \\x{int(longer[0], 8):02X}"
    octal = None if is_in_class else re.match("[1-3][0-7]{2}", escape)
    return _no_octal(octal[0]) if octal else None


def _no_octal(digits: str) -> str:
    return f"\\{digits}, which is no octal number to Java: write \\x{int(digits, 8):02X}"


def _nodes(tree: Iterable[Any], flags: int) -> Iterator[tuple[str, Any, int]]:
    """Yield the name and argument of each node of a parsed pattern, and the flags that apply to it."""
    for op, argument in tree:
        name = str(op)
        yield name, argument, flags
        if name == "SUBPATTERN":
            yield from _nodes(argument[3], (flags | argument[1]) & ~argument[2])
        elif name == "BRANCH":
            for branch in argument[1]:
                yield from _nodes(branch, flags)
        elif name in REPEATS:
            yield from _nodes(argument[2], flags)
        elif name in ("ASSERT", "ASSERT_NOT"):
            yield from _nodes(argument[1], flags)
        elif name == "ATOMIC_GROUP":
            yield from _nodes(argument, flags)


def _is_of_one_case(name: str, argument: Any) -> bool:
    """Return whether it has a letter beyond ASCII without its other case. Of a range, the ends count."""
    if name not in ("LITERAL", "NOT_LITERAL", "IN"):
        return False
    members = [(str(op), value) for op, value in argument] if name == "IN" else [("LITERAL", argument)]
    ranges = [(v, v) if kind == "LITERAL" else v for kind, v in members if kind in ("LITERAL", "RANGE")]
    letters = {chr(end) for ends in ranges for end in ends if end > 127}
    cases = {case for letter in letters for case in (letter.lower(), letter.upper())}
    return not all(len(case) == 1 and any(low <= ord(case) <= high for low, high in ranges) for case in cases)
