"""How many steps a failing match of a regular expression may take: a bound, from its parsed tree.

Belongs here: that bound. Does not: which patterns it refuses (patterns).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

# Longer values fail without being matched: a backtracking engine needs a stack frame per character.
LONGEST = 4096
REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")


@dataclass(frozen=True)
class _Rest:
    """The rest of a pattern. ``steps``: at most, to try it once. ``first``: the characters that it may begin with."""

    steps: int
    first: frozenset[str]


class UnboundedError(Exception):
    """The steps of a part of the pattern have no useful bound."""


class StepBound:
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
            raise UnboundedError("a repeat, an alternation or a reference within a repeat")
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
