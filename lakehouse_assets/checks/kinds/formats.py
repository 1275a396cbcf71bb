"""Texts of a well-known form: addresses, identifiers, JSON, anything that can be cast.

Belongs here: forms that a standard defines. Does not: lists of codes (codes), patterns of one's own (text).
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from lakehouse_assets.checks.base import CheckContext, ColumnCheck
from lakehouse_assets.checks.sql_text import identifier, unlike
from lakehouse_assets.checks.types import data_type, time_alone, uncastable

LABEL = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
HEX = "[0-9A-Fa-f]{1,4}"
BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
IPV4 = rf"{BYTE}(\.{BYTE}){{3}}"
END = r"(?![\s\S])"  # not $, which also matches before a line break at the end


class _Form(ColumnCheck):
    """A text that matches a pattern of ours, whole. A text that is longer than any of the form fails without being matched."""

    longest: ClassVar[int]
    column: str
    """A text column."""

    @property
    def pattern(self) -> str:
        """The pattern of a whole text."""
        raise NotImplementedError  # each form says

    def condition(self, context: CheckContext) -> str:
        """Too long, or not of the form."""
        return unlike(self.column, self.pattern, self.longest)

    def message(self) -> str:
        """What is promised."""
        return self.promised


class Url(_Form):
    """A scheme of ``schemes``, `://`, a host, and no white space. NULL passes. Whether anybody answers there is not asked."""

    summary: ClassVar[str] = "the text is a URL"
    example: ClassVar[str] = "{check: url, column: homepage, schemes: [https]}"
    longest: ClassVar[int] = 2048

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

    @property
    def pattern(self) -> str:
        """A scheme, a host, perhaps a port and a path."""
        schemes = "|".join(scheme.replace(".", "[.]").replace("+", "[+]") for scheme in self.schemes)
        return rf"^(?i:{schemes})://([^\s/?#@]+@)?(\[[0-9A-Fa-f:.]+\]|[^\s/?#:@\[\]]+)(:[0-9]{{1,5}})?([/?#]\S*)?{END}"


class Email(_Form):
    """An address as people have them: a local part, `@`, a domain with a dot. NULL passes; quoted local parts fail."""

    summary: ClassVar[str] = "the text is an e-mail address"
    example: ClassVar[str] = "{check: email, column: contact}"
    longest: ClassVar[int] = 254

    check: Literal["email"]

    @property
    def pattern(self) -> str:
        """RFC 5322's dot-atom and a domain of letters, digits and hyphens."""
        atom = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
        return rf"^(?=[^@]{{1,64}}@){atom}(\.{atom})*@({LABEL}\.)+[A-Za-z]{{2,63}}{END}"


class Uuid(_Form):
    """Eight, four, four, four and twelve hexadecimal digits, in either letter case. NULL passes."""

    summary: ClassVar[str] = "the text is a UUID"
    example: ClassVar[str] = "{check: uuid, column: device_id}"
    longest: ClassVar[int] = 36

    check: Literal["uuid"]

    @property
    def pattern(self) -> str:
        """RFC 9562's text form."""
        return f"^[0-9A-Fa-f]{{8}}(-[0-9A-Fa-f]{{4}}){{3}}-[0-9A-Fa-f]{{12}}{END}"


class Ip(_Form):
    """An address of version 4 or 6, without a mask. NULL passes; a number with a leading zero fails."""

    summary: ClassVar[str] = "the text is an IP address"
    example: ClassVar[str] = "{check: ip, column: address, version: 4}"
    longest: ClassVar[int] = 45

    check: Literal["ip"]
    version: Literal[4, 6] | None = None
    """Only this version; without it, either."""

    @property
    def pattern(self) -> str:
        """RFC 4291: eight groups; or fewer, with `::` for the rest; the last two may be written as version 4."""
        if self.version == 4:
            return f"^{IPV4}{END}"
        ends = []
        for tail, groups in ((f"{HEX}", 7), (IPV4, 6)):
            ends.append(f"({HEX}:){{{groups}}}{tail}")
            for before in range(groups + 1):
                left = f"({HEX}:){{{before}}}:" if before else "::"
                ends.append(f"{left}({HEX}:){{0,{max(groups - before - 1, 0)}}}{tail}" if before < groups else "")
        ends += [f"({HEX}:){{1,7}}:", "::"]
        six = "|".join(end for end in ends if end)
        return f"^({six}){END}" if self.version == 6 else f"^({IPV4}|{six}){END}"


class Json(ColumnCheck):
    """The text is one JSON value (an object, an array, a text, a number, true, false or null). NULL passes.

    An object that has a key twice fails.
    """

    summary: ClassVar[str] = "the text is JSON"
    example: ClassVar[str] = "{check: json, column: payload}"

    check: Literal["json"]
    column: str
    """A text column."""

    def condition(self, context: CheckContext) -> str:
        """It cannot be parsed. Spark's parser stops after the first value: within brackets and within braces, only one value
        and nothing after it is right.
        """
        column = identifier(self.column)
        within = [
            f"try_parse_json(concat('[', {column}, ']')) IS NULL",
            f"try_parse_json(concat('{{\"v\":', {column}, '}}')) IS NULL",
        ]
        return f"({column} IS NOT NULL AND ({' OR '.join(within)}))"

    def message(self) -> str:
        """What is promised."""
        return f"{self.column} is JSON"


class Castable(ColumnCheck):
    """The text can be read as a value of ``type``, as Spark casts it. NULL passes; an empty text fails."""

    summary: ClassVar[str] = "the text can be cast to a type"
    example: ClassVar[str] = "{check: castable, column: zip, type: int}"

    check: Literal["castable"]
    column: str
    """A text column."""
    type: str
    """A type, as of a declared column."""

    @field_validator("type")
    @classmethod
    def _known_type(cls, value: str) -> str:
        return data_type(value)

    def condition(self, context: CheckContext) -> str:
        """A text, and no value."""
        column = identifier(self.column)
        none = f"try_cast({column} AS {self.type}) IS NULL"
        if self.type == "timestamp":
            none = f"({none} OR {time_alone(f'CAST({column} AS STRING)')})"
        return f"({column} IS NOT NULL AND {none})"

    def misfit(self, types: Mapping[str, str]) -> str:
        """The column is cast."""
        return uncastable(self.column, types, self.type)

    def message(self) -> str:
        """What is promised."""
        return f"{self.column} can be read as {self.type}"
