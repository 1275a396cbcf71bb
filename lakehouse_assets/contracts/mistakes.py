"""What the parts of a promise share: names, mistakes in the words of who found them, and what must not stand twice.

Belongs here: what several models of the configuration need. Does not: their base (checks/closed), or any key.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator

from lakehouse_assets.checks.base import Check
from lakehouse_assets.checks.dependencies import dependency_mistakes

SOURCE_KINDS = ("files", "jdbc", "kafka")
OURS = ("gold_", "ops_")
NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


def _table_name(name: str) -> str:
    if name.startswith(OURS):
        raise ValueError(f"{name!r}: names that begin with {' or '.join(OURS)} are the lakehouse's own")
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a table name: lower-case letters, digits and _, beginning with a letter, at most 63")
    return name


TableName = Annotated[str, AfterValidator(_table_name)]


def reason_of(mistake: Mapping[str, Any]) -> str:
    """What is wrong, of one of pydantic's errors, in the words of who raised it."""
    return mistake["msg"].removeprefix("Value error, ")


def keys_of(mistake: Mapping[str, Any]) -> tuple[str | int, ...]:
    """Where it is, as the YAML has it: pydantic puts a source's kind between `source` and its key."""
    loc = mistake["loc"]
    return (loc[0], *loc[2:]) if loc[:1] == ("source",) and len(loc) > 1 and loc[1] in SOURCE_KINDS else loc


def refuse_dependencies(checks: Sequence[Check], key: tuple[str, ...]) -> None:
    """Raise ValueError for the first check that depends on what it cannot depend on."""
    for place, text in dependency_mistakes(checks, key):
        raise ValueError(f"checks.{place}.depends_on: {text}")


def refuse_twice(where: str, names: list[str]) -> None:
    """Raise ValueError for a name that stands twice, letter case apart."""
    seen: set[str] = set()
    for place, name in enumerate(names):
        if name.lower() in seen:
            raise ValueError(f"{where}.{place}: another is called {name!r} too; give one of them a `name:` of its own")
        seen.add(name.lower())
