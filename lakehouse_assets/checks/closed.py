"""The base of everything that is written in YAML: values that cannot change, and no keys but those that there are.

Belongs here: what is said of a key that nobody knows, and of a truth for a number. Does not: any key.
"""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, Self, get_args

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError


class Closed(BaseModel):
    """Immutable; an unknown key is an error that names those that there are, and so is a truth where a number is meant. The
    text below a key is its description in the reference.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, use_attribute_docstrings=True)

    @model_validator(mode="wrap")
    @classmethod
    def _says_which(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if truths := list(cls._truths(given)):
            raise ValidationError.from_exception_data(cls.__name__, truths)
        try:
            return handler(given)
        except ValidationError as error:
            told = [cls._told(dict(each)) for each in error.errors(include_url=False)]
            raise ValidationError.from_exception_data(error.title, told) from None

    @classmethod
    def _truths(cls, given: Any) -> Iterator[InitErrorDetails]:
        """`true` where a number is meant: Python takes it for 1."""
        fields = {key: field for name, field in cls.model_fields.items() for key in (name, field.alias or name)}
        for key, value in given.items() if isinstance(given, dict) else ():
            if isinstance(value, bool) and key in fields:
                kinds = {fields[key].annotation, *get_args(fields[key].annotation)}
                if bool not in kinds and kinds & {int, float}:
                    text = f"{str(value).lower()} is no number"
                    yield InitErrorDetails(type=_custom("truth_for_number", text), loc=(str(key),), input=value)

    @classmethod
    def _told(cls, mistake: dict[str, Any]) -> InitErrorDetails:
        """The same mistake; of an unknown key of this model's own, with the keys that it has."""
        kind, loc, text = mistake["type"], mistake["loc"], mistake["msg"]
        if kind == "extra_forbidden" and len(loc) == 1:
            names = [field.alias or name for name, field in cls.model_fields.items()]
            near = get_close_matches(str(loc[0]), names, 1)
            text = f"not known here; {f'did you mean {near[0]}? T' if near else 't'}here are {', '.join(names)}"
        return InitErrorDetails(type=_custom(kind, text), loc=loc, input=mistake["input"])


def _custom(kind: str, text: str) -> PydanticCustomError:
    # Types of errors and their messages must be literals for type checkers; the message is no template here.
    return PydanticCustomError(kind, "{text}", {"text": text})  # pyright: ignore[reportArgumentType]
