"""What staging leaves unread, which its rows must not show.

Belongs here: the same rows by the short way and by the long one. Does not: what a staged row is (laws, spec).
"""

from functools import partial

from lakehouse_assets.pipeline import staging
from lakehouse_assets.pipeline.extract import extract
from lakehouse_assets.pipeline.reference_tables import ReferenceTables
from lakehouse_assets.storage import delta
from lakehouse_assets_tests.support import land, runner, window

GOOD = ["a,1,10,2024-01-01T01:00:00Z", "a,2,much,2024-01-01T01:00:00Z", "b,1,500,0001-12-31T23:59:59.999999Z", "c,NA,1,NA"]
CORRUPT = ["d,1,10,2024-01-02T01:00:00Z", "e,1,10,2024-01-02T01:00:00Z,and,more"]


def test_corrupt_records_are_searched_only_if_statistics_cannot_exclude_them(spark, settings, monkeypatch):
    land(settings, 1, GOOD)
    land(settings, 2, CORRUPT)
    run = runner(spark, settings)
    extract(run, [window(1), window(2)])
    first, second, bronze = (window(1).start, 1), (window(2).start, 1), run.path("bronze")
    assert staging.all_readable(bronze, [first])
    assert not staging.all_readable(bronze, [second])
    assert not staging.all_readable(bronze, [first, second])

    def rows(batches, folder):
        store = partial(staging.write_once, spark, path=settings.path("staging", run.table, folder))
        readable, frame = staging.all_readable(bronze, batches), spark.read.format("delta").load(bronze)
        staged, broken = staging.stage_batches(run, frame, batches, store, ReferenceTables(), all_readable=readable)
        assert not broken
        return sorted(staged.drop("p_extracted_at").collect(), key=str)

    short, both = rows([first], "short"), rows([first, second], "both")
    counts = delta.row_counts(bronze).drop_columns("null_count._corrupt_record")
    monkeypatch.setattr(delta, "row_counts", lambda _: counts)
    assert not staging.all_readable(bronze, [first])
    assert rows([first], "long") == short
    assert rows([first, second], "both-long") == both
    assert [row["_reasons"][0]["check"] for row in both if row["_failed_0"] & 1] == ["readable_row"]
