"""Texts of a well-known form: addresses, identifiers, JSON, anything that can be cast.

Belongs here: forms that a standard defines. Does not: lists of codes (codes), patterns of one's own (text).
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, field_validator

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.families import ColumnCheck
from lakehouse_assets.checks.sql.text import identifier, not_matching
from lakehouse_assets.checks.types import cast_problem, data_type, is_time_of_day

ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
LABEL = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
HEX = "[0-9A-Fa-f]{1,4}"
BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
IPV4 = rf"{BYTE}(\.{BYTE}){{3}}"
END = r"(?![\s\S])"  # not $, which also matches before a line break at the end


class _Form(ColumnCheck):
    longest: ClassVar[int]
    """The length of the longest text of the form. Longer ones fail without being matched."""
    pattern: ClassVar[str]
    column: str
    """A text column."""

    def condition(self, context: CheckContext) -> str:
        return not_matching(self.column, self.pattern, self.longest)


class Url(_Form):
    """A scheme of ``schemes``, ``://``, a host, and no white space. NULL passes. No request is sent."""

    summary = "the text is a URL"
    example = "{check: url, column: homepage, schemes: [https]}"
    rule = "{column} is a URL"
    longest = 2048

    check: Literal["url"]
    schemes: tuple[str, ...] = Field(default=("http", "https"), min_length=1)
    """The schemes that pass."""

    @field_validator("schemes")
    @classmethod
    def _plain(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for scheme in value:
            if not scheme.isascii() or not scheme.replace("+", "").replace("-", "").replace(".", "").isalnum():
                raise ValueError(f"scheme {scheme!r}: letters, digits, +, - and . only")
        return value

    def condition(self, context: CheckContext) -> str:
        schemes = "|".join(scheme.replace(".", "[.]").replace("+", "[+]") for scheme in self.schemes)
        host = r"([^\s/?#@]+@)?(\[[0-9A-Fa-f:.]+\]|[^\s/?#:@\[\]]+)(:[0-9]{1,5})?"
        return not_matching(self.column, rf"^(?i:{schemes})://{host}([/?#]\S*)?{END}", self.longest)


class Email(_Form):
    """A usual address: a local part, `@`, a domain with a dot. NULL passes; quoted local parts fail."""

    summary = "the text is an e-mail address"
    example = "{check: email, column: contact}"
    rule = "{column} is an e-mail address"
    longest = 254
    # RFC 5322's dot-atom, and a domain of letters, digits and hyphens.
    pattern = rf"^(?=[^@]{{1,64}}@){ATOM}(\.{ATOM})*@({LABEL}\.)+[A-Za-z]{{2,63}}{END}"

    check: Literal["email"]


class Uuid(_Form):
    """Eight, four, four, four and twelve hexadecimal digits, in either letter case. NULL passes."""

    summary = "the text is a UUID"
    example = "{check: uuid, column: device_id}"
    rule = "{column} is a UUID"
    longest = 36
    pattern = f"^[0-9A-Fa-f]{{8}}(-[0-9A-Fa-f]{{4}}){{3}}-[0-9A-Fa-f]{{12}}{END}"  # RFC 9562's text form

    check: Literal["uuid"]


class Ip(_Form):
    """An address of version 4 or 6, without a mask. NULL passes; a number with a leading zero fails."""

    summary = "the text is an IP address"
    example = "{check: ip, column: address, version: 4}"
    rule = "{column} is an IP address"
    longest = 45

    check: Literal["ip"]
    version: Literal[4, 6] | None = None
    """Only this version; without it, either."""

    def condition(self, context: CheckContext) -> str:
        return not_matching(self.column, ip_pattern(self.version), self.longest)


class Json(ColumnCheck):
    """The text is one JSON value (an object, an array, a text, a number, true, false or null). NULL passes.

    An object that has a key twice fails.
    """

    summary = "the text is JSON"
    example = "{check: json, column: payload}"
    rule = "{column} is JSON"

    check: Literal["json"]
    column: str
    """A text column."""

    def condition(self, context: CheckContext) -> str:
        column = identifier(self.column)
        # Spark's parser stops after the first value. Only a single value parses within brackets and within braces.
        in_array = f"try_parse_json(concat('[', {column}, ']')) IS NULL"
        in_object = f"try_parse_json(concat('{{\"v\":', {column}, '}}')) IS NULL"
        return f"({column} IS NOT NULL AND ({in_array} OR {in_object}))"


class Castable(ColumnCheck):
    """The text can be read as a value of ``type``, as Spark casts it. NULL passes; an empty text fails."""

    summary = "the text can be cast to a type"
    example = "{check: castable, column: zip, type: int}"
    rule = "{column} can be read as {type}"

    check: Literal["castable"]
    column: str
    """A text column."""
    type: Annotated[str, AfterValidator(data_type)]
    """A type, as of a declared column."""

    def condition(self, context: CheckContext) -> str:
        column = identifier(self.column)
        no_value = f"try_cast({column} AS {self.type}) IS NULL"
        if self.type == "timestamp":
            no_value = f"({no_value} OR {is_time_of_day(f'CAST({column} AS STRING)')})"
        return f"({column} IS NOT NULL AND {no_value})"

    def type_problem(self, types: Mapping[str, str]) -> str:
        return cast_problem(self.column, types, self.type)


def ip_pattern(version: int | None) -> str:
    """Return the pattern of a whole address of this version; None for either.

    RFC 4291: eight groups, or fewer with `::` for the rest. The last two may be written as version 4.
    """
    forms = [] if version == 6 else [IPV4]
    for tail, groups in ((HEX, 7), (IPV4, 6)) if version != 4 else ():
        forms.append(f"({HEX}:){{{groups}}}{tail}")
        for before in range(groups):
            left = f"({HEX}:){{{before}}}:" if before else "::"
            forms.append(f"{left}({HEX}:){{0,{groups - before - 1}}}{tail}")
    forms += [f"({HEX}:){{1,7}}:", "::"] if version != 4 else []
    return f"^({'|'.join(forms)}){END}"
