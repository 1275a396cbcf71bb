"""Codes of ISO's lists, as `pycountry` has them.

Belongs here: kinds whose values a standard lists. Does not: lists of one's own (values).
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

import pycountry

from lakehouse_assets.checks.base import CheckContext, ColumnCheck
from lakehouse_assets.checks.sql_text import none_of
from lakehouse_assets.checks.types import family


class _Code(ColumnCheck):
    """A text that stands in a list, in capital letters."""

    column: str
    """A text column."""

    @property
    def codes(self) -> list[str]:
        """All that pass."""
        raise NotImplementedError  # each list says

    def condition(self, context: CheckContext) -> str:
        """Not in the list."""
        return none_of(self.column, self.codes)

    def misfit(self, types: Mapping[str, str]) -> str:
        """Only a text can be a code."""
        mine = types.get(self.column, "")
        return f"{self.column} is {mine}, and a code is a text" if family(mine) not in ("", "string") else ""

    def message(self) -> str:
        """What is promised."""
        return self.promised


class CountryCode(_Code):
    """A code of ISO 3166-1, in capital letters. NULL passes."""

    summary: ClassVar[str] = "the text is an ISO country code"
    example: ClassVar[str] = "{check: country_code, column: country}"

    check: Literal["country_code"]
    form: Literal["alpha_2", "alpha_3"] = "alpha_2"
    """Of two letters (`DE`), or of three (`DEU`)."""

    @property
    def codes(self) -> list[str]:
        """All countries'."""
        return sorted(getattr(country, self.form) for country in pycountry.countries)


class CurrencyCode(_Code):
    """A code of ISO 4217, in capital letters. NULL passes."""

    summary: ClassVar[str] = "the text is an ISO currency code"
    example: ClassVar[str] = "{check: currency_code, column: currency}"

    check: Literal["currency_code"]

    @property
    def codes(self) -> list[str]:
        """All currencies'."""
        return sorted(currency.alpha_3 for currency in pycountry.currencies)
