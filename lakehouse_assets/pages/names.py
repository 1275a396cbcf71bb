"""Addresses of the quality pages: table, window and check → a path within the site, in plain letters on any file system.

Belongs here: names → paths. Does not: what is on a page, or writing it.
"""

import hashlib
import re
from datetime import datetime
from functools import lru_cache
from urllib.parse import quote

from lakehouse_assets.contracts.windows import WindowCadence, window_at

PLAIN = re.compile(r"[a-z0-9_]{1,80}")
# A file of one of these names, with any extension, cannot exist on Windows.
DEVICES = frozenset(["con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))])


@lru_cache(maxsize=10_000)
def slug(name: str) -> str:
    """Return the name itself where it is a file name everywhere; else its plain letters and a hash.

    >>> slug("weather"), slug("A b")
    ('weather', 'a-b-1ddb2d80')
    """
    if PLAIN.fullmatch(name) and name not in DEVICES:
        return name
    plain = re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-")[:60]
    return f"{plain}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}".lstrip("-")


def table_path(table: str) -> str:
    """Return the path of a table's page."""
    return f"tables/{slug(table)}/index.html"


def window_name(start: datetime | None, cadence: WindowCadence | None, seq: int) -> str:
    """Return a window's key; of a table without windows, such as gold, the number of its version."""
    if start is None:
        return f"version {seq}"
    if cadence is None:  # a guard's window is a moment
        return start.strftime("%Y-%m-%d-%H:%M:%S.%f")
    return window_at(start, cadence).key


def window_file(name: str) -> str:
    """Return the file of a window's page, from the window's name."""
    return re.sub(r"[^0-9a-z-]", "-", name.lower()) + ".html"


def window_path(table: str, name: str) -> str:
    """Return the path of a window's page."""
    return f"tables/{slug(table)}/windows/{window_file(name)}"


@lru_cache(maxsize=10_000)
def check_path(table: str, check: str) -> str:
    """Return the path of a check's page."""
    return f"tables/{slug(table)}/checks/{slug(check)}.html"


def page_url(base: str, path: str) -> str:
    """Return the address of a page below the pages' address."""
    return f"{base.rstrip('/')}/{quote(path)}"
