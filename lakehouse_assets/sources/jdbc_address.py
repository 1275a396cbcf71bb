"""Addresses of databases: `jdbc:<scheme>://host:port/database`, of one host.

Belongs here: the parts of an address, and what is refused in one. Does not: using it.
"""

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from lakehouse_assets.errors import EnvironmentMissing

SECRET_OPTION = re.compile(r"(?i)user|.*passw.*|.*pwd.*|.*secret.*|.*token.*")


class Address(NamedTuple):
    """The parts of an address."""

    host: str
    port: int | None
    name: str
    options: dict[str, str]


def parse_address(url: str, variable: str, scheme: str, default_port: int) -> Address:
    """Return the parts of an address of this scheme. Raises EnvironmentMissing, which names the variable and shows no part."""
    malformed = EnvironmentMissing(f"{variable} is not written as jdbc:{scheme}://host:{default_port}/database, of one host")
    try:
        parts = urlsplit(url.removeprefix("jdbc:"))
        port = parts.port
    except ValueError:
        raise malformed from None  # its own message has the address
    options = dict(parse_qsl(parts.query))
    if not url.startswith(f"jdbc:{scheme}://") or not parts.hostname or len(parts.path) < 2:
        raise malformed
    if parts.username or parts.password or any(SECRET_OPTION.fullmatch(name) for name in options):
        raise secret_in_address(variable)
    return Address(parts.hostname, port, unquote(parts.path[1:]), options)


def secret_in_address(variable: str) -> EnvironmentMissing:
    """Return the error for a user or a password in an address."""
    stem = variable.removesuffix("_URL")
    return EnvironmentMissing(f"{variable} holds a user or a password; put them into {stem}_USER and {stem}_PASSWORD")
