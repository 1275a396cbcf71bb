"""Contract tests for check kinds and source kinds, for those of extensions and our own alike. They need a Spark session.

Each function raises AssertionError that names the broken promise; call it from a test of any framework.
"""

from lakehouse_assets.testing.check_kinds import verify_batch_check, verify_check_kind, verify_row_check
from lakehouse_assets.testing.source_kinds import verify_source

__all__ = ["verify_batch_check", "verify_check_kind", "verify_row_check", "verify_source"]
