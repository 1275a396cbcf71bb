"""Which regular expressions a check may use: those with one meaning in Python and Java that end on every value.

Belongs here: parsing a pattern, and bounding the steps of a backtracking match. Does not: the check kind, matching, or what
Java reads otherwise (pattern_meaning).
"""

import re
import re._parser as parser  # pyright: ignore[reportMissingImports] (the standard library's, without stubs)
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

# Longer values fail without being matched: a backtracking engine needs a stack frame per character.
LONGEST = 4096
# About two seconds of Java: a few squares of the longest value.
STEPS = 16 * LONGEST**2
LONGEST_PATTERN = 1000
MOST = 2**31 - 1
REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
SINGLE = ("LITERAL", "NOT_LITERAL", "IN", "ANY", "CATEGORY")  # of one character
# The groups after `(?` that both languages have. Names, comments and conditions differ.
GROUP = re.compile(r"[:=!>]|<[=!]|[imsu]*(-[ims]+)?[:)]")
QUANTIFIER = re.compile(r"[*+]|\{(\d+)(?:,(\d*))?\}")


@dataclass(frozen=True)
class _Rest:
    """The rest of a pattern. ``steps``: at most, to try it once. ``first``: the characters that it may begin with."""

    steps: int
    first: frozenset[str]


class _Unbounded(Exception):
    """The steps of a part of the pattern have no useful bound."""


def refusal(pattern: str) -> str | None:
    """Return why a pattern is refused; None if it is not.

    The steps of a failing match are bounded from the end of the pattern to its beginning. A repeat multiplies the steps of
    what follows by its number of choices. It does not, if what follows can begin with none of the repeated characters.

    >>> refusal("^[A-Z]{3}$")
    >>> refusal("(a+)+").split(":")[0]
    'could run for ever on some value'
    """
    try:
        repeats_choice = _check_syntax(pattern)
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            tree = parser.parse(pattern)
        if repeats_choice:
            raise _Unbounded("an alternation is repeated; write [ab]* for (a|b)*")
        steps = _Bound(pattern, tree.state.flags).steps(tree)
    except _Unbounded as error:
        return f"could run for ever on some value: {error}"
    except (re.error, FutureWarning, OverflowError, RecursionError) as error:
        return f"does not compile: {'nested too deeply' if isinstance(error, RecursionError) else error}"
    if steps > STEPS:
        return "could run for ever on some value: too many open repeats share characters; anchor it with ^, or bound them"
    return None


def tries_too_many_lengths(pattern: str) -> bool:
    """Return whether its look-behinds could take too many steps: Java tries each length that one may have. For a pattern that
    is not refused.

    >>> tries_too_many_lengths("(?<=a{1,9}b)c"), tries_too_many_lengths("(?<=a{0,120}a{0,120}b)c")
    (False, True)
    """
    tree: Any = parser.parse(pattern)
    return _Bound(pattern, tree.state.flags, by_length=True).steps(tree) > STEPS


def has_open_repeat(pattern: str) -> bool:
    """Return whether the steps of one try may grow with the value: an endless repeat, other than of one character at the very
    end. For a pattern that is not refused.

    >>> has_open_repeat("a+b"), has_open_repeat("[0-9]{2,4}-a+"), has_open_repeat(", ?")
    (True, False, False)
    """
    parsed: Any = parser.parse(pattern)
    return _has_open_repeat(list(parsed), at_end=True)


def like_to_regex(pattern: str, escape: str = "\\") -> str:
    """Return the regular expression of a LIKE pattern, up to a last `%`, which matches everything.

    >>> like_to_regex("a%_.%")
    '(?s)^a.*.\\\\.'
    """
    parts, index = ["(?s)^"], 0
    while index < len(pattern):
        char = pattern[index]
        if char == escape and index + 1 < len(pattern):
            index += 1
            parts.append(re.escape(pattern[index]))
        elif char != "%" or parts[-1] != ".*":
            parts.append({"%": ".*", "_": "."}.get(char, re.escape(char)))
        index += 1
    return "".join(parts[:-1] if parts[-1] == ".*" else [*parts, "$"])


def _check_syntax(pattern: str) -> bool:
    """Return whether an alternation is repeated: Python folds (a|b)* into a set, Java recurses once per character.

    Raises re.error for syntax of only one of the two languages.
    """
    if len(pattern) > LONGEST_PATTERN:
        raise re.error(f"it is longer than {LONGEST_PATTERN} characters")
    choices, index, repeats_choice = [False], 0, False
    while index < len(pattern):
        char = pattern[index]
        if char == "\\":
            index += 1
            if pattern.startswith("Z", index):
                raise re.error("\\Z also stands before a last line break to Java: write $, or (?!\\s|\\S) for the very end")
        elif char == "[":
            index = _class_end(pattern, index)
        elif char == "(":
            if pattern.startswith("(?", index) and not GROUP.match(pattern, index + 2):
                raise re.error(f"{pattern[index : index + 4]!r} is not read alike by Python and Java")
            choices.append(False)
        elif char == "|":
            choices[-1] = True
        elif char == "{":
            # Python reads {,3} as {0,3} and any other as a character. Java refuses them.
            repeat = QUANTIFIER.match(pattern, index)
            if not repeat or any(int(number or 0) > MOST for number in repeat.groups()):
                way_out = "{2}, {2,} and {2,5} are repeats, {0,3} is for {,3}, and \\{ is the character"
                raise re.error(f"{pattern[index : index + 8]!r} is no repeat to Java: {way_out}")
        elif char == ")" and len(choices) > 1:
            choice = choices.pop()
            choices[-1] |= choice
            quantifier = QUANTIFIER.match(pattern, index + 1)
            repeats_choice |= bool(choice and quantifier and quantifier[0] not in ("{1}", "{0,1}"))
        index += 1
    return repeats_choice


def _class_end(pattern: str, start: int) -> int:
    index = start + 1 + pattern.startswith("^", start + 1)
    index += pattern.startswith("]", index)
    while index < len(pattern) and pattern[index] != "]":
        if pattern[index] == "[" or pattern.startswith("&&", index):
            raise re.error("within [ ] Java takes [ and && for more than characters: escape them")
        index += 1 + (pattern[index] == "\\")
    return index


class _Bound:
    """The bound of one pattern. Characters are judged on an alphabet of Latin-1 and of every character of the pattern.

    ``by_length``: a look-behind is tried once for each length that it may have.
    """

    def __init__(self, pattern: str, flags: int, *, by_length: bool = False) -> None:
        self.by_length = by_length
        near = {point + step for point in map(ord, pattern) for step in (-1, 0, 1)}
        points = {*range(256), *(point for point in near if 0 <= point < 0x110000)}
        self.alphabet = {case for point in points for char in [chr(point)] for case in (char, char.lower(), char.upper())}
        self.any_case = bool(flags & re.IGNORECASE) or re.search(r"\(\?[a-z]*i", pattern) is not None
        self.multiline = bool(flags & re.MULTILINE)

    def steps(self, tree: Any) -> int:
        """Return the most steps of a failing match, from every position at which it may begin."""
        span = self._sequence(tree, _Rest(1, frozenset()))
        begins = [str(argument) for op, argument in list(tree)[:1] if str(op) == "AT"]
        anchored = begins and (begins[0] == "AT_BEGINNING_STRING" or (begins[0] == "AT_BEGINNING" and not self.multiline))
        return span.steps * (1 if anchored else LONGEST)

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
            steps = self._sequence(argument[1], _Rest(1, frozenset(self.alphabet))).steps
            if self.by_length and argument[0] < 0:
                least, most = (min(int(width), LONGEST) for width in argument[1].getwidth())
                steps *= most - least + 1
            return _Rest(steps + rest.steps, rest.first)
        if name == "AT":
            ends = "END" in str(argument)
            return _Rest(rest.steps + 1, rest.first | {"\n"} if ends else rest.first)
        if name == "GROUPREF":
            return _Rest(rest.steps + LONGEST, frozenset(self.alphabet))
        return _Rest(rest.steps + 1, self._characters(name, argument))

    def _repeat(self, low: int, high: int, body: Any, rest: _Rest) -> _Rest:
        if high > 1 and not _is_fixed(body):
            raise _Unbounded("a repeat, an alternation or a reference within a repeat")
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
        cases = (str, str.lower, str.upper) if self.any_case else (str,)
        return frozenset(char for char in self.alphabet if any(_matches(name, argument, case(char)) for case in cases))


def _matches(name: str, argument: Any, char: str) -> bool:
    if len(char) != 1:
        return False
    if name in ("LITERAL", "NOT_LITERAL"):
        return (ord(char) == argument) == (name == "LITERAL")
    if name == "RANGE":
        return argument[0] <= ord(char) <= argument[1]
    if name == "CATEGORY":
        kind = str(argument).removeprefix("CATEGORY_")
        plain = kind.removeprefix("NOT_")
        belongs = {"DIGIT": char.isdigit(), "SPACE": char.isspace(), "WORD": char.isalnum() or char == "_"}.get(plain, True)
        return belongs == (plain == kind)
    if name == "IN":
        negated = str(argument[0][0]) == "NEGATE"
        return any(_matches(str(op), value, char) for op, value in argument[negated:]) != negated
    return True


def _is_fixed(tree: Any) -> bool:
    """Return whether it always matches in one way and with one number of characters, so that its repeat ends."""
    for op, argument in tree:
        name = str(op)
        if name in ("BRANCH", "GROUPREF", "ASSERT", "ASSERT_NOT", "ATOMIC_GROUP"):
            return False
        if name in REPEATS and (argument[0] != argument[1] or not _is_fixed(argument[2])):
            return False
        if name == "SUBPATTERN" and not _is_fixed(argument[3]):
            return False
    return True


def _has_open_repeat(tree: list[Any], *, at_end: bool) -> bool:
    """``at_end``: it is the end of the pattern."""
    for index, (op, argument) in enumerate(tree):
        name, last = str(op), at_end and index == len(tree) - 1
        if name in REPEATS:
            low, high, body = argument
            single = len(body) == 1 and str(body[0][0]) in SINGLE
            if high is parser.MAXREPEAT and not (last and low <= 1 and single):
                return True
            inner = [(list(body), False)]
        elif name == "BRANCH":
            inner = [(list(branch), last) for branch in argument[1]]
        elif name == "SUBPATTERN":
            inner = [(list(argument[3]), last)]
        elif name in ("ASSERT", "ASSERT_NOT"):
            inner = [(list(argument[1]), False)]
        else:
            inner = [(list(argument), False)] if name == "ATOMIC_GROUP" else []
        if any(_has_open_repeat(part, at_end=ends) for part, ends in inner):
            return True
    return False
