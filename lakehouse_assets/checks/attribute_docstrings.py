"""The strings below a model's keys, which describe them in JSON Schemas and in the reference.

Belongs here: reading them from the source, when somebody asks. Does not: the schemas (strict_model).
"""

import ast
import inspect
import textwrap
from functools import cache
from typing import Any


def attribute_docstrings(model: type[Any]) -> dict[str, str]:
    """Return the string below each attribute of a class, those of its base classes included. A class without source has none.

    >>> from lakehouse_assets.checks.base import Check
    >>> attribute_docstrings(Check)["description"]
    'Shown with the check in the UI.'
    """
    texts: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if each.__module__.partition(".")[0] not in {"builtins", "pydantic"}:
            texts |= _own_docstrings(each)
    return texts


@cache  # a class is read once: every check inherits from a few
def _own_docstrings(model: type[Any]) -> dict[str, str]:
    try:
        (statement,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    except (OSError, TypeError, SyntaxError):
        return {}
    body = statement.body if isinstance(statement, ast.ClassDef) else []
    texts = {}
    for attribute, below in zip(body, body[1:], strict=False):
        if isinstance(attribute, ast.AnnAssign) and isinstance(attribute.target, ast.Name) and isinstance(below, ast.Expr):
            value = below.value.value if isinstance(below.value, ast.Constant) else None
            if isinstance(value, str):
                texts[attribute.target.id] = inspect.cleandoc(value)
    return texts
