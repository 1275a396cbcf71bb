"""Faulty files through the gate on real Spark: each is reported, none stops its neighbours, nothing is lost, corrections heal.

Belongs here: a window's fault from landing to silver. Does not: how a source reads it (sources), or what kills a run (laws).
"""

import gzip
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakehouse_assets.contracts.decision import Decision, ExtractionRecord
from lakehouse_assets.decisions.personal import MASKED
from lakehouse_assets.decisions.schema.evolution import plan
from lakehouse_assets.decisions.schema.gate import schema_outcomes
from lakehouse_assets.errors import SourceError
from lakehouse_assets.operations.rebuild import rebuild
from lakehouse_assets.operations.release import release
from lakehouse_assets.settings import Settings
from lakehouse_assets_tests.support import heal, land, readings, rows_of, runner, silver, window

HEADER = "sensor,hour,value,updated"
COLUMNS = {"sensor": "string", "hour": "int", "value": "double", "updated": "timestamp"}


def good(day: int) -> list[str]:
    return [f"a{day},1,10,2024-01-{day:02d}T01:00:00Z", f"b{day},2,20,2024-01-{day:02d}T02:00:00Z"]


def content(*lines: str, header: str = HEADER) -> bytes:
    return ("\n".join([header, *lines]) + "\n").encode()


def land_bytes(settings, day: int, raw: bytes, suffix: str = ".csv") -> Path:
    path = land(settings, day, [], suffix=suffix)
    path.write_bytes(raw)
    return path


def reasons_text(decision: Decision) -> str:
    return "; ".join(f"{reason.check}: {reason.message}" for reason in decision.reasons)


def rows_in_quarantine(settings, day: int, seq: int = 1) -> list[dict]:
    rows = rows_of(settings.path("quarantine", "readings"))
    return [row for row in rows if (row["p_extracted_at"], row["extraction_seq"]) == (window(day).start, seq)]


def assert_nothing_is_lost(settings, published) -> None:
    """Every row of bronze has one fate, and those that are held lie in quarantine, whole and with a reason."""
    bronze = rows_of(settings.path("bronze", "readings"), ["p_extracted_at", "extraction_seq"])
    for of_window, decision in published.current.items():
        counts = decision.counts
        fates = (counts.rows_published, counts.rows_superseded, counts.rows_quarantined, counts.rows_discarded)
        batch = {"p_extracted_at": of_window.start, "extraction_seq": decision.extraction_seq}
        assert counts.rows_in == sum(fates) == bronze.count(batch), of_window.key
        quarantined_rows = rows_in_quarantine(settings, of_window.start.day, decision.extraction_seq)
        assert len(quarantined_rows) == counts.rows_quarantined, of_window.key
        assert all(row["reasons"] or row["batch_reasons"] for row in quarantined_rows), of_window.key


def verdicts(published) -> dict[int, str]:
    return {of_window.start.day: decision.verdict for of_window, decision in published.current.items()}


def assert_it_heals(spark, settings, spec, days: dict[int, bytes]) -> None:
    """Corrected files are extracted as second extractions, accepted, and leave nothing held of the first ones."""
    for day, raw in days.items():
        land_bytes(settings, day, raw)
    published = heal(spark, settings, days, spec)
    assert {(d.extraction_seq, d.verdict) for d in published.current.values()} == {(2, "published")}
    assert len(published.new) == len(days)
    assert_nothing_is_lost(settings, published)


@pytest.fixture(scope="module")
def faulty(spark, tmp_path_factory):
    """One run over ten windows, of which all but the first and the last are faulty, each in its own way."""
    home = tmp_path_factory.mktemp("faulty")
    (home / "landing").mkdir()
    settings = Settings(root=str(home / "lake"), landing=str(home / "landing"), dagster_home=home, spark_master="local[2]")
    for day, raw in {
        1: content(*good(1)),
        2: content(good(2)[0], "b2,2", 'c2,3,"30,2024-01-02T03:00:00Z', "d2,x,40,2024-01-02T04:00:00Z"),
        3: b"",
        4: content(),
        5: content("2024-01-05T01:00:00Z,10,a5,1", "2024-01-05T02:00:00Z,20,b5,2", header="updated,value,sensor,hour"),
        6: content(good(6)[0]) + "é6,2,20,2024-01-06T02:00:00Z\n".encode("latin-1"),
        7: content(*good(7)).decode().encode("utf-16"),
        8: content("a8,a8,1,10,2024-01-08T01:00:00Z", header="sensor,sensor,hour,value,updated"),
        9: content("a9,10,2024-01-09T01:00:00Z", header="sensor,value,updated"),
        10: content(*good(10)),
    }.items():
        land_bytes(settings, day, raw)
    return settings, heal(spark, settings, range(1, 11))


def test_no_window_stops_another(faulty):
    settings, published = faulty
    all_rows, part, none = "published", "published_with_warnings", "quarantined"
    assert verdicts(published) == {
        1: all_rows,
        2: part,
        3: none,
        4: none,
        5: all_rows,
        6: part,
        7: none,
        8: none,
        9: none,
        10: all_rows,
    }
    assert [row["sensor"] for row in silver(settings)] == ["a1", "a10", "a2", "a5", "a6", "b1", "b10", "b5"]


def test_each_row_has_one_fate(faulty):
    assert_nothing_is_lost(*faulty)


@pytest.mark.parametrize(
    ("day", "message"),
    [
        (
            2,
            "readable_row: 2 record(s) could not be read (2: its quotes do not pair, or it has more or fewer fields than the"
            " header); cast_hour: 1 value(s) of hour are no int",
        ),
        (3, "not_empty: the batch is empty"),
        (4, "not_empty: the batch is empty"),
        (5, ""),
        (6, "readable_row: 1 record(s) could not be read (1: it is not utf-8: is source.encoding right?)"),
        (7, "readable_row: 1 file(s) could not be read"),
        (8, "readable_row: 1 file(s) could not be read"),
        (9, "supersede: none of its 1 row(s) is clean"),
    ],
)
def test_faulty_files_are_reported(faulty, day, message):
    decision = faulty[1].current[window(day)]
    assert reasons_text(decision).startswith(message)
    assert bool(decision.reasons) == bool(message)


@pytest.mark.parametrize(
    ("day", "messages"),
    [
        (2, {"the record can be read: its quotes do not pair, or it has more or fewer fields than the header"}),
        (6, {"the record can be read: it is not utf-8: is source.encoding right?"}),
        (7, {"the record can be read"}),
    ],
)
def test_reasons_name_the_kind_of_an_unreadable_record(faulty, day, messages):
    reasons = [reason for row in rows_in_quarantine(faulty[0], day) for reason in row["reasons"]]
    assert {reason["message"] for reason in reasons if reason["check"] == "readable_row"} == messages


def test_a_failed_cast_names_the_key_for_decimal_commas(spark, settings):
    columns = {"sensor": {"type": "string", "pii": True}, "hour": "int", "value": "decimal(12,3)"}
    spec = readings(columns=columns, key=["hour"], last_modified=None, checks=[])
    land_bytes(settings, 1, b'sensor,hour,value\na,1,"1.013,847"\nb,2,x\nc,3,"1,234"\n')
    heal(spark, settings, [1], spec)
    reasons = [reason for row in rows_in_quarantine(settings, 1) for reason in row["reasons"]]
    assert sorted((reason["message"], reason["value"]) for reason in reasons) == [
        ("value can be read as decimal(12,3)", MASKED),
        ("value can be read as decimal(12,3): is source.decimal ',' in all files?", MASKED),
        ("value can be read as decimal(12,3): is source.decimal or source.thousands ',' in all files?", MASKED),
    ]


@pytest.mark.parametrize(
    ("day", "records"),
    [
        (2, [None, "b2,2", 'c2,3,"30,2024-01-02T03:00:00Z']),
        (6, ["\ufffd6,2,20,2024-01-06T02:00:00Z"]),
        (7, ["unreadable file readings/2024-01-07.csv: "]),
        (8, ["unreadable file readings/2024-01-08.csv: two columns are called 'sensor'"]),
        (9, [None]),
    ],
)
def test_quarantine_keeps_the_text(faulty, day, records):
    texts = sorted((row["_corrupt_record"] for row in rows_in_quarantine(faulty[0], day)), key=lambda text: text or "")
    assert len(texts) == len(records)
    assert all(
        text == record or (text and record and text.startswith(record)) for text, record in zip(texts, records, strict=True)
    )


def test_columns_in_another_order_are_bound_by_name(faulty):
    row = next(row for row in silver(faulty[0]) if row["sensor"] == "a5")
    assert (row["hour"], row["value"], row["updated"].day) == (1, 10.0, 5)


def test_corrected_files_heal(spark, faulty):
    """Last of those that share the lake: it changes it."""
    settings, _ = faulty
    assert_it_heals(spark, settings, None, {day: content(*good(day)) for day in (2, 3, 4, 6, 7, 8, 9)})
    assert [row["sensor"] for row in silver(settings)] == sorted(f"{s}{day}" for s in "ab" for day in range(1, 11))


@pytest.mark.exhaustive(seconds=8)
def test_a_truncated_gzip(spark, settings):
    spec = readings(source={"kind": "files", "path": "readings/{window:%Y-%m-%d}.csv.gz", "format": "csv"})
    # Random, so that it does not shrink: the cut is far behind the header, where only a scan comes.
    rows = [f"{os.urandom(8).hex()},1,10,2024-01-02T01:00:00Z" for _ in range(20_000)]
    cut = gzip.compress(content(*rows))[:150_000]
    for day, raw in {1: gzip.compress(content(*good(1))), 2: cut, 3: gzip.compress(content(*good(3)))}.items():
        land_bytes(settings, day, raw, ".csv.gz")
    published = heal(spark, settings, [1, 2, 3], spec)
    assert verdicts(published) == {1: "published", 2: "quarantined", 3: "published"}
    assert reasons_text(published.current[window(2)]) == "readable_row: 1 file(s) could not be read"
    (row,) = rows_in_quarantine(settings, 2)
    assert row["_corrupt_record"] == "unreadable file readings/2024-01-02.csv.gz: Unexpected end of input stream"
    assert_nothing_is_lost(settings, published)
    assert len(silver(settings)) == 4, "half of a file must not be published"


@pytest.mark.exhaustive(seconds=10)
def test_an_expression_that_divides_by_zero_in_one_window(spark, settings):
    """A column's `expr`, a check's `where` and an SQL check, each in a window of its own."""
    spec = readings(
        columns={**COLUMNS, "value": {"type": "double", "expr": "100 / value"}},
        checks=[
            {"check": "in_range", "name": "by_hour", "column": "value", "max": 1000, "where": "10 / hour > 0"},
            {"check": "sql", "name": "by_name", "sql": "select * from batch where 1 / (length(sensor) - 3) > 1"},
        ],
    )
    faults = {
        2: "z2,1,0,2024-01-02T03:00:00Z",
        3: "z3,0,5,2024-01-03T03:00:00Z",
        4: "zz4,1,5,2024-01-04T03:00:00Z",
    }
    for day in range(1, 5):
        land_bytes(settings, day, content(*good(day), *([faults[day]] if day in faults else [])))
    published = heal(spark, settings, range(1, 5), spec)
    assert verdicts(published) == {1: "published", 2: "quarantined", 3: "quarantined", 4: "quarantined"}
    for day, check in {2: "cast_value", 3: "by_hour", 4: "by_name"}.items():
        assert reasons_text(published.current[window(day)]).startswith(f"{check}: [DIVIDE_BY_ZERO] Division by zero"), day
        assert len(rows_in_quarantine(settings, day)) == 3
    assert_nothing_is_lost(settings, published)
    assert [row["value"] for row in silver(settings)] == [10.0, 5.0]


@pytest.mark.parametrize(
    ("mode", "severity"),
    [
        ("append", "critical"),
        pytest.param("upsert", "warning", marks=pytest.mark.exhaustive(seconds=20)),
        pytest.param("append", "warning", marks=pytest.mark.exhaustive(seconds=15)),
        pytest.param("upsert", "critical", marks=pytest.mark.exhaustive(seconds=15)),
    ],
)
def test_a_check_that_stops_the_scan_stops_nothing_later(spark, settings, mode, severity):
    """The window is corrected, and silver is rebuilt: neither asks the check again of what it has stopped at."""
    keys = {"append": {"key": [], "last_modified": None}, "upsert": {}}[mode]
    checks = [{"check": "expression", "name": "divides", "expr": "10 / hour > 0", "severity": severity}]
    extraction = {"cadence": "daily", "start": "2024-01-01", "mode": mode}
    spec = readings(**keys, extraction=extraction, checks=checks)
    land_bytes(settings, 1, content(*good(1)))
    land_bytes(settings, 2, content(*good(2), "z2,0,5,2024-01-02T03:00:00Z"))
    published = heal(spark, settings, [1, 2], spec)
    assert verdicts(published) == {1: "published", 2: "quarantined" if severity == "critical" else "published_with_warnings"}
    assert rebuild(runner(spark, settings, spec)).rows == (2 if severity == "critical" else 5)
    assert_it_heals(spark, settings, spec, {2: content(*good(2))})
    assert [row["sensor"] for row in silver(settings)] == ["a1", "a2", "b1", "b2"]
    proof = rebuild(runner(spark, settings, spec))
    assert (proof.gained, proof.lost) == (0, 0)


@pytest.mark.exhaustive(seconds=20)
def test_a_key_that_stops_the_scan_is_corrected(spark, settings):
    columns = {**COLUMNS, "hour": {"type": "int", "expr": "cast(24 / value as int)"}}
    spec = readings(columns=columns, checks=[], supersede="any")
    land_bytes(settings, 1, content(*good(1)))
    land_bytes(settings, 2, content(*good(2), "z2,0,5,2024-01-02T03:00:00Z"))
    assert verdicts(heal(spark, settings, [1, 2], spec)) == {1: "published", 2: "quarantined"}
    assert_it_heals(spark, settings, spec, {2: content(*good(2))})
    # And in the other order: what was accepted is replaced by what cannot be evaluated, which is held, and that is corrected.
    land_bytes(settings, 1, content(*good(1), "z1,0,5,2024-01-01T03:00:00Z"))
    assert verdicts(heal(spark, settings, [1], spec)) == {1: "quarantined"}
    land_bytes(settings, 1, content("n1,1,5,2024-01-01T03:00:00Z"))
    assert verdicts(heal(spark, settings, [1], spec)) == {1: "published"}
    assert [row["sensor"] for row in silver(settings)] == ["a2", "b2", "n1"]


@pytest.mark.exhaustive(seconds=15)
@pytest.mark.parametrize("waived", ["casts", "cast_value", "*"])
def test_values_in_error_cannot_be_published(spark, settings, waived):
    """An override of a column whose expression stops the scan: it stays held, and nothing behind it is stopped."""
    spec = readings(columns={**COLUMNS, "value": {"type": "double", "expr": "100 / value"}}, checks=[])
    land_bytes(settings, 1, content(*good(1), "z1,1,0,2024-01-01T03:00:00Z"))
    heal(spark, settings, [1], spec)
    decision = release(runner(spark, settings, spec), window(1).start, None, waived=[waived], by="ann", because="I say so")
    assert (decision.verdict, [(r.check, r.status, r.effect) for r in decision.reasons]) == (
        "quarantined",
        [("cast_value", "error", "batch")],
    )
    assert_it_heals(spark, settings, spec, {1: content(*good(1))})


def test_a_column_that_no_source_has(spark, settings):
    spec = readings(columns={**COLUMNS, "wind": {"type": "double", "from": "Wind Speed"}})
    for day in (1, 2):
        land_bytes(settings, day, content(*good(day)))
    published = heal(spark, settings, [1, 2], spec)
    assert verdicts(published) == {1: "quarantined", 2: "quarantined"}
    message = reasons_text(published.current[window(1)])
    assert message.startswith("source_columns: no source has ever had the column of wind (from 'Wind")
    assert "it has hour, sensor, updated, value. Mend `from:`" in message
    assert_nothing_is_lost(settings, published)
    assert silver(settings) == []


def test_a_missing_column_is_reported_as_the_source_spells_it():
    spec = readings(columns={**COLUMNS, "wind": {"type": "double", "from": "Wind Speed"}})
    arrived = ["sensor", "hour", "value", "updated", "Gust_x20_Speed"]
    now = datetime(2024, 1, 2, tzinfo=UTC)
    record = ExtractionRecord("readings", now, 1, "print", 1, tuple(arrived), 0, "run", now)
    outcome, ignored = schema_outcomes(spec, record, plan(spec, record), arrived)
    assert (ignored.check, ignored.status) == ("new_columns", "passed")
    assert "wind (from 'Wind Speed')" in outcome.message
    assert "Gust Speed" in outcome.message


def test_a_landing_folder_that_is_missing(spark, settings):
    Path(settings.landing).rmdir()
    with pytest.raises(SourceError) as caught:
        heal(spark, settings, [1])
    assert settings.landing in str(caught.value)
    assert not Path(settings.root, "bronze").exists()


def test_a_table_of_which_nothing_has_landed(spark, settings):
    assert heal(spark, settings, [1, 2]).current == {}
    assert rows_of(settings.path("bronze", "readings")) == []
