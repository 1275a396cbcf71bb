"""Upkeep that needs no Spark: scratch folders of runs that were killed.

Belongs here: removing what nothing refers to. Does not: VACUUM or OPTIMIZE.
"""

from collections.abc import Sequence

from pyarrow import fs

from lakehouse_assets.errors import LockedError
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.lock import table_lock


def sweep(settings: Settings, tables: Sequence[str]) -> list[str]:
    """Remove the staging of each table that no run holds. Returns the tables that had some."""
    swept = []
    for table in tables:
        try:
            with table_lock(settings, table, wait_seconds=0):
                place = settings.path("staging", table)
                filesystem, path = fs.FileSystem.from_uri(place if "://" in place else f"file://{place}")
                if filesystem.get_file_info(path).type is fs.FileType.Directory:
                    delta.remove_folder(place)
                    swept.append(table)
        except LockedError:
            continue
    return swept
