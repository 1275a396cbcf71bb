"""The kinds of checks, discovered in `checks/kinds/` and among extensions: a new kind is one class in one file.

Belongs here: discovery, the union that parses the configuration, and a kind's description from its class. Does not: any kind.
"""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterable, Iterator
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import Field

from lakehouse_assets.checks import kinds as package
from lakehouse_assets.checks.base import Check
from lakehouse_assets.errors import ConfigError
from lakehouse_assets.extensions import extensions


@cache
def kinds() -> dict[str, type[Check]]:
    """Return ``{kind: class}``: of every file under `checks/kinds/`, then of extensions. Raises ConfigError for an extension's
    class that is no whole kind, or whose name is another's.
    """
    sources: dict[str, str] = {}
    classes: dict[str, type[Check]] = {}
    for source, name, kind in [*_built_in(), *_of_extensions()]:
        if classes.setdefault(name, kind) is not kind:
            raise ConfigError(f"two kinds of checks are called {name!r}: in {sources[name]} and {source}; rename one")
        sources.setdefault(name, source)
    return dict(sorted(classes.items()))


def _built_in() -> Iterator[tuple[str, str, type[Check]]]:
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        members = [member for _, member in inspect.getmembers(importlib.import_module(module.name), inspect.isclass)]
        for name, member in _kinds_among(members):
            yield member.__module__, name, member


def _of_extensions() -> Iterator[tuple[str, str, type[Check]]]:
    for extension in extensions("checks"):
        kinds = list(_kinds_among(extension.members))
        if not kinds:
            raise ConfigError(
                f"{extension.source}: it has no check kind: a class of RowCheck or BatchCheck with `check: Literal[…]`"
            )
        for name, kind in kinds:
            if missing := [each for each in ("summary", "example") if not isinstance(getattr(kind, each, None), str)]:
                raise ConfigError(f"{extension.source}: {kind.__name__}: it has no {' and no '.join(missing)}")
            if not re.fullmatch(r"[a-z][a-z0-9_]{0,49}", name):
                raise ConfigError(
                    f"{extension.source}: {kind.__name__}: {name!r}: lower-case letters, digits and _, at most 50"
                )
            yield extension.source, name, kind


def _kinds_among(members: Iterable[Any]) -> Iterator[tuple[str, type[Check]]]:
    """Yield the classes that declare a kind, with its name."""
    for member in members:
        annotation: Any = (
            member.__annotations__.get("check") if isinstance(member, type) and issubclass(member, Check) else None
        )
        if get_origin(annotation) is Literal:
            yield get_args(annotation)[0], member


def describe_kind(kind: type[Check]) -> dict[str, Any]:
    """Return ``kind, what, nulls, example, details, parameters``. ``nulls``: what its docstring says of NULL and NaN."""
    text = " ".join((inspect.getdoc(kind) or "").replace("``", "`").split())
    sentences = re.split(r"(?<=[.;])\s+(?=[A-Z])", text)
    own = {name: field for name, field in kind.model_fields.items() if name not in Check.model_fields and name != "check"}
    schema = kind.model_json_schema()["properties"]
    return {
        "kind": get_args(kind.model_fields["check"].annotation)[0],
        "what": kind.summary,
        "nulls": " ".join(s for s in sentences if re.search(r"\b(NULL|NaN|null|empty|no rows|no value)", s)),
        "example": " ".join(kind.example.split()),
        "details": text,
        "parameters": [
            {"name": name, "required": field.is_required(), "meaning": " ".join(schema[name].get("description", "").split())}
            for name, field in own.items()
        ],
    }


AnyCheck = Annotated[reduce(or_, kinds().values()), Field(discriminator="check")]
