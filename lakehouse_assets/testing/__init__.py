"""Contract tests for check kinds and source kinds, for those of extensions and our own alike; and tests of tables' own rules.

They need a Spark session. Each `verify_…` function raises AssertionError that names the broken promise, or the differences;
call it from a test of any framework. What tests of tables need is loaded on first use: a check kind's author needs no Dagster.
"""

from typing import TYPE_CHECKING, Any

from lakehouse_assets.testing.check_kinds import verify_batch_check, verify_check_kind, verify_row_check
from lakehouse_assets.testing.source_kinds import verify_source

if TYPE_CHECKING:
    from lakehouse_assets.testing.table_tests import find_table_tests, verify_table_test

__all__ = [
    "find_table_tests",
    "verify_batch_check",
    "verify_check_kind",
    "verify_row_check",
    "verify_source",
    "verify_table_test",
]


def __getattr__(name: str) -> Any:
    if name in ("find_table_tests", "verify_table_test"):
        from lakehouse_assets.testing import table_tests  # noqa: PLC0415 (loads Dagster: 2 s)

        return getattr(table_tests, name)
    raise AttributeError(name)
