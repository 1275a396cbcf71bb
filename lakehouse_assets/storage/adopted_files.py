"""Staged Parquet files that become a Delta table's own in one commit: no row is read or written again.

Belongs here: which tables and files may be treated so, their statistics, the commit. Does not: which rows they have (pipeline).

A file gets a second name in the table's folder, so that whoever staged it may delete it there. By Delta's protocol, readers
ignore the columns of a file that the table does not have.
"""

import json
import os
import stat
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import ArrowException, parquet

from lakehouse_assets.object_store import is_url
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.footers import find_bounds, has_julian_days, read_footer
from lakehouse_assets.storage.leases import guards
from lakehouse_assets.storage.opened_tables import open_to_change
from lakehouse_assets.storage.small_writes import EXACT_DIGITS, is_plain, takes_columns

# Delta's defaults: of how many columns a table has statistics, and of how many characters of a text.
INDEXED, CHARACTERS = 32, 32
# After it no character comes: with it, the beginning of a text is larger than the text.
LAST = "\U0010ffff"
# Properties that say how Spark makes files.
OF_FILES = ("delta.autoOptimize.", "delta.targetFileSize", "delta.randomizeFilePrefixes")


def is_adoptable_at(path: str) -> bool:
    """Whether files may become part of a table at this path: not in an object store, which has no second names, nor if the
    table there says more of its files or rows.
    """
    if is_url(path):
        return False
    return not delta.exists(path) or takes_any_file(delta.open_table(path))


def adopt_files(files: Sequence[str], columns: Any, path: str, rows: int, user_metadata: str | None) -> bool:
    """Add Parquet files to an existing table in one commit, and return whether that was done; if not, nothing was.

    ``columns``: those of the rows to publish, as `StructType.jsonValue` has them; the table must have the same ones. ``rows``:
    how many rows the files have together. Raises LeaseLostError, or CommitFailedError, if the table's lease was taken over: the
    second names of the files are then no part of the table, and VACUUM removes them.
    """
    if not files or not is_adoptable_at(path) or not delta.exists(path):
        return False
    table = open_to_change(path)
    if not takes_columns(table, "append", columns):
        return False
    kinds = indexed_columns(table)
    properties, names = guards.commit_properties(path, user_metadata), dict[str, str]()
    try:
        footers = {file: footer for file in files if (footer := read_footer(file)).num_rows}
        if not footers or sum(footer.num_rows for footer in footers.values()) != rows:
            return False
        own_names = {column["name"] for column in columns}
        if not all(_is_usual(footer, own_names) for footer in footers.values()) or not _have_access_of(path, footers):
            return False
        statistics = {file: statistics_of(footer, kinds) for file, footer in footers.items()}
        names = {file: f"part-{uuid4()}.parquet" for file in footers}
        for file, name in names.items():
            os.link(file, f"{path}/{name}")
        states = {file: Path(path, name).stat() for file, name in names.items()}
    except (ArrowException, OSError, ValueError, OverflowError):  # another disk, one without second names, or unusual values
        for name in names.values():
            with suppress(OSError):
                Path(path, name).unlink()
        return False
    actions: list[AddAction | RemoveAction] = [
        AddAction(names[file], state.st_size, {}, state.st_mtime_ns // 1_000_000, True, statistics[file])
        for file, state in states.items()
    ]
    table.create_write_transaction(actions, "append", table.schema(), commit_properties=properties)
    return True


def indexed_columns(table: DeltaTable) -> dict[str, str]:
    """Return the columns of which the table has statistics, each with its type. Those within a nested one are left out."""
    properties, fields = table.metadata().configuration, json.loads(table.schema().to_json())["fields"]
    kinds = {field["name"]: field["type"] for field in fields}
    if named := properties.get("delta.dataSkippingStatsColumns"):
        names = [name.strip(" `") for name in named.split(",")]
    else:
        count = int(properties.get("delta.dataSkippingNumIndexedCols") or INDEXED)
        names = [*kinds][: count if count >= 0 else None]
    return {name: kinds[name] for name in names if isinstance(kinds.get(name), str)}


def takes_any_file(table: DeltaTable) -> bool:
    """Whether the table says nothing of the names and sizes of its files, and all its columns may be NULL."""
    of_files = [name for name in table.metadata().configuration if name.startswith(OF_FILES)]
    return is_plain(table) and not of_files and '"nullable":false' not in table.schema().to_json().replace(" ", "")


def _is_usual(footer: parquet.FileMetaData, own_names: Collection[str]) -> bool:
    """Whether a file has no columns but these and reserved ones: a column that the table gets later would have values
    here. And whether its days are those of today's calendar.
    """
    more = {*footer.schema.to_arrow_schema().names} - {*own_names}
    return all(name.startswith("_") for name in more) and not has_julian_days(footer)


def _have_access_of(path: str, files: Iterable[str]) -> bool:
    """Whether these files belong to the group that a new file in the table's folder would belong to, and no folder says more of
    who may read its files.
    """
    folder = Path(path).stat()
    group = folder.st_gid if folder.st_mode & stat.S_ISGID else os.getegid()
    if any(Path(file).stat().st_gid != group for file in files):
        return False
    with suppress(OSError, AttributeError):  # of a disk, or a system, without such lists
        return not any("system.posix_acl_default" in os.listxattr(each) for each in {path, *(Path(f).parent for f in files)})
    return True


def statistics_of(footer: parquet.FileMetaData, kinds: Mapping[str, str]) -> str:
    """Return a file's statistics as Delta's log has them, from its footer: rows, and of each of these columns (name → Delta's
    type) the number of NULLs and, where a footer tells them right, the least and the greatest value.
    """
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name, kind in kinds.items():
        # A dot may also be in the path of a leaf of a nested column.
        bounds = None if "." in name else find_bounds([footer], name)
        if bounds is None:
            continue
        nulls[name] = bounds.nulls
        if bounds.ends and bounds.are_complete and (ends := _as_logged(*bounds.ends, kind)):
            least[name], greatest[name] = ends
    statistics = {"numRecords": footer.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}
    return json.dumps(statistics, ensure_ascii=False)  # deltalake misreads escaped characters beyond U+FFFF


def _as_logged(least: Any, greatest: Any, kind: str) -> tuple[Any, Any] | None:
    """Return these values as Delta's log has them; None where they are no bounds. Parquet leaves NaN out, which Spark has as
    the largest number, so there are none of floating-point columns.
    """
    if kind in ("byte", "short", "integer", "long") and isinstance(least, int):
        return least, greatest
    if kind == "date" and isinstance(least, date):
        return least.isoformat(), greatest.isoformat()
    if kind == "timestamp" and isinstance(least, datetime):
        # To the millisecond: the one rounded down, the other up.
        try:
            return _moment(least), _moment(greatest + timedelta(microseconds=999))
        except OverflowError:  # after the last one
            return None
    if kind == "string" and isinstance(least, str):
        beginning, rest = greatest[:CHARACTERS], greatest[CHARACTERS:]
        return None if rest.startswith(LAST) else (least[:CHARACTERS], beginning + LAST if rest else beginning)
    if isinstance(least, Decimal) and len(least.as_tuple().digits) <= EXACT_DIGITS >= len(greatest.as_tuple().digits):
        return float(least), float(greatest)
    return None


def _moment(value: datetime) -> str:
    return f"{value.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
