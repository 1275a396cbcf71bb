"""The source kind `delta`: windows of versions, what each kind of change gives, and what is refused. On real Delta.

Belongs here: the reader alone. Does not: silver from a foreign table (e2e/test_delta_source), or its log (storage).
"""

import shutil
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from pydantic import ValidationError

from lakehouse_assets.contracts.delta_source import DeltaSource
from lakehouse_assets.contracts.windows import Window, calendar, window_at
from lakehouse_assets.errors import EnvironmentMissing, SourceError
from lakehouse_assets.sources.delta import DeltaReader
from lakehouse_assets.testing import verify_source
from lakehouse_assets_tests.timed_commits import run_at, stamp

START = datetime(2024, 1, 1, tzinfo=UTC)


def day(number: int) -> Window:
    return window_at(START + timedelta(days=number - 1), "daily")


def noon(number: int) -> datetime:
    return day(number).start + timedelta(hours=12)


def rows(*ids: int, **more: object) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "text": [f"t{each}" for each in ids], **more})


def append(path: Path, number: int, *ids: int) -> None:
    """A commit of a day that adds these rows."""
    write_deltalake(str(path), rows(*ids), mode="append")
    stamp(path, noon(number))


@pytest.fixture
def opener(settings, tmp_path):
    """Opens a reader of the table `orders` in the landing folder."""

    def open_reader(recorded=None, snapshots=False, key=(), declared=(), personal=False, **source):
        model = DeltaSource.model_validate({"kind": "delta", "path": "orders", **source})
        return DeltaReader(
            model,
            settings,
            lambda end: list(calendar(START, end, "daily")),
            declared,
            [(name,) for name in key],
            recorded,
            snapshots=snapshots,
            personal=personal,
        )

    return open_reader


@pytest.fixture
def path(settings) -> Path:
    return Path(settings.landing) / "orders"


def recorded(reader: DeltaReader, *windows: Window) -> dict[datetime, str]:
    return {window.start: text for window, text in reader.positions(windows).items()}


def ids(spark, reader: DeltaReader, *windows: Window) -> list[tuple[int, str]]:
    """Day and id of each row that the reader gives."""
    frame = reader.read(spark, windows).frame
    return sorted((row["p_extracted_at"].astimezone(UTC).day, row["id"]) for row in frame.collect())


@pytest.mark.exhaustive(seconds=15)
def test_the_contract(spark, opener, path):
    append(path, 1, 1, 2)
    append(path, 2, 3)
    append(path, 2, 4)
    append(path, 4, 5)
    verify_source(spark, opener, [day(1), day(2), day(4)], day(3), change=lambda window: append(path, window.start.day, 9, 10))


def test_a_window_is_a_range_of_versions(spark, opener, path):
    append(path, 1, 1)
    append(path, 2, 2)
    append(path, 2, 3)
    DeltaTable(str(path)).optimize.compact()
    stamp(path, noon(3))
    reader = opener()
    assert set(reader.fingerprints([day(n) for n in range(1, 6)])) == {day(1), day(2)}, "a compaction changes no row"
    assert ids(spark, reader, day(1), day(2)) == [(1, "1"), (2, "2"), (2, "3")]
    positions = recorded(reader, day(2))
    assert set(positions) == {day(1).start, day(2).start}, "a range begins where another ends"
    append(path, 2, 4)
    append(path, 5, 5)
    later = opener(positions)
    assert later.fingerprints([day(1), day(2)]) == reader.fingerprints([day(1), day(2)])
    assert ids(spark, later, day(2), day(3), day(5)) == [(2, "2"), (2, "3"), (3, "4"), (5, "5")], "a late commit comes later"


def test_the_first_window_has_the_whole_table(spark, opener, path):
    for number in (1, 2, 3):
        write_deltalake(str(path), rows(number), mode="append")
        stamp(path, START - timedelta(days=9))
    DeltaTable(str(path)).delete("id = 2")
    stamp(path, noon(1))
    append(path, 2, 4)
    reader = opener()
    assert ids(spark, reader, day(1), day(2)) == [(1, "1"), (1, "3"), (2, "4")]
    assert reader.columns(day(1)) == ("id", "text")


def test_snapshots_are_the_table_at_each_windows_end(spark, opener, path):
    append(path, 1, 1, 2)
    DeltaTable(str(path)).delete("id = 1")
    stamp(path, noon(2))
    write_deltalake(str(path), rows(7), mode="overwrite")
    stamp(path, noon(3))
    reader = opener(snapshots=True)
    assert ids(spark, reader, day(1), day(2), day(3)) == [(1, "1"), (1, "2"), (2, "2"), (3, "7")]


def test_the_feed_gives_updates_and_deletions(spark, opener, path):
    feed = "tblproperties (delta.enableChangeDataFeed = true)"
    run_at(spark, path, noon(1), "create table {t} (id bigint, text string) using delta " + feed)
    run_at(spark, path, noon(1), "insert into {t} values (1, 'a'), (2, 'b'), (3, 'c')")
    run_at(spark, path, noon(2), "update {t} set text = 'z' where id = 1", "delete from {t} where id = 2")
    run_at(spark, path, noon(3), "update {t} set id = 30 where id = 3")
    run_at(spark, path, noon(4), "insert overwrite {t} values (1, 'new')")
    own = ["delta_change", "delta_version", "delta_order", "delta_timestamp"]
    reader = opener(changes="feed", key=["id"], declared=["id", "text", *own])
    frame = reader.read(spark, [day(n) for n in (1, 2, 3, 4)]).frame
    changes = sorted((int(r["delta_order"]), r["id"], r["text"], r["delta_change"]) for r in frame.collect())
    assert changes == [
        (3, "1", "a", "insert"), (3, "2", "b", "insert"), (3, "3", "c", "insert"),
        (5, "1", "z", "update"), (6, "2", "b", "delete"),
        (8, "3", "c", "delete"), (9, "30", "c", "update"),
        (10, "1", "z", "delete"), (10, "30", "c", "delete"), (11, "1", "new", "insert"),
    ]  # fmt: skip
    (row,) = frame.where("delta_order = 11").collect()
    assert (row["delta_timestamp"], row["_source_file"]) == ("2024-01-04T12:00:00.000000Z", "orders@5")


@pytest.mark.exhaustive(seconds=10)
def test_every_type_is_text_and_partitions_too(spark, opener, path):
    run_at(
        spark, path, noon(1),
        "create table {t} (id bigint, amount decimal(10,2), at timestamp, local timestamp_ntz, bytes binary,"
        " parts struct<a: int, `b c`: array<string>>, day date, `part key` string) using delta"
        " partitioned by (day, `part key`) tblproperties (delta.columnMapping.mode = 'name')",
        "insert into {t} values (0, null, null, null, null, null, null, null)",
    )  # fmt: skip
    values = (
        "(1, 1.5, timestamp'2024-01-01 10:00:00.5Z', timestamp_ntz'2024-01-01 11:00:00', X'00ff',"
        " named_struct('a', 1, 'b c', array('x', null)), date'2024-01-05', 'a=b/c d%20')"
    )
    run_at(spark, path, noon(2), "insert into {t} values " + values)
    reader = opener()
    extraction = reader.read(spark, [day(2)])
    (row,) = extraction.frame.collect()
    assert [row[name] for name in ("id", "amount", "at", "local", "bytes", "parts", "day", "part_x20_key")] == [
        "1", "1.50", "2024-01-01T10:00:00.500000Z", "2024-01-01T11:00:00.000000", "AP8=",
        '{"a":1,"b c":["x",null]}', "2024-01-05", "a=b/c d%20",
    ]  # fmt: skip
    assert extraction.types[day(2)]["amount"] == "decimal(10,2)"
    (snapshot,) = (row for row in opener(snapshots=True).read(spark, [day(2)]).frame.collect() if row["id"] == "1")
    assert snapshot.asDict() == row.asDict(), "a version's files give what the version gives"


def test_columns_of_a_window_whose_schema_grows(spark, opener, path):
    append(path, 1, 1)
    append(path, 2, 2)
    write_deltalake(str(path), rows(3, more=pa.array([Decimal("1.5")])), mode="append", schema_mode="merge")
    stamp(path, noon(2))
    extraction = opener().read(spark, [day(2)])
    assert extraction.columns[day(2)] == ("id", "text", "more")
    assert extraction.lacking[day(2)] == ("more",)
    by_id = {row["id"]: (row["more"], list(row["_columns"])) for row in extraction.frame.collect()}
    assert by_id == {"2": (None, ["id", "text"]), "3": ("1.5", ["id", "text", "more"])}


def test_a_rewrite_is_refused_or_read_as_its_files(spark, opener, path):
    append(path, 1, 1, 2)
    DeltaTable(str(path)).update(predicate="id = 2", updates={"text": "'new'"})
    stamp(path, noon(2))
    append(path, 3, 3)
    DeltaTable(str(path)).restore(0, commit_properties=CommitProperties())
    stamp(path, noon(4))
    with pytest.raises(SourceError, match=r"Delta table orders: version 1 \(UPDATE.* changed or removed rows.*changes: feed"):
        opener().read(spark, [day(2)])
    assert ids(spark, opener(recorded(opener(), day(4))), day(3)) == [(3, "3")], "other windows are read"
    with pytest.raises(SourceError, match=r"version 3 \(RESTORE to version 0"):
        opener().read(spark, [day(4)])
    assert ids(spark, opener(changes="rewrites"), day(2)) == [(2, "1"), (2, "2")]
    with pytest.raises(SourceError, match=r"it kept no change data feed at version 1.*delta\.enableChangeDataFeed"):
        opener(changes="feed").read(spark, [day(2)])


def test_a_replaced_or_shortened_table_is_refused_until_a_restart(spark, opener, path):
    for number in (1, 2, 3):
        append(path, number, number)
    positions = recorded(opener(), day(3))
    before = path.with_name("before")
    shutil.copytree(path, before)
    shutil.rmtree(path)
    append(path, 1, 1)
    with pytest.raises(SourceError, match="it ends at version 0, and was read up to version 2: it was replaced"):
        opener(positions).fingerprints([day(4)])
    for number in (2, 3, 5):
        append(path, number, 100 + number)
    with pytest.raises(SourceError, match="its version 2 is another than the one that was read"):
        opener(positions).fingerprints([day(5)])
    with pytest.raises(SourceError, match=r"source\.restart: the window 2024-01-02 00:00 was read before"):
        opener(positions, restart=day(2).start).fingerprints([day(5)])
    restarted = opener(positions, restart=day(5).start)
    assert set(restarted.fingerprints([day(4), day(5)])) == {day(5)}
    assert ids(spark, restarted, day(5)) == [(5, "1"), (5, "102"), (5, "103"), (5, "105")]
    positions |= recorded(restarted, day(5))
    append(path, 6, 6)
    assert ids(spark, opener(positions, restart=day(5).start), day(6)) == [(6, "6")]
    shutil.rmtree(path)
    with pytest.raises(SourceError, match="Delta table orders: there is no Delta table"):
        opener(positions).fingerprints([day(6)])


def test_commits_that_were_cleaned_up_are_refused(opener, path):
    for number in (1, 2, 3, 4):
        append(path, number, number)
    positions = recorded(opener(), day(1))
    DeltaTable(str(path)).create_checkpoint()
    for version in (0, 1, 2):
        (path / "_delta_log" / f"{version:020d}.json").unlink()
    with pytest.raises(SourceError, match=r"commits of versions 1 to 2 were cleaned up .* source\.restart"):
        opener(positions).fingerprints([day(4)])
    assert set(opener(positions, restart=day(4).start).fingerprints([day(4)])) == {day(4)}


@pytest.mark.parametrize("snapshots", [False, True])
def test_a_log_that_has_kept_only_a_compaction_gives_the_whole_table(spark, opener, path, snapshots):
    for number in (1, 2):
        append(path, number, number)
    DeltaTable(str(path)).optimize.compact()
    stamp(path, noon(3))
    DeltaTable(str(path)).create_checkpoint()
    for version in (0, 1):
        (path / "_delta_log" / f"{version:020d}.json").unlink()
    reader = opener(snapshots=snapshots)
    assert set(reader.fingerprints([day(n) for n in range(1, 6)])) == {day(3)}
    assert ids(spark, reader, day(3)) == [(3, "1"), (3, "2")]
    append(path, 5, 5)
    later = opener(recorded(reader, day(3)), snapshots=snapshots)
    assert ids(spark, later, day(5)) == ([(5, "1"), (5, "2")] if snapshots else []) + [(5, "5")]


@pytest.mark.parametrize("spelling", ["./orders", ".//orders/.", "{landing}//orders", "{landing}/./orders/"])
def test_files_are_found_however_the_path_is_spelled(spark, opener, path, settings, spelling):
    for number in (1, 2):
        append(path, number, number)
    reader = opener(path=spelling.format(landing=settings.landing))
    assert ids(spark, reader, day(1), day(2)) == [(1, "1"), (2, "2")]


def test_vacuumed_files_are_named(spark, opener, path):
    for number in (1, 2):
        append(path, number, number)
    positions = recorded(opener(), day(2))
    (file,) = (Path(uri) for uri in DeltaTable(str(path)).file_uris() if uri not in DeltaTable(str(path), 0).file_uris())
    file.unlink()
    with pytest.raises(SourceError, match="1 data files that version 1 added are gone: VACUUM removed them"):
        opener(positions).read(spark, [day(2)])
    assert ids(spark, opener(positions), day(1)) == [(1, "1")]
    with pytest.raises(SourceError, match=r"files of version 1 are gone.*source\.restart"):
        opener(positions, snapshots=True).probe(spark, [day(2)])
    with pytest.raises(SourceError, match=r"are gone.*\(masked: pii\)$"):
        opener(positions, snapshots=True, personal=True).probe(spark, [day(2)])


@pytest.mark.exhaustive(seconds=15)
def test_a_renamed_column_is_refused_until_it_is_declared(spark, opener, path):
    mapped = "tblproperties (delta.columnMapping.mode = 'name', delta.enableChangeDataFeed = true)"
    run_at(spark, path, noon(1), "create table {t} (id bigint, text string) using delta " + mapped)
    run_at(spark, path, noon(1), "insert into {t} values (1, 'a')")
    run_at(spark, path, noon(2), "insert into {t} values (2, 'b')", "alter table {t} rename column text to note")
    run_at(spark, path, noon(2), "insert into {t} values (3, 'c')")
    message = r"version 3 \(RENAME COLUMN.* renamed column 'text' to 'note'.* declare `from: \[note, text\]`"
    for changes in ("appends", "feed"):
        with pytest.raises(SourceError, match=message):
            opener(declared=["id", "text"], changes=changes).read(spark, [day(2)])
        extraction = opener(declared=["id", "note"], changes=changes).read(spark, [day(1), day(2)])
        texts = {row["id"]: (row["text"], row["note"]) for row in extraction.frame.collect()}
        assert texts == {"1": ("a", None), "2": ("b", None), "3": (None, "c")}


@pytest.mark.exhaustive(seconds=10)
def test_ten_thousand_versions_between_two_polls(opener, path):
    append(path, 1, 1)
    positions = recorded(opener(), day(1))
    log = path / "_delta_log"
    text = (log / f"{0:020d}.json").read_text().splitlines()
    commit = "\n".join([text[0].replace(str(int(noon(1).timestamp())), str(int(noon(2).timestamp()))), text[-1]])
    for version in range(1, 10_001):
        (log / f"{version:020d}.json").write_text(commit)
    began = datetime.now(UTC)
    assert set(opener(positions).fingerprints([day(2), day(3)])) == {day(2)}
    assert datetime.now(UTC) - began < timedelta(seconds=20)


@pytest.mark.parametrize(
    ("path", "store"),
    [
        ("s3://bucket/orders", "S3"),
        ("gs://bucket/orders", "Google Cloud Storage"),
        ("abfss://files@account.dfs.core.windows.net/orders", "Azure"),
    ],
)
def test_a_path_on_a_store_needs_a_lake_there(spark, opener, monkeypatch, path, store):
    reader = opener(path=path)
    monkeypatch.setattr(reader._history, "ranges", lambda windows: {})
    with pytest.raises(EnvironmentMissing, match=f"Spark has {store}'s jars only if"):
        reader.read(spark, [day(1)])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"path": ""}, "is no folder"),
        ({"path": "~/orders"}, "is no folder"),
        ({"path": "a/../b"}, r"has `\.\.`"),
        ({"path": "orders/*"}, "is no folder"),
        ({"path": "hdfs://user:word@host/orders"}, "credentials belong to the environment"),
        ({"path": "orders", "changes": "all"}, "appends"),
        ({"path": "orders", "versions": 3}, "not known here"),
    ],
)
def test_refused_sources(source, message):
    with pytest.raises(ValidationError, match=message) as caught:
        DeltaSource.model_validate({"kind": "delta", **source})
    assert "user:word" not in str(caught.value).partition("input_value")[0]


@pytest.mark.parametrize(
    ("changes", "mode", "delete_when", "message"),
    [
        ("feed", "snapshot", None, "does not apply in snapshot mode"),
        ("rewrites", "append", None, "use extraction.mode: upsert"),
        ("feed", "upsert", None, "extraction.delete_when: needed"),
    ],
)
def test_refused_modes(changes, mode, delete_when, message):
    source = DeltaSource.model_validate({"kind": "delta", "path": "orders", "changes": changes})
    with pytest.raises(ValueError, match=message):
        source.refuse_extraction("daily", mode, delete_when)
    source.refuse_extraction("daily", "upsert", "gone")
