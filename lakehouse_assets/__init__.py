"""A Dagster lakehouse on Spark and Delta that keeps bad data out and mends its own gaps.

The package offers `LakehouseTable` and `GuardedTable` (as `type: lakehouse_assets.LakehouseTable`), `definitions_for` and
`Gate`, and loads each on first use. Importing a pure room or a gate must not import Dagster.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakehouse_assets.definitions import definitions_for
    from lakehouse_assets.frames.gate import Gate
    from lakehouse_assets.orchestration.assets.component import LakehouseTable
    from lakehouse_assets.orchestration.assets.guarded_table import GuardedTable

__all__ = ["Gate", "GuardedTable", "LakehouseTable", "definitions_for"]


def __getattr__(name: str) -> Any:
    if name == "LakehouseTable":
        from lakehouse_assets.orchestration.assets.component import LakehouseTable

        return LakehouseTable
    if name == "GuardedTable":
        from lakehouse_assets.orchestration.assets.guarded_table import GuardedTable

        return GuardedTable
    if name == "definitions_for":
        from lakehouse_assets.definitions import definitions_for

        return definitions_for
    if name == "Gate":
        from lakehouse_assets.frames.gate import Gate

        return Gate
    raise AttributeError(name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
