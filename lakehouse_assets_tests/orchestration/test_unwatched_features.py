"""What `check validate` says of features that drift does not watch. Belongs here: notes from a log. Does not: finding them."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.orchestration.assets.written_table import WrittenTable
from lakehouse_assets.orchestration.unwatched_features import unwatched_features
from lakehouse_assets.settings import Settings
from lakehouse_assets_tests.logbook import decided, write
from lakehouse_assets_tests.support import readings

WHY = "its windows differ by so much that no shift up to a standard deviation would be noticed"
WAY = "give it an expression that is stable, strata (by), or a season"
COLUMNS = {"sensor": "string", "hour": "int", "value": "double", "updated": "timestamp"}


def table() -> WrittenTable:
    """Readings with two watched columns."""
    drift = {"features": ["value", {"name": "level", "expr": "value - 1", "by": "sensor"}]}
    return WrittenTable(readings(drift=drift), Path("readings"))


def judged(number: int, *unwatched: list[str | None], p_value: float | None = 0.4):
    return replace(decided(number), drift={"unwatched": [*unwatched]}, drift_p_value=p_value)


def test_features_of_the_newest_verdict_that_are_not_watched_are_notes(settings):
    # The last window had nothing to be compared with: it says nothing.
    write(settings, [judged(1), judged(2, ["value", None], ["level", "a"], ["level", "b"]), judged(3, p_value=None)])
    assert unwatched_features([table()], settings) == [
        f"defs.yaml:1: drift.features.0: value is not watched (window 2024-01-02T00:00Z): {WHY}; {WAY}",
        f"defs.yaml:1: drift.features.1: level at a, b is not watched (window 2024-01-02T00:00Z): {WHY}; {WAY}",
    ]
    write(settings, [judged(4, ["value", None])])
    (note,) = unwatched_features([table()], settings)
    assert "value is not watched (window 2024-01-04" in note


def test_where_columns_are_personal_no_stratum_is_named(settings):
    write(settings, [judged(1, ["value", "Ann"])])
    later = readings(drift={"features": ["value"]}, columns=COLUMNS | {"sensor": {"type": "string", "pii": True}})
    (note,) = unwatched_features([WrittenTable(later, Path("readings"))], settings)
    assert ": value is not watched" in note


@pytest.mark.parametrize("spec", [readings(), table().spec])
def test_there_are_no_notes_without_drift_or_without_a_lake(settings, spec: TableSpec):
    assert unwatched_features([WrittenTable(spec, Path("readings"))], settings) == []


@pytest.mark.parametrize(("files", "text"), [("_delta_log/*.json", "{"), ("**/*.parquet", "PAR1")])
def test_a_lake_that_cannot_be_read_is_a_note(settings: Settings, files, text):
    write(settings, [judged(1, ["value", None])])
    for file in (Path(settings.root) / "ops" / "decisions").glob(files):
        file.write_text(text)
    (note,) = unwatched_features([table()], settings)
    assert re.fullmatch(r"readings: the lake at .* cannot be read \(\w+\): which features .* is not known", note)


def test_without_keys_of_its_store_the_lake_is_a_note(settings: Settings, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    (note,) = unwatched_features([table()], settings.model_copy(update={"root": "s3a://nobody/lake"}))
    assert note.startswith("readings: the lake at s3a://nobody/lake cannot be read (")
