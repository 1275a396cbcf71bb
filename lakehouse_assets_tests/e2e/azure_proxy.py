"""A proxy before Azure's emulator that lists from a name on, as Azure does.

Belongs here: what the emulator lacks of a listing. Does not: passing requests on (store_proxy), or the emulator (servers).

`deltalake` lists a log from a version on (`startFrom`). Azurite 3.35 ignores that, and lists all: `deltalake` then takes an
older version for the next one, and ends its third append with "Invalid table version" after it has committed.
"""

import re
from collections.abc import Mapping
from html import unescape
from urllib.parse import parse_qs, urlsplit

from lakehouse_assets_tests.e2e.store_proxy import StoreProxy


class AzureProxy(StoreProxy):
    """Answers of the emulator, without the names that come before the one that was asked for."""

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[int, list, bytes]:
        """Return the emulator's answer, corrected."""
        status, answered, content = super().answer(method, target, headers, body)
        first = parse_qs(urlsplit(target).query).get("startFrom")
        return status, answered, list_from(first[0], content) if first and status == 200 else content


def list_from(first: str, listing: bytes) -> bytes:
    """Return a listing of blobs without those before a name.

    >>> list_from("b", b"<Blobs><Blob><Name>a</Name></Blob><Blob><Name>b</Name></Blob></Blobs>")
    b'<Blobs><Blob><Name>b</Name></Blob></Blobs>'
    """

    def keep(blob: re.Match[bytes]) -> bytes:
        return blob[0] if unescape(blob[1].decode()) >= first else b""

    return re.sub(rb"<Blob><Name>(.*?)</Name>.*?</Blob>", keep, listing, flags=re.DOTALL)
