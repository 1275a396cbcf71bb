"""A Dagster lakehouse on Spark and Delta that keeps bad data out and mends its own gaps.

The package offers `LakehouseTable` (as `type: lakehouse_assets.LakehouseTable`) and `definitions_for`, and loads each on first
use: importing a pure room must not import Dagster.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakehouse_assets.definitions import definitions_for
    from lakehouse_assets.orchestration.assets.component import LakehouseTable

__all__ = ["LakehouseTable", "definitions_for"]


def __getattr__(name: str) -> Any:
    if name == "LakehouseTable":
        from lakehouse_assets.orchestration.assets.component import LakehouseTable

        return LakehouseTable
    if name == "definitions_for":
        from lakehouse_assets.definitions import definitions_for

        return definitions_for
    raise AttributeError(name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
