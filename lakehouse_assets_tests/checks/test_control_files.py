"""What may stand in a control file, and where one may be declared.

Belongs here: text → figures or a clear refusal. Does not: comparing (spec), or files on a disk (sources).
"""

import pytest
from pydantic import ValidationError

from lakehouse_assets.checks.control import MAX_BYTES, ControlTotals, read_totals
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets_tests.sources.source_files import csv_source
from lakehouse_assets_tests.support import readings


def test_figures() -> None:
    totals = read_totals('\ufeff{"rows": 24, "sum of é": -1.5e3, "max": null}\n'.encode())
    assert dict(totals.figures) == {"rows": 24.0, "sum of é": -1500.0, "max": None}
    assert ControlTotals.from_text(totals.as_text()) == totals
    assert read_totals(b"{}").figures == {}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not JSON"),
        (b"24", "not a JSON object"),
        (b'[{"rows": 24}]', "not a JSON object"),
        (b'{"rows": "24"}', "'rows' is no number"),
        (b'{"rows": true}', "'rows' is no number"),
        (b'{"rows": {"a": 1}}', "'rows' is no number"),
        (b'{"rows": NaN}', "NaN is no number"),
        (b'{"rows": 1e999}', "too large"),
        (b'{"rows": ' + b"9" * 400 + b"}", "too large"),
        (b'{"rows": 1, "rows": 2}', "twice"),
        (b'{"rows": \xff}', "not JSON"),
        (b"[" * 50_000, "not JSON"),
        (b" " * (MAX_BYTES + 1), "more than 64 KB"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_no_figures(content: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_totals(content)


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"control": "/{window:%Y-%m-%d}.json"}, "is absolute"),
        ({"control": "../{window:%Y-%m-%d}.json"}, "leaves the landing folder"),
        ({"control": "t/all.json"}, "has no {window"),
        ({"control": "t/{window:%d}.json"}, "control: .* does not name one window"),
        ({"control": "t/{window:%Y-%m-%d}*.json"}, "has a glob"),
        ({"control": "t/{window:%Y-%m-%d}.csv"}, "is also one of `path`"),
        ({"control": "t/{window:%Y-%m-%d}.control.csv", "path": "t/{window:%Y-%m-%d}*.csv"}, "is also one of `path`"),
    ],
)
def test_patterns_that_are_refused(parameters: dict, why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        csv_source(**parameters)


def test_each_window_has_a_control_file_of_its_own() -> None:
    source = csv_source(path="t/{window:%Y-%m-%dT%H}.csv", control="t/{window:%Y-%m-%d}.json")
    with pytest.raises(ValueError, match=r"source\.control: .* has no %H"):
        source.refuse_extraction("hourly", "append", None)


def test_a_control_total_needs_a_source_with_controls() -> None:
    total = {"check": "control_total", "figure": "rows"}
    with pytest.raises(ValidationError, match=r"\(control_total_rows\): the source reports no totals; declare source.control"):
        readings(checks=[total])
    jdbc = {"kind": "jdbc", "connection": "SHOP", "table": "t", "modified": "at", "control": {"total": "sum(value)"}}
    with pytest.raises(ValidationError, match=r"source\.control has no 'rows'; there are total"):
        readings(checks=[total], source=jdbc)
    assert (
        readings(checks=[{**total, "figure": "total", "measure": "sum(value)"}], source=jdbc).checks[0].id
        == "control_total_total"
    )
    with pytest.raises(ValidationError, match="gold has no source"):
        GoldSpec.model_validate({"name": "g", "sql": "g.sql", "key": ["a"], "checks": [total]})
    with pytest.raises(ValidationError, match="no column 'no' is declared"):
        readings(checks=[{**total, "figure": "total", "measure": "sum(no)"}], source=jdbc)
