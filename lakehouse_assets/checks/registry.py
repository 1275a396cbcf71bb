"""The kinds of checks, discovered in `checks/kinds/`: a new kind is one class in one file, and nothing else.

Belongs here: discovery, the union that parses the configuration, and a kind's description from its class. Does not: any kind.
"""

import importlib
import inspect
import pkgutil
import re
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import Field

from lakehouse_assets.checks import kinds as package
from lakehouse_assets.checks.base import Check


@cache
def kinds() -> dict[str, type[Check]]:
    """Return ``{kind: class}`` of every file under `checks/kinds/`."""
    classes: dict[str, type[Check]] = {}
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        for _, member in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            annotation: Any = member.__annotations__.get("check") if issubclass(member, Check) else None
            if issubclass(member, Check) and get_origin(annotation) is Literal:
                (name,) = get_args(annotation)
                if classes.setdefault(name, member) is not member:
                    modules = f"{classes[name].__module__} and {member.__module__}"
                    raise ValueError(f"two kinds of checks are called {name!r}: in {modules}")
    return dict(sorted(classes.items()))


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
