"""Which quarantined windows are read again, since `source:` reads files otherwise by now. Pure.

Belongs here: decisions and records made by hand. Does not: reading them (pipeline/test_read_again).
"""

import json
from typing import Any

import pytest

from lakehouse_assets.contracts.decision import Counts, ExtractionRecord
from lakehouse_assets.decisions.reading import windows_to_read_again
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.support import readings, window

FILES = {"kind": "files", "path": "readings/{window:%Y-%m-%d}.csv", "format": "csv"}
QUARANTINED = {"verdict": "quarantined", "counts": Counts(3, 0, 0, 3)}


def table(**source: Any):
    return readings(source=FILES | source)


def decision(number: int, spec, seq: int = 1, **changes: Any):
    batch = {"p_extracted_at": window(1).start, "extraction_seq": seq, "ruleset": spec.ruleset()}
    return logbook.decided(number, **{**QUARANTINED, **batch, **changes})


def again(today, *decisions, seq: int = 1, by=None) -> bool:
    """``by``: the table by whose keys its reading is on record."""
    reading = None if by is None else json.dumps(by.source.reading())
    record = ExtractionRecord("readings", window(1).start, seq, "print", 3, (), 1, "run", logbook.DECIDED, reading=reading)
    windows = windows_to_read_again(today, {window(1).start: record}, decisions)
    assert windows <= {window(1).start}
    return bool(windows)


FIELDS = [{"name": "sensor", "width": 4}, {"name": "hour", "width": 2}]
OTHERWISE = [
    {"multiline": True}, {"delimiter": ";"}, {"quote": "'"}, {"encoding": "iso-8859-1"}, {"format": "json"},
    {"format": "fixed", "fields": FIELDS},
]  # fmt: skip


@pytest.mark.parametrize("changes", OTHERWISE)
def test_another_way_of_reading_reads_quarantined_windows_again(changes):
    before, today = table(), table(**changes)
    assert again(today, decision(1, before)) and again(before, decision(1, today))
    # Once it was read so, it is not read again.
    assert not again(today, decision(1, before), decision(2, today, seq=2), seq=2)
    assert not again(today, decision(1, today))


def test_what_is_not_read_again():
    before, today = table(), table(delimiter=";")
    assert not again(today, decision(1, before, verdict="published", counts=Counts(3, 3)))
    assert not again(today, decision(1, before, verdict="published", counts=Counts(3, 2, 0, 1))), "good rows stay"
    assert not again(today, decision(1, before, verdict="discarded", counts=Counts(3, 0, 0, 0, 3)))
    assert not again(today, decision(1, before), seq=2), "nobody has judged its newest extraction"
    assert not again(today), "nor any of it"
    # These keys are no way of reading: silver applies them to bronze.
    assert not again(table(nulls=["-"], timezone="America/New_York"), decision(1, before))
    assert not again(today, decision(1, before, ruleset=logbook.RULES)), "it is not known how it was read"


def test_a_judgement_by_other_rules_is_no_other_read():
    before, today = table(), table(delimiter=";")
    assert again(today, decision(1, before), decision(2, today, kind="rejudged"))


def test_what_was_read_before_a_correction_and_judged_after_it_is_read_again():
    before, today = table(), table(delimiter=";")
    assert again(today, decision(1, today), by=before)
    assert again(today, by=before), "nobody has judged it"
    assert not again(today, by=today)
    assert not again(today, decision(1, before), by=today)


def test_keys_that_do_not_apply_to_the_format_make_no_other_read():
    written = {"delimiter": ";", "encoding": "iso-8859-1", "quote": "'"}
    parquet = table(format="parquet")
    recorded = json.dumps(json.loads(parquet.ruleset()) | {"source": {**FILES, "format": "parquet", **written}})
    assert not again(parquet, decision(1, parquet, ruleset=recorded))
    recorded = recorded.replace('"format": "parquet"', '"format": "csv"')
    assert again(table(), decision(1, table(), ruleset=recorded))


def test_fixed_fields_are_compared_with_recorded_ones():
    fixed = {"format": "fixed", "fields": FIELDS}
    wider = {"format": "fixed", "fields": [{"name": "sensor", "width": 5}, {"name": "hour", "width": 2}]}
    assert not again(table(**fixed), decision(1, table(**fixed)))
    assert again(table(**wider), decision(1, table(**fixed)))
    spelled = {
        "format": "fixed",
        "fields": [{"name": "hour", "start": 5, "width": 2}, {"name": "sensor", "start": 1, "width": 4}],
    }
    assert not again(table(**spelled), decision(1, table(**fixed))), "the fields are where they were"
