"""Which regular expressions a check may use: those with one meaning in Python and Java that end on every value.

Belongs here: the syntax of both languages, and refusing a pattern. Does not: bounding the steps of a match (pattern_steps), the
check kind, matching, or what Java reads otherwise (pattern_meaning).
"""

import re
import re._parser as parser  # pyright: ignore[reportMissingImports] (the standard library's, without stubs)
import warnings
from typing import Any

from lakehouse_assets.checks.pattern_steps import LONGEST, REPEATS, StepBound, UnboundedError

# About two seconds of Java: a few squares of the longest value.
STEPS = 16 * LONGEST**2
LONGEST_PATTERN = 1000
MOST = 2**31 - 1
SINGLE = ("LITERAL", "NOT_LITERAL", "IN", "ANY", "CATEGORY")  # of one character
# The groups after `(?` that both languages have. Names, comments and conditions differ.
GROUP = re.compile(r"[:=!>]|<[=!]|[imsu]*(-[ims]+)?[:)]")
QUANTIFIER = re.compile(r"[*+]|\{(\d+)(?:,(\d*))?\}")


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
            raise UnboundedError("an alternation is repeated; write [ab]* for (a|b)*")
        steps = StepBound(pattern, tree.state.flags).steps(tree)
    except UnboundedError as error:
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
    return StepBound(pattern, tree.state.flags, by_length=True).steps(tree) > STEPS


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
