"""Why no landed file belongs to a window of a table, files that belong to no table, and files of another encoding. No JVM.

Belongs here: a path beside the names that are in the landing folder. Does not: reading rows (files), or which table it is.
"""

import codecs
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from lakehouse_assets.contracts.draft_names import COMPRESSED
from lakehouse_assets.contracts.path_pattern import PathPattern
from lakehouse_assets.contracts.settling import is_temporary
from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.sources.landing import BLOCK, Landing

NAMED = 3
SIMILAR = 0.5  # of difflib: half of the letters
BINARY = ("parquet", "avro")
UNCLAIMED_NAMED = 5
MOST_FOLDERS, MOST_NAMES = 20, 10_000
# Files that come beside data: markers, checksums, signatures and descriptions.
BESIDE_DATA = re.compile(
    r"(readme|manifest|thumbs|desktop|done|ready|success|complete|checksums?)([.][^.]*)?"
    r"|.*[.](done|ok|ready|trg|flag|success|complete|crc|md5|sha1|sha256|sha512|sig|asc|manifest|md|db|ini)",
    re.IGNORECASE | re.DOTALL,
)


def explain_no_match(landing: Landing, pattern: PathPattern, first: Window, last: Window | None) -> str:
    """Return why no file belongs to a window from ``first`` to ``last``: other windows' files, or the nearest name. Empty where
    the landing folder is: nothing has landed yet.

    ``last``: None if no window has ended yet. Raises SourceError if the landing folder cannot be listed.
    """
    if starts := landing.window_starts(pattern):
        ours = (
            f"the table's windows go from {first.key} to {last.key}"
            if last
            else f"its first window, {first.key}, has not ended"
        )
        return f"files match {pattern.text!r}, of windows from {min(starts):%Y-%m-%d} to {max(starts):%Y-%m-%d}; {ours}"
    if not landing.names(""):
        return ""
    *folders, name = zip(pattern.glob(first.start).split("/"), pattern.glob_of_all.split("/"), strict=True)
    folder = ""
    for wanted, glob in folders:
        names = landing.names(folder)
        matches = [wanted] if wanted in names else [each for each in names if fnmatchcase(each, glob)]
        if not matches:
            return f"no file matches {pattern.text!r}; {_nearest(wanted, names, folder)}"
        folder = f"{folder}/{matches[-1]}".lstrip("/")
    return f"no file matches {pattern.text!r}; {_nearest(name[0], landing.names(folder), folder)}"


def _nearest(segment: str, names: Sequence[str], folder: str) -> str:
    folder = folder or "the landing folder"
    if similar := get_close_matches(segment, names, 1, SIMILAR):
        return f"{folder} has {similar[0]!r}, not {segment!r}"
    if not names:
        return f"{folder} is empty"
    more = ", …" if len(names) > NAMED else ""
    return f"{folder} has {', '.join(map(repr, names[:NAMED]))}{more}"


class Claims:
    """Which landed files are some table's. ``sources``: of all tables; their patterns are compiled once."""

    def __init__(self, sources: Iterable[FilesSource]) -> None:
        """Group the patterns by their folder, which may have globs."""
        self._by_folder: dict[str, list[PathPattern]] = {}
        self._suffixes: dict[str, set[str]] = {}
        for source in sources:
            for pattern in _patterns(source):
                self._by_folder.setdefault(_folder_of(pattern), []).append(pattern)
            pattern = source.pattern
            self._suffixes.setdefault(_folder_of(pattern), set()).add(_suffix(pattern.glob_of_all))
        self._globs = [PathPattern(folder) for folder in self._by_folder if "*" in folder or "?" in folder]

    def unclaimed(self, folder: str, names: Iterable[str]) -> list[str]:
        """Return those of the paths in a folder that match no table's path, and could be data of a table there."""
        globs = [folder, *(glob.text for glob in self._globs if glob.text != folder and glob.matches(folder))]
        patterns = [pattern for glob in globs for pattern in self._by_folder.get(glob, ())]
        suffixes = {suffix for glob in globs for suffix in self._suffixes.get(glob, ())}
        has_any = any("*" in suffix or "?" in suffix for suffix in suffixes)
        return [
            name
            for name in names
            if (has_any or _suffix(name) in suffixes)
            and not _is_beside_data(name.rpartition("/")[2])
            and not any(_is_match(pattern, name) for pattern in patterns)
        ]


def explain_unclaimed(landing: Landing, source: FilesSource, claims: Claims, examined: set[str]) -> str:
    """Return which files in the source's folder match no table's path; empty if there are none.

    ``examined``: folders to leave out; those that are listed here are added. Of a path with folders by window, the last 20
    folders are listed; in an object store none, which would take a request for each. Of many names, 10,000 are compared.
    Raises SourceError if a folder cannot be listed.
    """
    if not landing.local and _folder_of(source.pattern) != source.path.rpartition("/")[0]:
        return ""
    folders = [each for each in landing.folders(source.pattern, MOST_FOLDERS) if each not in examined]
    examined.update(folders)
    unclaimed: list[str] = []
    rest, is_cut = MOST_NAMES, False
    for folder in folders:
        names = landing.file_names(folder)
        unclaimed += claims.unclaimed(folder, names[:rest])
        is_cut = is_cut or len(names) > rest
        rest = max(rest - len(names), 0)
    if not unclaimed:
        return ""
    more = f" and {len(unclaimed) - UNCLAIMED_NAMED:,} more" if len(unclaimed) > UNCLAIMED_NAMED else ""
    compared = f", of the first {MOST_NAMES:,} names" if is_cut else ""
    listed = ", ".join(map(repr, unclaimed[:UNCLAIMED_NAMED])) + more
    verb = "matches no table's path and is" if len(unclaimed) == 1 else "match no table's path and are"
    return f"{listed}{compared} {verb} not read; this table's path is {source.path!r}"


def _patterns(source: FilesSource) -> list[PathPattern]:
    marker = source.settled.marker_of(source.path) if source.settled else None
    return [source.pattern, *([PathPattern(source.control)] if source.control else []), *([marker] if marker else [])]


def _folder_of(pattern: PathPattern) -> str:
    return pattern.glob_of_all.rpartition("/")[0]


def _suffix(path: str) -> str:
    """Return the suffix of a file's name or of a glob, without that of a compression; "*" for a glob that has any."""
    stem, dot, suffix = COMPRESSED.sub("", path.rpartition("/")[2]).rpartition(".")
    if dot:
        return suffix.lower()
    return "*" if stem + suffix != (stem + suffix).rstrip("*?") else ""


def _is_beside_data(name: str) -> bool:
    return is_temporary(name) or BESIDE_DATA.fullmatch(name) is not None


def _is_match(pattern: PathPattern, name: str) -> bool:
    return pattern.matches(name) and (not pattern.has_window or pattern.window_start(name) is not None)


def explain_encoding(landing: Landing, source: FilesSource, window: Window) -> str:
    """Return which file of a window is not of the declared encoding, by its first 64 KB; empty if all seem to be."""
    if source.format in BINARY:
        return ""
    for file in landing.files(source.pattern, [window]):
        if file.refused:
            continue
        try:
            content = landing.read_head(file.path, BLOCK)
            codecs.getincrementaldecoder(source.encoding)("strict").decode(content, final=len(content) < BLOCK)
        except UnicodeDecodeError as error:
            wrong = f"{file.path} is not {source.encoding} (byte {error.start + 1})"
            return f"{wrong}; set `encoding`, such as windows-1252 or iso-8859-1"
        except (OSError, EOFError):
            continue  # an unreadable file: its window says so once it is ingested
    return ""
