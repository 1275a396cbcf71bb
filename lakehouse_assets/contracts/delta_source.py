"""A Delta table that others write, as a source: where it is, and which changes of it are read.

Belongs here: the shape of `source: {kind: delta}` (pure). Does not: its log (storage), or reading rows (sources).
"""

import re
from typing import Literal

from pydantic import field_validator

from lakehouse_assets.contracts.extraction import Moment
from lakehouse_assets.contracts.source import Zone
from lakehouse_assets.contracts.source_kind import SourceKind
from lakehouse_assets.contracts.windows import Cadence

# What a declared column may take `from` beside the table's columns.
OF_THE_COMMIT = ("delta_change", "delta_version", "delta_timestamp", "delta_order")
CHANGE, VERSION, TIMESTAMP, ORDER = OF_THE_COMMIT


class DeltaSource(SourceKind):
    """A Delta table that others write. A window is a range of the table's versions. It begins where the window before it
    ended, and ends before the first version that was committed after the window. The first window has the whole table as it was
    at the window's end. The range is recorded when the window is first read, and every later read uses it. A window in which no
    version changed rows does not arrive. In `snapshot` mode each window has the whole table as it was at the window's end.

    A declared column may take `from` the commit as well: `delta_change` (`insert`, `update` or `delete`), `delta_version`,
    `delta_timestamp` (the commit's time) and `delta_order`. The last is a `bigint` that orders the changes of a key: a
    deletion comes before an insert of the same commit.
    """

    kind: Literal["delta"]
    """What the source is."""
    path: str
    """The table's folder: absolute, a URL, or relative to the landing folder."""
    changes: Literal["appends", "rewrites", "feed"] = "appends"
    """`appends`: the rows that commits append; a commit that changes or removes rows is refused. `rewrites` (`upsert` mode
    only): as well all rows of the files that such a commit writes. Unchanged rows come again, and a deletion is not noticed.
    `feed`: the table's change data feed: inserts, updates and deletions (`delta.enableChangeDataFeed`).
    """
    restart: Moment | None = None
    """The start of a window that reads the whole table again. Windows from then on use no version that was read before. It is
    the way on after versions were lost or the table was replaced."""
    nulls: tuple[str, ...] = ()
    """Texts that mean "no value". Bronze keeps them; silver has NULL."""
    timezone: Zone = "UTC"
    """IANA zone of times that name none (`timestamp_ntz`)."""

    @field_validator("path")
    @classmethod
    def _is_a_path(cls, value: str) -> str:
        return checked_folder(value)

    def refuse_extraction(self, cadence: Cadence, mode: str, delete_when: str | None) -> None:
        """Raise ValueError if the changes cannot be read in this mode."""
        if mode == "snapshot" and self.changes != "appends":
            raise ValueError("source.changes: does not apply in snapshot mode, where a window has the whole table; remove it")
        if mode == "append" and self.changes == "rewrites":
            raise ValueError("source.changes: rewrites gives unchanged rows again; use extraction.mode: upsert")
        if mode == "upsert" and self.changes == "feed" and not delete_when:
            raise ValueError(
                "extraction.delete_when: needed with source.changes: feed, or a deletion would look like a row; declare a"
                " column {from: delta_change, type: string} and compare it with 'delete' here"
            )

    def refuse_stream(self, mode: str, delete_when: str | None) -> None:
        """Raise ValueError if the changes cannot be read in this mode."""
        self.refuse_extraction("hourly", mode, delete_when)

    @property
    def medium(self) -> str:
        """The kind of storage, in one word."""
        return "delta"

    @property
    def location(self) -> str:
        """Where the data is."""
        return self.path

    @property
    def records_positions(self) -> bool:
        """Whether versions are recorded: a window is a range of them."""
        return True


def checked_folder(value: str) -> str:
    """Return the path of somebody else's table without a trailing slash. Raises ValueError for one that is no such path."""
    text = value.rstrip("/")
    if not text or re.search(r"[\x00-\x1f\x7f*?]", text) or text == "~" or text.startswith("~/"):
        raise ValueError(f"{value!r} is no folder: an absolute path, a URL, or a path relative to the landing folder")
    if ".." in text.split("/"):
        raise ValueError(f"{value!r} has `..`; write the folder's own path")
    if re.match(r"[a-z0-9+.-]+://[^/@]*:[^/@]*@", text):
        raise ValueError("path has a password; credentials belong to the environment (AWS_…) or LAKEHOUSE_SPARK_CONF")
    return text
