"""What the data files of a table add up to, which a process keeps: afterwards it looks only at the files that were added since.

Belongs here: a total, and when it is right no more. Does not: what a file counts (delta_files).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakehouse_assets.decisions.growing_map import GrowingMap
from lakehouse_assets.storage.newest_values import NewestValues

File = Mapping[str, Any]
# Of all tables together: about 200 MB.
MOST_KEYS = 1_000_000


@dataclass
class Total:
    """``files``: sizes by path. ``counts``: what they add up to; ``more``: what is counted with it. Both are for reading, and
    the same mappings as long as no file has changed.
    """

    files: dict[str, int] = field(default_factory=dict)
    counts: GrowingMap[Any, int] = field(default_factory=GrowingMap)
    more: GrowingMap[Any, Any] = field(default_factory=GrowingMap)


_totals = NewestValues[Total](MOST_KEYS, lambda total: len(total.counts))


def add_up(path: str, name: str, files: Sequence[File], add: Callable[[Sequence[File], Total], None]) -> Total:
    """Return the total of these files of a table, which the caller does not change. ``name``: what is counted. ``add``: adds
    some files to a total. A file that is lost, or of another size, makes all of them be counted anew.
    """
    sizes = {file["path"]: file["size_bytes"] for file in files}
    before = _totals.get((path, name)) or Total()
    if before.files == sizes and sizes:
        return before
    if not before.files.items() <= sizes.items():
        before = Total()
    total = Total(sizes, before.counts.copy(), before.more.copy())
    add([file for file in files if file["path"] not in before.files], total)
    _totals.put((path, name), total)
    return total
