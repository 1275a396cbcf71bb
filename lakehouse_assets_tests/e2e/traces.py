"""Where a text stands in all that was written: plain, or in the pages of a Parquet file or a SQLite database.

Belongs here: searching files and texts. Does not: what writes them.
"""

import gzip
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow.parquet as pq

SQLITE = b"SQLite format 3\x00"


def texts_of(path: Path) -> Iterator[str]:
    """A file's bytes as they are, and what they hold once they are decoded."""
    raw = path.read_bytes()
    yield raw.decode("utf-8", "replace")
    yield raw.decode("utf-16-le", "replace")
    if raw.startswith(b"PAR1") and raw.endswith(b"PAR1"):
        for batch in pq.ParquetFile(path).iter_batches():
            yield str(batch.to_pylist())
    elif raw.startswith(SQLITE):
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
            yield from database.iterdump()
    elif raw.startswith(b"\x1f\x8b"):
        yield gzip.decompress(raw).decode("utf-8", "replace")


def around(text: str, token: str) -> str:
    """The token with what stands on both sides of it, on one line; nothing where it is not in the text."""
    at = text.lower().find(token)
    return "" if at < 0 else " ".join(text[max(at - 160, 0) : at + 60].split())


def traces(folder: Path, token: str, but: Iterable[Path] = ()) -> dict[str, str]:
    """Files under a folder that hold the token in any letter case, or have it in their name, each with one place where it
    stands. ``but``: folders that may.
    """
    left_out, contexts = tuple(but), {}
    for path in sorted(folder.rglob("*")):
        if any(other == path or other in path.parents for other in left_out) or path.is_symlink():
            continue
        if token in path.name.lower():
            contexts[str(path.relative_to(folder))] = "its name"
        elif path.is_file() and (context := next(filter(None, (around(text, token) for text in texts_of(path))), "")):
            contexts[str(path.relative_to(folder))] = context
    return contexts
