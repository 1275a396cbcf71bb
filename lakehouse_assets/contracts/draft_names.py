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

    ``expected``: matches the names of such files, of any date; ``*`` may match others, too.
    """

    prefix: str
    suffix: str
    expected: re.Pattern[str]


@dataclass(frozen=True)
class WindowFiles:
    """The files of a window that a path matches. ``matching``: how many. ``others``: those that it does not match.

    ``glob``: a wider path that was not drafted, "" for none. ``unlike``: the names that differ in more than numbers and that it
    would match.
    """

    matching: int
    others: tuple[str, ...]
    glob: str = ""
    unlike: tuple[str, ...] = ()

    @property
    def advice(self) -> str:
        """Return how many files of the window match, and what follows for the others; "" for a file that is alone."""
        count = self.matching + len(self.others)
        verb = "matches" if self.matching == 1 else "match"
        of_window = f"{self.matching:,} of {count:,} files of this window {verb}"
        if self.others:
            of_window += f"; {_listed(self.others)} would not be read"
        if self.glob:
            return f"{of_window}; {self.glob!r} would match {_listed(self.unlike)}, too: write it if all are of this table"
        if self.others:
            return f"{of_window}: where they are of this table, write * for what differs in the names"
        return f"{count:,} files of this window match; check that all are of this table" if count > 1 else ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:NAMED])) + (", …" if len(names) > NAMED else "")


def names_beside(path: str, landing: Path) -> list[str]:
    """Return the names of the other landed files in the file's folder, without hidden ones; of many only some."""
    folder, _, own = path.rpartition("/")
    with os.scandir(landing / folder) as entries:
        names = [entry.name for entry in itertools.islice(entries, MOST_NAMES) if entry.is_file()]
    return sorted(name for name in names if name != own and not name.startswith(("_", ".")))


def names_of_window(path: str, names: Sequence[str], dated: re.Pattern[str]) -> list[str]:
    """Return those of the names beside a file that have its kind of content and its date. ``dated``: finds it in a path."""
    folder, slash, own = path.rpartition("/")
    of_date, kind = _date(dated, path), _kind(own)
    return [name for name in names if _kind(name) == kind and _date(dated, f"{folder}{slash}{name}") == of_date]


def name_pattern(prefix: str, date: str, suffix: str, beside: Sequence[str]) -> NamePattern:
    """Return the pattern of a file's name, which is ``prefix``, ``date`` and ``suffix``. ``beside``: the window's other names.

    A UUID differs from file to file, so that it is ``*`` also in a file that is alone.

    >>> name_pattern("", "", "part-0000.json", ["part-0001.json", "late.json"]).suffix
    'part-*.json'
    """
    before, after = _split(prefix), _split(suffix)
    parts = [*before, _Part(date, re.sub(r"[0-9]", "[0-9]", re.escape(date))), *after]
    expected = re.compile("".join(f"({part.expected})" for part in parts), re.IGNORECASE)
    matches = [match.groups() for each in beside if (match := expected.fullmatch(each))]
    varies = [
        part.kind == "uuid" or any(part.kind == "hash" or texts[index] != part.text for texts in matches)
        for index, part in enumerate(parts)
    ]
    globs = ["*" if part.kind and differs else part.text for part, differs in zip(parts, varies, strict=True)]
    return NamePattern("".join(globs[: len(before)]), "".join(globs[len(before) + 1 :]), expected)


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
