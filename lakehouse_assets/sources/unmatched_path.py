"""Why no landed file belongs to a window of a table, and files that are not of the declared encoding. No JVM.

Belongs here: a path beside the names that are in the landing folder. Does not: reading rows (files), or which table it is.
"""

import codecs
from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from lakehouse_assets.contracts.path_pattern import PathPattern
from lakehouse_assets.contracts.source import FilesSource
from lakehouse_assets.contracts.windows import Window
from lakehouse_assets.sources.landing import BLOCK, Landing

NAMED = 3
SIMILAR = 0.5  # of difflib: half of the letters
BINARY = ("parquet", "avro")


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
            return f"{file.path} is not {source.encoding} (byte {error.start + 1}); set `encoding`, such as iso-8859-1"
        except (OSError, EOFError):
            continue  # an unreadable file: its window says so once it is ingested
    return ""
