"""Validation that several models of the configuration share: names, duplicates, and the mistakes that pydantic found.

Belongs here: what several models need. Does not: their base (checks/strict_model), or any key.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from lakehouse_assets.checks.base import Check
from lakehouse_assets.checks.dependencies import dependency_mistakes

Keys = tuple[str | int, ...]
OURS = ("gold_", "ops_")
# Checks that Dagster shows of an asset besides those of its decisions. `test_check_names` compares them with the definitions.
OF_SILVER = ("audit", "evidence_complete", "no_window_left_failed", "no_window_quarantined", "schema_matches_contract")
OF_GOLD = ("audit", "calendar", "schema_matches_contract")
# In YAML's words, by pydantic's type of mistake.
WANTED = {
    **dict.fromkeys(("tuple_type", "list_type"), "a list is wanted: [a, b]"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "keys with values are wanted: {key: value}"),
    "string_type": "a text is wanted; put a number or a date between quotes",
}
# In YAML's words, by Python's type.
SCALARS = {
    "int": "a number", "float": "a number", "bool": "true or false", "str": "a text", "date": "a date", "datetime": "a time",
}  # fmt: skip
NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")


def _table_name(name: str) -> str:
    if name.startswith(OURS):
        raise ValueError(f"{name!r}: names that begin with {' or '.join(OURS)} are reserved")
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a table name: lower-case letters, digits and _, beginning with a letter, at most 63")
    return name


PATTERN = f"^(?!{'|'.join(OURS)}){NAME.pattern}$"
TableName = Annotated[str, AfterValidator(_table_name), Field(json_schema_extra={"pattern": PATTERN})]


def mistakes_in(error: ValidationError) -> Iterator[tuple[Keys, str]]:
    """Yield each mistake's text and its keys as the YAML has them: pydantic puts a source's kind below `source`."""
    mistakes = [{**each, "loc": _without_validators(each["loc"])} for each in error.errors(include_url=False)]
    branches = _branches_of_one_value(mistakes)
    for index, mistake in enumerate(mistakes):
        keys, group = mistake["loc"], branches.get(index, [index])
        if _is_misspelled(mistake, mistakes) or index != group[0]:
            continue
        text = _message(mistake)
        if len(group) > 1:
            keys = keys[:-1]
            kinds = sorted({SCALARS[mistakes[each]["loc"][-1]] for each in group})
            text = f"{mistake['input']!r} is not allowed; {' or '.join(kinds)} is wanted"
        yield keys if keys[:1] != ("source",) else (keys[0], *keys[2:]), text


def _without_validators(keys: Keys) -> Keys:
    """Return keys without the functions that pydantic puts among them."""
    return tuple(key for key in keys if not str(key).startswith("function-"))


def _branches_of_one_value(mistakes: Sequence[Mapping[str, Any]]) -> dict[int, list[int]]:
    """Return, by index, the mistakes of one value that may be of several plain types: pydantic has one for each type."""
    groups: dict[tuple[Keys, int], list[int]] = {}
    for index, mistake in enumerate(mistakes):
        *parents, name = mistake["loc"] or ("",)
        if name in SCALARS and mistake["type"].startswith(f"{'string' if name == 'str' else name}_"):
            groups.setdefault((tuple(parents), id(mistake["input"])), []).append(index)
    return {index: group for group in groups.values() for index in group}


def _is_misspelled(mistake: Mapping[str, Any], mistakes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a key is only missing because it is misspelled, which is a mistake of its own."""
    *parents, name = mistake["loc"] or ("",)
    others = (each["msg"] for each in mistakes if each["type"] == "extra_forbidden" and [*each["loc"][:-1]] == parents)
    return mistake["type"] == "missing" and any(f"did you mean {name}?" in text for text in others)


def _message(mistake: Mapping[str, Any]) -> str:
    """Return the mistake's text. What this version does not know may be of a newer one, so that the version is named."""
    text = WANTED.get(mistake["type"]) or mistake["msg"].removeprefix("Value error, ")
    return f"{text} ({_release()})" if "not known here; there are" in text else text


def _release() -> str:
    try:
        return f"in lakehouse_assets {version('lakehouse_assets')}; a later version may know it"
    except PackageNotFoundError:
        return "in this version of lakehouse_assets"


def join_keys(keys: Sequence[str | int]) -> str:
    """Return keys as one name: `checks.0.min`."""
    return ".".join(map(str, keys))


def reasons_of(*steps: Callable[[], object]) -> Iterator[str]:
    """Yield why each of these steps raises ValueError."""
    for step in steps:
        try:
            step()
        except ValueError as error:
            yield str(error)


def refuse_all(model: str, reasons: Iterable[str]) -> None:
    """Raise ValueError for one reason, and a ValidationError with each of several. ``model``: the name of the model's class."""
    texts = list(reasons)
    if len(texts) == 1:
        raise ValueError(texts[0])
    if texts:
        errors = [PydanticCustomError("value_error", "{text}", {"text": text}) for text in texts]
        raise ValidationError.from_exception_data(model, [InitErrorDetails(type=each, loc=(), input=None) for each in errors])


def dependency_reasons(checks: Sequence[Check], key: tuple[str, ...]) -> Iterator[str]:
    """Yield why each check with an impossible dependency is refused."""
    return (f"checks.{index}.depends_on: {text}" for index, text in dependency_mistakes(checks, key))


def refuse_dependencies(checks: Sequence[Check], key: tuple[str, ...]) -> None:
    """Raise ValueError for the first check with an impossible dependency."""
    for text in dependency_reasons(checks, key):
        raise ValueError(text)


def refuse_names(checks: Sequence[Check], reserved: Collection[str]) -> None:
    """Raise ValueError for the first check with the name of a check that its asset has anyway. With two checks of one name
    Dagster would load no table of the project. ``reserved``: in lower case.
    """
    for index, check in enumerate(checks):
        if check.id.lower() in reserved:
            raise ValueError(
                f"checks.{index} ({check.id}): its asset has a check of this name anyway; give the check a `name:`"
            )


def refuse_duplicates(where: str, names: Sequence[str]) -> None:
    """Raise ValueError for a name that occurs twice, whatever its letter case."""
    earlier: set[str] = set()
    for index, name in enumerate(names):
        if name.lower() in earlier:
            raise ValueError(f"{where}.{index}: another is called {name!r} too; give one of them a `name:` of its own")
        earlier.add(name.lower())
