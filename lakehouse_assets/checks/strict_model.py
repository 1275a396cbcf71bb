"""The base of every YAML model: immutable, and strict about keys, numbers and booleans.

Belongs here: errors for an unknown key, a boolean in place of a number, a text in place of a boolean; the keys' descriptions.
Does not: any key.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError

from lakehouse_assets.checks.attribute_docstrings import attribute_docstrings

QUOTED = re.compile("'(.*?)'")
# In the context of a validation: the data is of a decision's rule set. It has every key, written by the author or not, and what
# was accepted once stays readable.
RECORDED = "recorded"
# A variable of the environment is a text. YAML's own spellings only: pydantic would also read yes, off, y and 1.
TRUTHS = ("true", "True", "TRUE", "false", "False", "FALSE")


def is_recorded(info: ValidationInfo) -> bool:
    """Whether what is validated is of a decision's rule set."""
    return bool((info.context or {}).get(RECORDED))


class StrictModel(BaseModel):
    """Immutable. An unknown key is an error that lists the keys; a boolean in place of a number is an error, and so is
    `yes` in place of a boolean. The string below a key is its description in the reference.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Return the schema with the keys' descriptions. They are read here, since pydantic's `use_attribute_docstrings` reads
        them at every import: a quarter of a second.
        """
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in attribute_docstrings(cls).items():
            if name in cls.model_fields:
                alias = cls.model_fields[name].alias
                properties[alias if alias in properties else name].setdefault("description", text)
        return schema

    @model_validator(mode="wrap")
    @classmethod
    def _explain_errors(cls, data: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        mistakes = [*cls._booleans_for_numbers(data), *cls._fields_of_the_project(data)]
        if mistakes := [*mistakes, *(() if is_recorded(info) else cls._others_for_booleans(data))]:
            raise ValidationError.from_exception_data(cls.__name__, mistakes)
        try:
            return handler(data)
        except ValidationError as error:
            explained = [cls._explain(dict(each)) for each in error.errors(include_url=False)]
            raise ValidationError.from_exception_data(error.title, explained) from None

    @classmethod
    def _typed_values(cls, data: Any) -> Iterator[tuple[str, Any, Any]]:
        """Yield each known key of the data with its value and its declared type."""
        fields = {key: field for name, field in cls.model_fields.items() for key in (name, field.alias or name)}
        for key, value in data.items() if isinstance(data, dict) else ():
            if key in fields:
                yield str(key), value, fields[key].annotation

    @classmethod
    def _booleans_for_numbers(cls, data: Any) -> Iterator[InitErrorDetails]:
        # Python takes `true` for 1.
        for key, value, kind in cls._typed_values(data):
            kinds = {kind, *get_args(kind)}
            if isinstance(value, bool) and bool not in kinds and kinds & {int, float}:
                text = f"{str(value).lower()} is no number"
                yield InitErrorDetails(type=_custom("truth_for_number", text), loc=(key,), input=value)

    @classmethod
    def _others_for_booleans(cls, data: Any) -> Iterator[InitErrorDetails]:
        for key, value, kind in cls._typed_values(data):
            if kind in (bool, bool | None) and not _is_boolean(value):
                text = f"{value!r} is no boolean; write true or false"
                yield InitErrorDetails(type=_custom("other_for_truth", text), loc=(key,), input=value)

    @classmethod
    def _fields_of_the_project(cls, data: Any) -> Iterator[InitErrorDetails]:
        # The project sets an excluded field. As a key of the data it is unknown.
        for name, field in cls.model_fields.items() if isinstance(data, dict) else ():
            if field.exclude and name in data:
                yield cls._explain({"type": "extra_forbidden", "loc": (name,), "msg": "", "input": data[name]})

    @classmethod
    def _explain(cls, mistake: dict[str, Any]) -> InitErrorDetails:
        """Return the mistake; for an unknown key of this model or an unknown kind, with those that there are."""
        kind, loc, text, context = mistake["type"], mistake["loc"], mistake["msg"], mistake.get("ctx", {})
        if kind == "extra_forbidden" and len(loc) == 1:
            text = _unknown(str(loc[0]), [field.alias or name for name, field in cls.model_fields.items() if not field.exclude])
        if kind == "union_tag_invalid" and "tag" in context:
            text = f"{context['tag']!r} is {_unknown(context['tag'], re.findall(QUOTED, context['expected_tags']))}"
        return InitErrorDetails(type=_custom(kind, text), loc=loc, input=mistake["input"])


def _is_boolean(value: Any) -> bool:
    """Whether a value is a boolean of Python or numpy, the text of one, or None."""
    if isinstance(value, bool | None) or (isinstance(value, str) and value in TRUTHS):
        return True
    return getattr(getattr(value, "dtype", None), "kind", "") == "b" and getattr(value, "shape", None) == ()


def _unknown(name: str, names: Sequence[str]) -> str:
    near = get_close_matches(name, names, 1)
    return f"not known here; {f'did you mean {near[0]}? T' if near else 't'}here are {', '.join(names)}"


def _custom(kind: str, text: str) -> PydanticCustomError:
    # Types of errors and their messages must be literals for type checkers; the message is no template here.
    return PydanticCustomError(kind, "{text}", {"text": text})  # pyright: ignore[reportArgumentType]
