"""The other files of a landed file's window, for a first `defs.yaml`: which names differ in a number only, and which otherwise.

Belongs here: guesses from the names in one folder. Does not: the window in a path (draft_path).
"""

import itertools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

UUID, HASH, NUMBER = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", r"(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,}", r"[0-9]+"
NUMBERED = re.compile(
    rf"(?P<uuid>{UUID}(?![0-9a-z]))|(?P<hash>(?<![0-9a-z]){HASH}(?![0-9a-z]))|(?P<number>{NUMBER})", re.IGNORECASE
)
COMPRESSED = re.compile(r"\.(gz|bz2)$", re.IGNORECASE)
MOST_NAMES = 10_000
NAMED = 3


@dataclass(frozen=True)
class NamePattern:
    """A file's name before and after its date, with ``*`` for what differs between the files of its window.

    ``own_suffix``: the suffix as it is in the file's name. ``matching``: how many files match. ``others``: those that do not.
    """

    prefix: str
    suffix: str
    own_suffix: str
    matching: int
    others: tuple[str, ...]

    @property
    def advice(self) -> str:
        """Return how many files of the window match, and what follows for the others; "" for a file that is alone."""
        count = self.matching + len(self.others)
        if not self.others:
            return f"{count:,} files of this window match; check that all are of this table" if count > 1 else ""
        names = ", ".join(map(repr, self.others[:NAMED])) + (", …" if len(self.others) > NAMED else "")
        verb = "matches" if self.matching == 1 else "match"
        return (
            f"{self.matching:,} of {count:,} files of this window {verb}; {names} would not be read: where they are of this"
            " table, write * for what differs in the names"
        )


def names_beside(path: str, landing: Path, dated: re.Pattern[str]) -> list[str]:
    """Return the names of the other landed files in the file's folder that have its kind of content and its date.

    ``dated``: finds the date in a path. Of many names only some are compared.
    """
    folder, _, own = path.rpartition("/")
    with os.scandir(landing / folder) as entries:
        names = [entry.name for entry in itertools.islice(entries, MOST_NAMES) if entry.is_file()]
    of_date, kind = _date(dated, path), _kind(own)
    return sorted(
        name
        for name in names
        if name != own
        and not name.startswith(("_", "."))
        and _kind(name) == kind
        and _date(dated, f"{folder}/{name}" if folder else name) == of_date
    )


def name_pattern(prefix: str, date: str, suffix: str, beside: Sequence[str]) -> NamePattern:
    """Return the pattern of a file's name, which is ``prefix``, ``date`` and ``suffix``. ``beside``: the other names.

    A UUID differs from file to file, so that it is ``*`` also in a file that is alone.

    >>> name_pattern("", "", "part-0000.json", ["part-0001.json", "late.json"]).suffix
    'part-*.json'
    """
    before, after = _split(prefix), _split(suffix)
    parts = [*before, _Part(date, re.escape(date)), *after]
    name = re.compile("".join(f"({part.expected})" for part in parts), re.IGNORECASE)
    matches = {each: match.groups() for each in beside if (match := name.fullmatch(each))}
    varies = [
        part.kind == "uuid" or any(part.kind == "hash" or texts[index] != part.text for texts in matches.values())
        for index, part in enumerate(parts)
    ]
    globs = ["*" if part.kind and differs else part.text for part, differs in zip(parts, varies, strict=True)]
    others = tuple(each for each in beside if each not in matches)
    return NamePattern("".join(globs[: len(before)]), "".join(globs[len(before) + 1 :]), suffix, 1 + len(matches), others)


class _Part(NamedTuple):
    """A part of a name: its text, the expression of what other files may have in its place, and the kind of number it is."""

    text: str
    expected: str
    kind: str = ""


def _split(text: str) -> list[_Part]:
    parts: list[_Part] = []
    end = 0
    for match in NUMBERED.finditer(text):
        between, kind = text[end : match.start()], match.lastgroup or ""
        expected = {"uuid": UUID, "hash": f"[0-9a-f]{{{len(match[0])}}}", "number": NUMBER}[kind]
        parts += [_Part(between, re.escape(between)), _Part(match[0], expected, kind)]
        end = match.end()
    return [*parts, _Part(text[end:], re.escape(text[end:]))]


def _kind(name: str) -> str:
    return Path(COMPRESSED.sub("", name)).suffix.lower()


def _date(dated: re.Pattern[str], path: str) -> tuple[str, ...]:
    match = dated.search(path)
    return tuple(text for name, text in match.groupdict().items() if name != "seconds") if match else ()
