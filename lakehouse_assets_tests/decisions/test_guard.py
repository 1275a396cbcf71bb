"""Which rows of a guarded table are the next batch, by commit, and what is said where versions cannot be judged one by one.

Belongs here: the pure rules. Does not: Delta's own logs (guards/test_versions).
"""

from datetime import UTC, datetime, timedelta

import pytest

from lakehouse_assets.decisions.guard import LastVersion, TableNow, VersionChange, after_vacuum, next_batch

AT = datetime(2024, 5, 1, 12, 0, 0, 123456, tzinfo=UTC)
NAMES = {"c1": "id", "c2": "amount"}


def change(version, kind="append", operation="WRITE", **more):
    return VersionChange(version, AT, operation, kind, text=f"version {version} ({operation})", **more)


def last(version=4, window=AT - timedelta(hours=1), digest="d"):
    return LastVersion(version, window, "table-1", digest, NAMES)


def now(newest, digest="d", table_id="table-1"):
    return TableNow(table_id, newest, AT, digest)


@pytest.mark.parametrize(
    ("kind", "operation", "feed", "quarantine_open", "rows", "event"),
    [
        ("append", "WRITE", False, False, "added", ""),
        ("append", "WRITE", True, True, "added", ""),
        ("rewrite", "MERGE", True, False, "changed", ""),
        ("rewrite", "MERGE", False, False, "table", ""),
        ("rewrite", "MERGE", True, True, "table", ""),
        ("rewrite", "DELETE", True, False, "none", ""),
        ("rewrite", "DELETE", False, False, "table", ""),
        ("rewrite", "DELETE", True, True, "table", ""),
        ("overwrite", "WRITE", True, False, "table", "rewritten"),
        ("restore", "RESTORE", True, False, "table", "rewritten"),
    ],
)
def test_each_kind_of_commit_has_its_rows(kind, operation, feed, quarantine_open, rows, event):
    batch = next_batch(now(5), [change(5, kind, operation, feed=feed)], last(), 5, quarantine_open)
    assert batch is not None
    assert (batch.version, batch.after, batch.rows, batch.event) == (5, 4, rows, event)
    assert "version 5" in batch.text


def test_commits_that_change_no_row_and_no_column_have_no_batch():
    changes = [change(5, "none", "OPTIMIZE"), change(6, "none", "SET TBLPROPERTIES", names=NAMES)]
    assert next_batch(now(6), changes, last(), 5, False) is None
    assert next_batch(now(4), [], last(), 5, False) is None
    later = next_batch(now(7), [*changes, change(7)], last(), 5, False)
    assert later is not None and later.version == 7


def test_a_renamed_column_is_a_batch_without_rows_that_names_both():
    renamed = {"c1": "id", "c2": "price"}
    batch = next_batch(now(5), [change(5, "none", "RENAME COLUMN", names=renamed)], last(), 5, False)
    assert batch is not None and (batch.rows, batch.renamed) == ("none", {"amount": "price"})


def test_a_window_is_the_time_of_the_commit_in_milliseconds_and_later_than_the_last():
    first = next_batch(now(5), [change(5)], last(), 5, False)
    assert first is not None and first.window == AT.replace(microsecond=123000)
    second = next_batch(now(5), [change(5)], last(window=AT + timedelta(days=1)), 5, False)
    assert second is not None and second.window == AT + timedelta(days=1, milliseconds=1)


def test_versions_that_the_log_lost_are_replaced_by_the_whole_table():
    for changes, versions in (([change(8)], "versions 5 to 7"), ([], "versions 5 to 9")):
        batch = next_batch(now(9), changes, last(), 5, False)
        assert batch is not None and (batch.version, batch.rows, batch.event) == (9, "table", "lost")
        assert versions in batch.text
    substitute = after_vacuum(
        first_of_three := next_batch(now(7), [change(5), change(6), change(7)], last(), 5, False), now(7), last()
    )
    assert first_of_three.version == 5
    assert (substitute.version, substitute.rows, substitute.event) == (7, "table", "lost")


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (now(3), "its newest version is 3, though version 4 was judged"),
        (now(6, digest="other"), "its version 4 is not the one that was judged"),
        (now(6, digest=None, table_id="table-2"), "another table is at this path since version 4"),
    ],
)
def test_another_table_at_the_path_is_reported(table, text):
    batch = next_batch(table, [change(5), change(6)], last(), 5, False)
    assert batch is not None and (batch.version, batch.rows, batch.event) == (table.newest, "table", "replaced")
    assert text in batch.text


def test_a_guard_begins_with_the_table_as_it_is_or_with_its_first_version():
    begins = next_batch(now(9, digest=None), [], None, None, False)
    assert begins is not None and (begins.version, begins.rows, begins.event) == (9, "table", "")
    from_start = next_batch(now(9, digest=None), [change(0)], None, 0, False)
    assert from_start is not None and (from_start.version, from_start.rows) == (0, "added")
