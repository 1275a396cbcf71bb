"""Which windows bronze has other rows of than are on record. Pure.

Belongs here: commits and records made by hand. Does not: extractions that are killed (test_changed_files).
"""

from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest

from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.pipeline.extraction_records import find_written_again, recorded_reading
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.commit_metadata import encode_fingerprints
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.support import readings, window

FILES = {"kind": "files", "path": "readings/{window:%Y-%m-%d}.csv", "format": "csv"}
COMMA, LATIN = readings(source=FILES), readings(source={**FILES, "encoding": "iso-8859-1"})


@pytest.mark.parametrize(
    ("commits", "written_again"),
    [
        ([("print", COMMA)], False),
        ([("print", LATIN)], True),
        ([("other", COMMA)], True),
        ([("print", COMMA), ("print", LATIN)], True),
        ([("print", LATIN), ("print", COMMA)], False),
        ([("print", None)], False),
        ([("other", None)], True),
        ([], False),
    ],
)
def test_bronze_is_compared_with_the_record_by_content_and_by_keys_of_the_source(tmp_path, commits, written_again):
    """``commits``: fingerprint and table of each; an older version of this package stored no keys."""
    start, path = window(1).start, str(tmp_path / "bronze")
    delta.append_arrow(pa.table({"n": [0]}), path)
    for fingerprint, spec in commits:
        reading = None if spec is None else recorded_reading(spec)
        metadata = encode_fingerprints({(start, 1): fingerprint}, reading=reading)
        delta.append_arrow(pa.table({"n": [1]}), path, user_metadata=metadata)
    record = ExtractionRecord("readings", start, 1, "print", 3, (), 1, "run", logbook.DECIDED, reading=recorded_reading(COMMA))
    run = SimpleNamespace(spec=COMMA, path=lambda _: path)
    assert find_written_again(run, [record]) == ({start} if written_again else set())
    has_other_content = bool(commits) and commits[-1][0] == "other"
    assert find_written_again(run, [replace(record, reading=None)]) == ({start} if has_other_content else set())


FIXED = {"kind": "files", "path": "readings/{window:%Y-%m-%d}.txt", "format": "fixed"}
SENSOR, HOUR = {"name": "sensor", "width": 5}, {"name": "hour", "width": 2}


@pytest.mark.parametrize(
    ("fields", "written_again"),
    [
        ([{"name": "sensor", "start": 1, "width": 5}, {"name": "hour", "start": 6, "width": 2}], False),
        ([{"name": "hour", "start": 6, "width": 2}, {"name": "sensor", "start": 1, "width": 5}], False),
        ([HOUR, SENSOR], True),
    ],
)
def test_keys_in_another_spelling_are_the_same_keys(tmp_path, fields, written_again):
    """The fields of a line, by their starts instead of one after the other, were committed by a run that was killed."""
    start, path = window(1).start, str(tmp_path / "bronze")
    spec, other = (readings(source={**FIXED, "fields": some}) for some in ([SENSOR, HOUR], fields))
    delta.append_arrow(pa.table({"n": [0]}), path)
    metadata = encode_fingerprints({(start, 1): "print"}, reading=recorded_reading(other))
    delta.append_arrow(pa.table({"n": [1]}), path, user_metadata=metadata)
    record = ExtractionRecord("readings", start, 1, "print", 3, (), 1, "run", logbook.DECIDED, reading=recorded_reading(spec))
    run = SimpleNamespace(spec=spec, path=lambda _: path)
    assert find_written_again(run, [record]) == ({start} if written_again else set())
