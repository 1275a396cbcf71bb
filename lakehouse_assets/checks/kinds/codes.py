"""Codes of ISO's lists, as `pycountry` has them.

Belongs here: kinds whose values a standard lists. Does not: lists of one's own (values).
"""

from collections.abc import Mapping
from typing import Literal

import pycountry

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.families import ColumnCheck
from lakehouse_assets.checks.sql.text import not_in
from lakehouse_assets.checks.types import family


class _Code(ColumnCheck):
    column: str
    """A text column."""

    @property
    def codes(self) -> list[str]:
        """All codes that pass."""
        raise NotImplementedError  # each list

    def condition(self, context: CheckContext) -> str:
        return not_in(self.column, self.codes)

    def type_problem(self, types: Mapping[str, str]) -> str:
        kind = types.get(self.column, "")
        return f"{self.column} is {kind}, and a code is a text" if family(kind) not in ("", "string") else ""


class CountryCode(_Code):
    """A code of ISO 3166-1, in capital letters. NULL passes."""

    summary = "the text is an ISO country code"
    example = "{check: country_code, column: country}"
    rule = "{column} is an ISO country code"

    check: Literal["country_code"]
    form: Literal["alpha_2", "alpha_3"] = "alpha_2"
    """Of two letters (`DE`), or of three (`DEU`)."""

    @property
    def codes(self) -> list[str]:
        return sorted(getattr(country, self.form) for country in pycountry.countries)


class CurrencyCode(_Code):
    """A code of ISO 4217, in capital letters. NULL passes."""

    summary = "the text is an ISO currency code"
    example = "{check: currency_code, column: currency}"
    rule = "{column} is an ISO currency code"

    check: Literal["currency_code"]

    @property
    def codes(self) -> list[str]:
        return sorted(currency.alpha_3 for currency in pycountry.currencies)
