"""The first parts of the keys of a contract's assets.

Belongs here: the field that the project sets, and setting it. Does not: the keys (orchestration/asset_keys).
"""

from typing import Self

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from lakehouse_assets.checks.strict_model import StrictModel


class PrefixedContract(StrictModel):
    """A contract whose assets' keys begin with the project's `asset_prefix`."""

    # The project sets it: it is no key of the YAML, and in no rule set.
    asset_prefix: SkipJsonSchema[tuple[str, ...]] = Field(default=(), exclude=True)

    def with_asset_prefix(self, prefix: tuple[str, ...]) -> Self:
        """Return the same with this prefix of its assets' keys."""
        return self.model_copy(update={"asset_prefix": prefix})
