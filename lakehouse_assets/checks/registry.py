"""The kinds of checks, found by looking into this package: a new kind is one class in one file, and nothing else.

Belongs here: discovery and the union that the configuration is parsed by. Does not: any kind.
"""

import importlib
import inspect
import pkgutil
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import Field

from lakehouse_assets.checks import kinds as package
from lakehouse_assets.checks.base import Check


@cache
def kinds() -> dict[str, type[Check]]:
    """``{kind: class}`` of every file under `checks/kinds/`."""
    found: dict[str, type[Check]] = {}
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        for _, member in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            annotation: Any = member.__annotations__.get("check") if issubclass(member, Check) else None
            if issubclass(member, Check) and get_origin(annotation) is Literal:
                (name,) = get_args(annotation)
                if found.setdefault(name, member) is not member:
                    raise ValueError(
                        f"two kinds of checks are called {name!r}: in {found[name].__module__} and {member.__module__}"
                    )
    return dict(sorted(found.items()))


AnyCheck = Annotated[reduce(or_, kinds().values()), Field(discriminator="check")]
