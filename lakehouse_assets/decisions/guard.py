"""Which rows of a guarded table are the next batch: pure functions over its commits and what was judged before.

Belongs here: versions → the next batch, and what is said of it. Does not: reading Delta, or the decision (guard_decision).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from lakehouse_assets.decisions.naming import first_of

# added: the rows of appended files; changed: of the change data feed; table: all rows of the version; none: no row changed.
# By `windows`: window: the rows of one window; outside: those of none, with what happened to the table.
Rows = Literal["added", "changed", "table", "none", "window", "outside"]
# Why a person may have to look: the content was replaced, versions cannot be read any more, or it is another table.
Event = Literal["", "rewritten", "lost", "replaced"]
Kind = Literal["none", "append", "rewrite", "overwrite", "restore"]


@dataclass(frozen=True)
class VersionChange:
    """What one commit did to the table's rows. ``feed``: whether the version has a change data feed. ``names``: the columns
    from now on, by their physical names; None: as before. ``text``: version, operation, user and time.
    """

    version: int
    at: datetime
    operation: str
    kind: Kind
    feed: bool = False
    names: Mapping[str, str] | None = None
    text: str = ""


@dataclass(frozen=True)
class TableNow:
    """The table as it is now. ``newest``: its last version. ``digest``: of the commit of the version judged last; None if the
    log no longer has it.
    """

    table_id: str
    newest: int
    newest_at: datetime
    digest: str | None = None


@dataclass(frozen=True)
class LastVersion:
    """The version judged last. ``digest``: of its commit. ``names``: its columns by their physical names."""

    version: int
    window: datetime
    table_id: str
    digest: str
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class VersionBatch:
    """The batch of ``version``: what the versions after ``after`` brought. ``window``: its name. ``text``: which rows these
    are. ``renamed``: columns with another name than in the version judged before. ``removes``: the version may have removed
    rows, which a clean table must lose too. ``of_window``: by `windows`, the SQL by which its rows are found. ``outside``: the
    number of rows in no window.
    """

    version: int
    after: int
    window: datetime
    rows: Rows
    text: str
    event: Event = ""
    renamed: Mapping[str, str] = field(default_factory=dict)
    removes: bool = False
    of_window: str = ""
    outside: int = 0


@dataclass(frozen=True)
class CleanTable:
    """What a guard's clean table asks for. ``has_key``: updates can be applied to it. ``gap``: why it lacks accepted rows;
    empty if it has them all.
    """

    has_key: bool
    gap: str = ""


def next_batch(
    table: TableNow,
    changes: Sequence[VersionChange],
    last: LastVersion | None,
    first: int | None,
    quarantine_open: bool,
    clean: CleanTable | None = None,
) -> VersionBatch | None:
    """Return the next batch; None if these versions have none. ``changes``: of the versions from ``first`` on, oldest first,
    without those that the log no longer has; maybe not all. ``first``: None where the guard begins with the table as it is
    now. ``quarantine_open``: a version is in quarantine, so that a correction must show in the table as a whole. ``clean``:
    the table that takes accepted rows; None: nothing is published.
    """
    if first is None:
        return whole_table(table, None, "the whole table, as it was when the guard first ran")
    if last is not None and (reason := _replacement(table, last)):
        return whole_table(table, last, f"the whole table: {reason}", "replaced")
    if last is not None and clean and clean.gap:
        return whole_table(table, last, f"the whole table: {clean.gap}")
    if first > table.newest:
        return None
    if not changes or changes[0].version > first:
        until = changes[0].version - 1 if changes else table.newest
        missing = f"version {first}" if until <= first else f"versions {first} to {until}"
        return whole_table(table, last, f"the whole table: the log of {missing} was cleaned up before it was judged", "lost")
    for change in changes:
        if change.kind != "none" or _changes_names(change, last):
            return _batch_of(change, last, quarantine_open, clean)
    return None


def whole_table(table: TableNow, last: LastVersion | None, text: str, event: Event = "") -> VersionBatch:
    """Return the newest version's whole table as a batch, in place of versions that cannot be judged one by one."""
    after = last.version if last and last.version < table.newest else table.newest - 1
    return VersionBatch(table.newest, after, _window(table.newest_at, last), "table", text, event)


def after_vacuum(batch: VersionBatch, table: TableNow, last: LastVersion | None) -> VersionBatch:
    """Return what is judged in place of a batch whose files are gone."""
    text = f"the whole table: files of version {batch.version} were deleted before it was judged"
    return whole_table(table, last, text, "lost")


def _replacement(table: TableNow, last: LastVersion) -> str:
    if table.newest < last.version:
        return f"its newest version is {table.newest}, though version {last.version} was judged"
    if table.digest is None and table.table_id != last.table_id:
        return f"another table is at this path since version {last.version} was judged"
    if table.digest not in (None, last.digest):
        return f"another table is at this path: its version {last.version} is not the one that was judged"
    return ""


def _changes_names(change: VersionChange, last: LastVersion | None) -> bool:
    return change.names is not None and (last is None or dict(change.names) != dict(last.names))


def _batch_of(change: VersionChange, last: LastVersion | None, quarantine_open: bool, clean: CleanTable | None) -> VersionBatch:
    number, renamed = change.version, _renamed(change, last)

    def batch(rows: Rows, text: str, event: Event = "", removes: bool = False) -> VersionBatch:
        return VersionBatch(number, number - 1, _window(change.at, last), rows, text, event, renamed, removes)

    if change.kind == "restore":
        return batch("table", f"the whole table: {change.text} brought back an earlier version", "rewritten")
    if change.kind == "overwrite":
        return batch("table", f"the whole table: {change.text} replaced it", "rewritten")
    if quarantine_open and change.kind != "append":
        return batch("table", f"the whole table: {change.text} may correct what is in quarantine")
    if change.kind == "none":
        return batch("none", f"no row: {change.text} changed the columns")
    if change.kind == "append":
        return batch("added", f"the rows that {change.text} appended")
    if change.feed and clean and not clean.has_key:
        return batch("table", f"the whole table: {change.text} rewrote files, and without a `key` changes cannot be published")
    if change.feed and change.operation == "DELETE":
        return batch("none", f"no row: {change.text} only removed rows", removes=True)
    if change.feed:
        return batch("changed", f"the rows that {change.text} inserted or updated, by the change data feed", removes=True)
    return batch("table", f"the whole table: {change.text} rewrote files, and the table has no change data feed")


def _window(at: datetime, last: LastVersion | None) -> datetime:
    """Return the batch's name: the time of its commit in milliseconds, and later than the last one's."""
    moment = at.replace(microsecond=at.microsecond // 1000 * 1000)
    return moment if last is None or moment > last.window else last.window + timedelta(milliseconds=1)


def _renamed(change: VersionChange, last: LastVersion | None) -> dict[str, str]:
    if change.names is None or last is None:
        return {}
    return {last.names[key]: name for key, name in change.names.items() if last.names.get(key, name) != name}


def describe_renamed(renamed: Mapping[str, str]) -> str:
    """Return the renamed columns as one sentence; empty for none."""
    pairs = [f"{old} is now called {new}" for old, new in renamed.items()]
    return first_of(pairs, 10) if pairs else ""
