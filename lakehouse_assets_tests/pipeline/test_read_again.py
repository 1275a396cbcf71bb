"""A window in quarantine is read again once `source:` says how its file is written.

Belongs here: real files, runs and silver. Does not: which keys count (decisions/test_reading).
"""

import json
from pathlib import Path

from lakehouse_assets.storage import logs
from lakehouse_assets_tests.support import heal, land, readings, silver, window

FILES = {"kind": "files", "path": "readings/{window:%Y-%m-%d}.csv", "format": "csv"}


def numbers(settings) -> list[int]:
    return [record.extraction_seq for record in logs.extractions(settings, "readings")]


def test_a_json_array_is_read_as_a_document_once_it_is_declared(spark, settings) -> None:
    path = Path(settings.landing) / "readings" / "2024-01-01.json"
    path.parent.mkdir(parents=True)
    rows = [{"sensor": "a", "hour": hour, "value": 1.5, "updated": "2024-01-01T01:00:00Z"} for hour in (1, 2)]
    path.write_text(json.dumps(rows, indent=2))
    source = {"kind": "files", "path": "readings/{window:%Y-%m-%d}.json", "format": "json"}
    wrong, right = readings(source=source), readings(source={**source, "multiline": True})
    [decision] = heal(spark, settings, [1], wrong).current.values()
    assert decision.verdict == "quarantined"
    heal(spark, settings, [1], wrong)
    assert numbers(settings) == [1]
    [decision] = heal(spark, settings, [1], right).current.values()
    assert (decision.verdict, decision.extraction_seq, decision.counts.rows_published) == ("published", 2, 2)
    assert [row["hour"] for row in silver(settings)] == [1, 2]
    # The first extraction is superseded, and nothing is read or decided a third time.
    number = max(d.number for d in logs.decisions(settings, "readings"))
    heal(spark, settings, [1], right)
    assert (numbers(settings), max(d.number for d in logs.decisions(settings, "readings"))) == ([1, 2], number)
    [first] = [d for d in logs.decisions(settings, "readings") if d.extraction_seq == 1 and d.superseded_by]
    assert first.superseded_by == decision.decision_id


def test_only_quarantined_windows_are_read_by_another_delimiter(spark, settings) -> None:
    land(settings, 1, ["a,1,1.5,2024-01-01T01:00:00Z"])
    land(settings, 2, ["b;2;2.5;2024-01-02T01:00:00Z"], header="sensor;hour;value;updated")
    wrong = readings(source=FILES)
    assert [d.verdict for d in heal(spark, settings, [1, 2], wrong).current.values()] == ["published", "quarantined"]
    current = heal(spark, settings, [1, 2], readings(source={**FILES, "delimiter": ";"})).current
    assert current[window(2)].verdict == "published"
    assert sorted(row["sensor"] for row in silver(settings)) == ["a", "b"]
    assert sorted((r.p_extracted_at.day, r.extraction_seq) for r in logs.extractions(settings, "readings")) == [
        (1, 1), (2, 1), (2, 2)
    ]  # fmt: skip
