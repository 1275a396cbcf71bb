"""The mark of a lake that is being restored, which keeps every writer out, and the leases of a restored lake.

Belongs here: writing and reading these. Does not: restoring (operations).
"""

import json
from collections.abc import Mapping

from lakehouse_assets.errors import RefusedError
from lakehouse_assets.storage.backup.manifest import write_whole
from lakehouse_assets.storage.file_systems import open_filesystem

MARK = "_restoring"
# A restored lease starts so far above the backup's: of the lake that was lost, a holder may have had a number in between, and
# wake up in the place where the lake was.
NUMBERS_APART = 1_000_000


def begin_restoring(root: str, name: str) -> None:
    """Mark the lake. Raises RefusedError if it is being restored from another backup."""
    marked = read_mark(root)
    if marked not in (None, name):
        raise RefusedError(f"{root} has a part of the backup {marked!r}: restore that one, or empty this place first")
    filesystem, base = open_filesystem(root)
    write_whole(filesystem, f"{base}/{MARK}", name.encode())


def end_restoring(root: str) -> None:
    """Take the mark off: runs may write the lake."""
    filesystem, base = open_filesystem(root)
    filesystem.delete_file(f"{base}/{MARK}")


def read_mark(root: str) -> str | None:
    """Return the name of the backup that the lake is being restored from; None if it is not."""
    filesystem, base = open_filesystem(root)
    try:
        with filesystem.open_input_stream(f"{base}/{MARK}") as file:
            return file.read().decode("utf-8", errors="replace")
    except FileNotFoundError:
        return None


def restore_leases(root: str, numbers: Mapping[str, int]) -> None:
    """Write each lease as one that has lapsed: its next holder fences all tables. Lock files need none."""
    filesystem, base = open_filesystem(root)
    for name, number in sorted(numbers.items()):
        path = f"{base}/_leases/{name}/{number + NUMBERS_APART:020d}.json"
        write_whole(filesystem, path, json.dumps({"seconds": 0, "to_fence": None}).encode())


def refuse_restoring(root: str) -> None:
    """Raise RefusedError while the lake is being restored: what is not there yet would count as never written."""
    if (name := read_mark(root)) is not None:
        raise RefusedError(f"{root} is being restored from the backup {name!r}; run `lakehouse restore` again to complete it")
