"""Streams of files and of a Delta table's versions: each file and each version in one window, whatever changes meanwhile.

Belongs here: what these two kinds make of arriving data, on real Spark and Delta. Does not: messages (e2e/test_stream), what is
the same for all kinds (e2e/test_stream, laws).
"""

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.contracts.windows import window_at
from lakehouse_assets.errors import EvidenceError, SourceError
from lakehouse_assets.pipeline.stream import publish_next, publish_windows, unfinished_windows
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources import open_feed
from lakehouse_assets.sources.files_feed import REWRITTEN, FileState, RecordedFiles, position_to_text
from lakehouse_assets.storage import logs
from lakehouse_assets.storage.source_positions import read_positions
from lakehouse_assets_tests.support import rows_of, runner

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def table(source: dict[str, Any], **changes: Any) -> TableSpec:
    attributes = {
        "name": "orders",
        "source": source,
        "extraction": {"cadence": "daily", "start": "2024-01-01", "mode": "append", "stream": {"max_rows": 2}},
        "columns": {"id": "bigint", "state": "string"},
    }
    return TableSpec.model_validate(attributes | changes)


def files(**changes: Any) -> TableSpec:
    return table({"kind": "files", "path": "orders/*.csv", "format": "csv", **changes})


def land(settings: Settings, name: str, *rows: str, second: int = 0) -> Path:
    path = Path(settings.landing) / "orders" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["id,state", *rows]) + "\n")
    os.utime(path, (1_700_000_000 + second, 1_700_000_000 + second))
    return path


def silver(settings: Settings) -> list[tuple]:
    return sorted((row["id"], row["state"]) for row in rows_of(settings.path("silver", "orders"), ["id", "state"]))


def test_each_file_is_in_one_window_the_oldest_first_and_no_more_than_the_bound(spark, settings):
    spec = files(settled="rename")
    feed = open_feed(spec, settings)
    for second, name in enumerate(["c.csv", "a.csv", "b.csv"]):
        land(settings, name, f"{second},new", second=second)
    land(settings, "d.csv.part", "9,half")
    land(settings, "_e.csv", "9,hidden")
    first = publish_next(runner(spark, settings, spec), feed)
    assert first and feed.size(first.position) == 2
    assert silver(settings) == [(0, "new"), (1, "new")]
    assert feed.waiting(read_positions(settings, "orders"), NOW).number == 1
    # Gone after they were read, as landing folders are cleaned: nothing is read again, nor missed.
    (Path(settings.landing) / "orders" / "c.csv").unlink()
    publish_next(runner(spark, settings, spec), feed)
    assert publish_next(runner(spark, settings, spec), feed) is None
    assert silver(settings) == [(0, "new"), (1, "new"), (2, "new")]
    # A file with other content is another file.
    land(settings, "b.csv", "7,again", second=50)
    publish_next(runner(spark, settings, spec), open_feed(spec, settings))
    assert silver(settings) == [(0, "new"), (1, "new"), (2, "new"), (7, "again")]
    assert unfinished_windows(settings, spec) == []


def test_without_settled_a_file_must_rest_for_a_second(settings):
    spec = files()
    feed = open_feed(spec, settings)
    path = land(settings, "a.csv", "1,new")
    assert feed.next_position({}, NOW) is None
    path.write_text("id,state\n1,new\n2,more\n")
    assert feed.next_position({}, NOW + timedelta(seconds=2)) is None
    assert feed.next_position({}, NOW + timedelta(seconds=3)) is not None
    quiet = open_feed(files(settled={"seconds": 5}), settings)
    assert quiet.next_position({}, datetime.now(UTC)) is None
    assert quiet.next_position({}, datetime.now(UTC) + timedelta(seconds=6)) is not None


def test_a_file_waits_since_it_was_there_and_not_since_its_own_time(settings):
    """A file that is moved or copied into the folder may keep the time that it had."""
    feed = open_feed(files(settled="rename"), settings)
    assert feed.waiting({}, NOW) == (0, "files", None)
    path = land(settings, "a.csv", "1,new")
    minute = timedelta(minutes=1)
    assert feed.waiting({}, NOW + minute) == (1, "files", NOW + minute)
    assert feed.waiting({}, NOW + 2 * minute) == (1, "files", NOW + minute)
    own_time = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    assert open_feed(files(settled="rename"), settings).waiting({}, NOW).arrived_at == own_time, "a process that starts"


def test_a_file_that_is_written_again_and_again_waits_since_it_was_first_there(settings):
    feed, minute = open_feed(files(settled={"seconds": 5}), settings), timedelta(minutes=1)
    assert feed.waiting({}, NOW).number == 0
    for number in range(1, 4):
        path = land(settings, "a.csv", f"{number},new", second=number)
        assert feed.waiting({}, NOW + number * minute) == (1, "files", NOW + minute)
    taken_state = FileState("orders/a.csv", path.stat().st_size, path.stat().st_mtime_ns)
    land(settings, "a.csv", "9,new", second=9)
    recorded = {NOW + 3 * minute: position_to_text([taken_state])}
    assert feed.waiting(recorded, NOW + 4 * minute) == (1, "files", NOW + 4 * minute), "a window had it as it was"


@pytest.mark.parametrize(
    ("change", "reason", "later"),
    [("rewrite", "it changed after it was recorded", [(1, "new"), (8, "other")]), ("remove", "it was removed", [(1, "new")])],
)
def test_a_file_that_changes_between_record_and_read_is_quarantined_and_comes_later(spark, settings, change, reason, later):
    spec = files(settled="rename")
    land(settings, "a.csv", "1,new", second=1)
    feed = open_feed(spec, settings)
    publish_next(runner(spark, settings, spec), feed)
    path = land(settings, "b.csv", "2,new", second=2)

    def meddle(step: str) -> None:
        if step == "positions_recorded":
            land(settings, "b.csv", "8,other", second=3) if change == "rewrite" else path.unlink()

    stream_window = publish_next(runner(spark, settings, spec, meddle), feed)
    assert stream_window and stream_window.published.new[0].verdict == "quarantined"
    assert reason in str([row["_corrupt_record"] for row in rows_of(settings.path("bronze", "orders"), ["_corrupt_record"])])
    publish_next(runner(spark, settings, spec), feed)
    assert silver(settings) == later


@pytest.mark.parametrize(
    ("form", "texts"),
    [("csv", ["id,state\n1,old", "id,state\n2,new"]), ("json", ['{"id": 1, "state": "older"}', '{"id": 2, "state": "new"}'])],
)
def test_a_file_that_two_windows_recorded_is_read_for_the_one_that_it_is_as_recorded_in(spark, settings, form, texts):
    """As two services leave it: the older window has the file as it was, the newer one as it is."""
    source = files(format=form).source
    windows = [window_at(NOW + timedelta(seconds=second), "moment") for second in (1, 2)]
    recorded = {}
    for window, text in zip(windows, texts, strict=True):
        path = land(settings, "a.csv")
        path.write_text(text)
        os.utime(path, (window.start.timestamp(), window.start.timestamp()))
        recorded[window.start] = position_to_text([FileState("orders/a.csv", path.stat().st_size, path.stat().st_mtime_ns)])
    extraction = RecordedFiles(source, settings.landing, ["id", "state"], recorded).read(spark, windows)
    first, second = sorted(extraction.frame.collect(), key=lambda row: row["p_extracted_at"])
    assert (first["id"], first["_corrupt_record"]) == (None, f"unreadable file orders/a.csv: {REWRITTEN}")
    assert (second["id"], second["state"], second["_corrupt_record"]) == ("2", "new", None)
    assert extraction.columns == {windows[0]: (), windows[1]: ("id", "state")} and list(extraction.problems) == windows[:1]


def test_an_unreadable_file_is_quarantined_alone(spark, settings):
    """A window has the files that came at the same time: the others' rows are published, and its own once it is mended."""
    spec = files(path="orders/*.json", format="json", settled="rename")
    folder = Path(settings.landing) / "orders"
    folder.mkdir(parents=True)
    texts = {
        "a": '{"id": 1, "state": "new"}\n{"id": 2, "sta',
        "b": '[{"id": 3, "state": "new"}]',
        "c": "",
        "d": '{"id": 4, "state": "new"}\n',
    }
    for second, (name, text) in enumerate(texts.items()):
        (folder / f"{name}.json").write_text(text)
        os.utime(folder / f"{name}.json", (1_700_000_000 + second, 1_700_000_000 + second))
    feed = open_feed(spec, settings)
    decisions = []
    while window := publish_next(runner(spark, settings, spec), feed):
        decisions += window.published.new
    assert silver(settings) == [(1, "new"), (4, "new")]
    assert [d.verdict for d in decisions] == ["published_with_warnings", "published"], "an empty file lacks no column"
    assert [(r.check, r.effect) for r in decisions[0].reasons] == [("readable_row", "rows")]
    assert (decisions[0].counts.rows_quarantined, decisions[0].counts.rows_published) == (2, 1)
    (folder / "b.json").write_text('{"id": 3, "state": "new"}')
    os.utime(folder / "b.json", (1_700_000_100, 1_700_000_100))
    publish_next(runner(spark, settings, spec), feed)
    assert silver(settings) == [(1, "new"), (3, "new"), (4, "new")]


def test_what_died_after_the_record_is_read_by_it(spark, settings):
    spec = files(settled="rename")
    land(settings, "a.csv", "1,new")

    def die(step: str) -> None:
        if step == "positions_recorded":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish_next(runner(spark, settings, spec, die), open_feed(spec, settings))
    land(settings, "b.csv", "2,new", second=1)
    [window] = unfinished_windows(settings, spec)
    publish_windows(runner(spark, settings, spec), [window])
    assert silver(settings) == [(1, "new")]
    publish_next(runner(spark, settings, spec), open_feed(spec, settings))
    assert silver(settings) == [(1, "new"), (2, "new")]
    assert len(logs.extractions(settings, "orders")) == 2


@pytest.mark.parametrize("damage", ["lost", "older"])
def test_nothing_is_recorded_by_positions_that_are_lost_or_older(spark, settings, damage):
    """The files of the first windows are still there: by such a log they would be taken again, and each row be doubled."""
    spec, positions = files(settled="rename"), Path(settings.path("ops", "positions"))
    feed = open_feed(spec, settings)
    for number in (1, 2):
        land(settings, f"{number}.csv", f"{number},new", second=number)
        publish_next(runner(spark, settings, spec), feed)
        if number == 1:
            shutil.copytree(positions, positions.with_name("older"))
    positions.rename(positions.with_name("whole"))
    if damage == "older":
        shutil.copytree(positions.with_name("older"), positions)
    land(settings, "3.csv", "3,new", second=3)
    with pytest.raises(EvidenceError, match="positions"):
        publish_next(runner(spark, settings, spec), open_feed(spec, settings))
    assert len(read_positions(settings, "orders")) == {"lost": 0, "older": 1}[damage]
    shutil.rmtree(positions, ignore_errors=True)
    positions.with_name("whole").rename(positions)
    publish_next(runner(spark, settings, spec), open_feed(spec, settings))
    assert silver(settings) == [(1, "new"), (2, "new"), (3, "new")]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"path": "orders/{window:%Y-%m-%d}.csv"}, r"names windows.*write \*"),
        ({"settled": {"marker": "done/{window:%Y-%m-%d}"}}, "settled: a marker"),
    ],
)
def test_what_only_a_calendar_has_is_refused(source, message):
    with pytest.raises(ValidationError, match=message):
        files(**source)


def test_versions_of_a_delta_table_as_they_are_committed(spark, settings):
    path = f"{settings.landing}/shop"
    spec = table({"kind": "delta", "path": "shop"})
    feed: Any = open_feed(spec, settings)

    def append(*ids: int) -> None:
        spark.createDataFrame([(n, "new") for n in ids], "id bigint, state string").write.format("delta").mode("append").save(
            path
        )

    with pytest.raises(SourceError, match="shop"):
        feed.next_position({}, NOW)
    append(1, 2, 3)
    append(4)
    assert feed.waiting({}, datetime.now(UTC) + timedelta(days=1)).arrived_at == feed._table.commits(feed._table.log(), 1)[0].at
    first = publish_next(late(runner(spark, settings, spec)), feed)
    assert first and feed.size(first.position) == 2  # the whole table
    assert silver(settings) == [(n, "new") for n in (1, 2, 3, 4)]
    for ids in ((5,), (6,), (7, 8, 9)):
        append(*ids)
    waiting = feed.waiting(read_positions(settings, "orders"), datetime.now(UTC) + timedelta(days=1))
    times = [commit.at for commit in feed._table.commits(feed._table.log(), 2)]
    assert (waiting.number, waiting.arrived_at) == (3, times[0])
    sizes = []
    while (stream_window := publish_next(late(runner(spark, settings, spec)), feed)) is not None:
        sizes.append(stream_window.published.new[0].counts.rows_in)
    assert sizes == [2, 3]
    assert silver(settings) == [(n, "new") for n in range(1, 10)]
    assert unfinished_windows(settings, spec) == []


def late(run):
    """The run with a clock after all commits of the test."""
    later = datetime.now(UTC) + timedelta(days=1)
    return run.__class__(run.settings, run.spec, run.session, run.run_id, lambda: later, run.step)
