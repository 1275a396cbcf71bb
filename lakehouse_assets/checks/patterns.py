"""Which regular expressions a check may use: those that Python and Java read alike, and that end on every value.

Belongs here: reading a pattern and bounding the steps of a backtracking match. Does not: the check kind, or matching.
"""

import re
import re._parser as parser  # pyright: ignore[reportMissingImports] (the standard library's, without stubs)
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

# Longer values fail without being matched: a backtracking engine needs a stack frame per character.
LONGEST = 4096
# About what Java does in two seconds: a square of the longest value, and some.
STEPS = 16 * LONGEST**2
LONGEST_PATTERN = 1000
MOST = 2**31 - 1
REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
SINGLE = ("LITERAL", "NOT_LITERAL", "IN", "ANY", "CATEGORY")  # of one character
# What may follow `(?` in both languages; names, comments and conditions are written differently, or not at all.
GROUP = re.compile(r"[:=!>]|<[=!]|[imsu]*(-[ims]+)?[:)]")
QUANTIFIER = re.compile(r"[*+]|\{(\d+)(?:,(\d*))?\}")


@dataclass(frozen=True)
class _Rest:
    """What follows a place in the pattern: ``steps`` at most to try it once, ``first`` characters it may begin with."""

    steps: int
    first: frozenset[str]


class _Refused(Exception):
    """The pattern holds something whose steps have no useful bound."""


def refusal(pattern: str) -> str | None:
    """Why a pattern is refused, None if it is not.

    The steps of a failing match are bounded from the end of the pattern to its beginning: a repeat multiplies the steps
    of what follows by its number of choices, unless what follows can begin with none of the repeated characters.

    >>> refusal("^[A-Z]{3}$")
    >>> refusal("(a+)+").split(":")[0]
    'could run for ever on some value'
    """
    try:
        repeated_choice = _read(pattern)
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            tree = parser.parse(pattern)
        if repeated_choice:
            raise _Refused("an alternation is repeated; write [ab]* for (a|b)*")
        steps = _Bound(pattern, tree.state.flags).steps(tree)
    except _Refused as error:
        return f"could run for ever on some value: {error}"
    except (re.error, FutureWarning, OverflowError, RecursionError) as error:
        return f"does not compile: {'nested too deeply' if isinstance(error, RecursionError) else error}"
    if steps > STEPS:
        return "could run for ever on some value: too many open repeats share characters; anchor it with ^, or bound them"
    return None


def opens(pattern: str) -> bool:
    """Whether what it takes to try a pattern, once, may grow with the value: it has a repeat without end, other than of one
    character at its very end. Of a pattern that is not refused.

    >>> opens("a+b"), opens("[0-9]{2,4}-a+"), opens(", ?")
    (True, False, False)
    """
    parsed: Any = parser.parse(pattern)
    return _opens(list(parsed), at_end=True)


def of_like(pattern: str, escape: str = "\\") -> str:
    """The regular expression of a pattern of LIKE, up to a last `%`: what follows that matches at once.

    >>> of_like("a%_.%")
    '(?s)^a.*.\\\\.'
    """
    parts, place = ["(?s)^"], 0
    while place < len(pattern):
        char = pattern[place]
        if char == escape and place + 1 < len(pattern):
            place += 1
            parts.append(re.escape(pattern[place]))
        elif char != "%" or parts[-1] != ".*":
            parts.append({"%": ".*", "_": "."}.get(char, re.escape(char)))
        place += 1
    return "".join(parts[:-1] if parts[-1] == ".*" else [*parts, "$"])


def _read(pattern: str) -> bool:
    """Whether an alternation is repeated: Python folds (a|b)* into a set, Java recurses once per character.

    Raises re.error for what only one of the two languages reads.
    """
    if len(pattern) > LONGEST_PATTERN:
        raise re.error(f"it is longer than {LONGEST_PATTERN} characters")
    choices, place, found = [False], 0, False
    while place < len(pattern):
        char = pattern[place]
        if char == "\\":
            place += 1
            if pattern.startswith("Z", place):
                raise re.error("\\Z also stands before a last line break to Java: write $, or (?!\\s|\\S) for the very end")
        elif char == "[":
            place = _class_end(pattern, place)
        elif char == "(":
            if pattern.startswith("(?", place) and not GROUP.match(pattern, place + 2):
                raise re.error(f"{pattern[place : place + 4]!r} is not read alike by Python and Java")
            choices.append(False)
        elif char == "|":
            choices[-1] = True
        elif char == "{":
            # Python takes {,3} for {0,3} and any other for a character; Java refuses them.
            repeat = QUANTIFIER.match(pattern, place)
            if not repeat or any(int(number or 0) > MOST for number in repeat.groups()):
                way_out = "{2}, {2,} and {2,5} are repeats, {0,3} is for {,3}, and \\{ is the character"
                raise re.error(f"{pattern[place : place + 8]!r} is no repeat to Java: {way_out}")
        elif char == ")" and len(choices) > 1:
            choice = choices.pop()
            choices[-1] |= choice
            quantifier = QUANTIFIER.match(pattern, place + 1)
            found |= bool(choice and quantifier and quantifier[0] not in ("{1}", "{0,1}"))
        place += 1
    return found


def _class_end(pattern: str, start: int) -> int:
    place = start + 1 + pattern.startswith("^", start + 1)
    place += pattern.startswith("]", place)
    while place < len(pattern) and pattern[place] != "]":
        if pattern[place] == "[" or pattern.startswith("&&", place):
            raise re.error("within [ ] Java takes [ and && for more than characters: escape them")
        place += 1 + (pattern[place] == "\\")
    return place


class _Bound:
    """The bound of one pattern. Characters are judged on an alphabet of Latin-1 and of every character of the pattern."""

    def __init__(self, pattern: str, flags: int) -> None:
        near = {point + step for point in map(ord, pattern) for step in (-1, 0, 1)}
        points = {*range(256), *(point for point in near if 0 <= point < 0x110000)}
        self.alphabet = {case for point in points for char in [chr(point)] for case in (char, char.lower(), char.upper())}
        self.any_case = bool(flags & re.IGNORECASE) or re.search(r"\(\?[a-z]*i", pattern) is not None
        self.multiline = bool(flags & re.MULTILINE)

    def steps(self, tree: Any) -> int:
        """The most steps of a match that fails, from every place that it may begin at."""
        found = self._sequence(tree, _Rest(1, frozenset()))
        begins = [str(argument) for op, argument in list(tree)[:1] if str(op) == "AT"]
        anchored = begins and (begins[0] == "AT_BEGINNING_STRING" or (begins[0] == "AT_BEGINNING" and not self.multiline))
        return found.steps * (1 if anchored else LONGEST)

    def _sequence(self, tree: Iterable[Any], rest: _Rest) -> _Rest:
        for op, argument in reversed(list(tree)):
            rest = self._node(str(op), argument, rest)
        return rest

    def _node(self, name: str, argument: Any, rest: _Rest) -> _Rest:
        if name == "SUBPATTERN":
            return self._sequence(argument[3], rest)
        if name == "ATOMIC_GROUP":
            return self._sequence(argument, rest)
        if name in REPEATS:
            low, high, body = argument
            return self._repeat(int(low), int(high), body, rest)
        if name == "BRANCH":
            return self._choice([self._sequence(branch, rest) for branch in argument[1]])
        if name in ("ASSERT", "ASSERT_NOT"):
            return _Rest(self._sequence(argument[1], _Rest(1, frozenset(self.alphabet))).steps + rest.steps, rest.first)
        if name == "AT":
            ends = "END" in str(argument)
            return _Rest(rest.steps + 1, rest.first | {"\n"} if ends else rest.first)
        if name == "GROUPREF":
            return _Rest(rest.steps + LONGEST, frozenset(self.alphabet))
        return _Rest(rest.steps + 1, self._characters(name, argument))

    def _repeat(self, low: int, high: int, body: Any, rest: _Rest) -> _Rest:
        if high > 1 and not _is_fixed(body):
            raise _Refused("a repeat, an alternation or a reference within a repeat")
        once = self._sequence(body, rest)
        if high <= 1:
            return once if low == high else self._choice([once, rest])
        first = self._sequence(body, _Rest(0, rest.first)).first
        choices = min(high, LONGEST) - min(low, LONGEST) + 1
        shared = bool(first & rest.first)
        steps = choices * rest.steps if shared else choices + rest.steps
        return _Rest(steps + min(low, LONGEST), first if low else first | rest.first)

    def _choice(self, ways: list[_Rest]) -> _Rest:
        first = frozenset[str]().union(*(way.first for way in ways))
        apart = sum(len(way.first) for way in ways) == len(first)
        steps = max(way.steps for way in ways) + len(ways) if apart else sum(way.steps for way in ways)
        return _Rest(steps, first)

    def _characters(self, name: str, argument: Any) -> frozenset[str]:
        if name == "ANY":
            return frozenset(self.alphabet)
        if not self.any_case:
            return frozenset(char for char in self.alphabet if _holds(name, argument, char))
        return frozenset(
            char for char in self.alphabet if any(_holds(name, argument, c) for c in (char, char.lower(), char.upper()))
        )


def _holds(name: str, argument: Any, char: str) -> bool:
    if len(char) != 1:
        return False
    if name in ("LITERAL", "NOT_LITERAL"):
        return (ord(char) == argument) == (name == "LITERAL")
    if name == "RANGE":
        return argument[0] <= ord(char) <= argument[1]
    if name == "CATEGORY":
        kind = str(argument).removeprefix("CATEGORY_")
        plain = kind.removeprefix("NOT_")
        held = {"DIGIT": char.isdigit(), "SPACE": char.isspace(), "WORD": char.isalnum() or char == "_"}.get(plain, True)
        return held == (plain == kind)
    if name == "IN":
        negated = str(argument[0][0]) == "NEGATE"
        return any(_holds(str(op), value, char) for op, value in argument[negated:]) != negated
    return True


def _is_fixed(tree: Any) -> bool:
    """Whether it always matches in one way and with the same number of characters, so that a repeat of it ends."""
    for op, argument in tree:
        name = str(op)
        if name in ("BRANCH", "GROUPREF", "ASSERT", "ASSERT_NOT", "ATOMIC_GROUP"):
            return False
        if name in REPEATS and (argument[0] != argument[1] or not _is_fixed(argument[2])):
            return False
        if name == "SUBPATTERN" and not _is_fixed(argument[3]):
            return False
    return True


def _opens(tree: list[Any], *, at_end: bool) -> bool:
    """``at_end``: nothing of the pattern follows."""
    for place, (op, argument) in enumerate(tree):
        name, last = str(op), at_end and place == len(tree) - 1
        if name in REPEATS:
            low, high, body = argument
            single = len(body) == 1 and str(body[0][0]) in SINGLE
            if high is parser.MAXREPEAT and not (last and low <= 1 and single):
                return True
            within = [(list(body), False)]
        elif name == "BRANCH":
            within = [(list(branch), last) for branch in argument[1]]
        elif name == "SUBPATTERN":
            within = [(list(argument[3]), last)]
        elif name in ("ASSERT", "ASSERT_NOT"):
            within = [(list(argument[1]), False)]
        else:
            within = [(list(argument), False)] if name == "ATOMIC_GROUP" else []
        if any(_opens(part, at_end=ends) for part, ends in within):
            return True
    return False
