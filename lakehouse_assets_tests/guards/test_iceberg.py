"""Guards of Iceberg tables whose metadata is made by hand: the next batch, another table, and keys that are refused. No JVM.

Belongs here: metadata files → the guard's next batch. Does not: what a snapshot did (storage/test_foreign_iceberg).
"""

import pytest

from lakehouse_assets.contracts.decision import Counts, Decision, ExtractionRecord
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.guards.observed_table import GuardState, observe
from lakehouse_assets.settings import Settings
from lakehouse_assets_tests.storage.test_foreign_iceberg import snapshot, write


def guard(path, /, **changes):
    return GuardSpec.model_validate({"name": "orders", "path": str(path), "format": "iceberg", "start": 0} | changes)


def test_a_guard_observes_it_as_it_does_a_delta_table(tmp_path):
    write(tmp_path, [snapshot(1), snapshot(2, 1)])
    settings, state = Settings(root=str(tmp_path / "lake"), landing="/", dagster_home=tmp_path), GuardState([], {})
    observation = observe(guard(tmp_path), settings, state, passed=1)
    assert observation.batch is not None
    assert (observation.batch.version, observation.batch.rows) == (2, "added")
    assert observation.schema.types["amount"] == "decimal(9,2)"
    newest = observe(guard(tmp_path, start=None), settings, state)
    assert newest.batch is not None and (newest.batch.version, newest.batch.rows) == (2, "table")


def test_another_table_of_the_same_name_is_noticed_though_it_has_more_versions(tmp_path):
    settings = Settings(root=str(tmp_path / "lake"), landing="/", dagster_home=tmp_path)
    old, new = tmp_path / "old", tmp_path / "new"
    write(old, [snapshot(1), snapshot(2, 1)])
    first = observe(guard(old), settings, GuardState([], {}), passed=1)
    assert first.batch is not None
    fingerprint = f"{first.schema.table_id}@{first.digest}"
    judged = state_of(2, first.batch.window, fingerprint)
    assert observe(guard(old), settings, judged).batch is None
    write(new, [snapshot(1), snapshot(2, 1, added_records=5), snapshot(3, 2)], **{"table-uuid": "u-2"})
    batch = observe(guard(new), settings, judged).batch
    assert batch is not None
    assert (batch.version, batch.rows, batch.event) == (3, "table", "replaced")


def state_of(version, window, fingerprint):
    """A guard that has judged this version."""
    decision = Decision(
        table="orders", p_extracted_at=window, extraction_seq=1, number=1, kind="judged", verdict="published",
        counts=Counts(1, 1), reasons=(), ruleset_hash="", ruleset="{}", bronze_version=version, baseline_version=None,
        run_id="r", decided_at=window, applied_at=window,
    )  # fmt: skip
    record = ExtractionRecord(
        table="orders", p_extracted_at=window, extraction_seq=1, fingerprint=fingerprint, rows=1, columns=(),
        bronze_version=version, run_id="r", extracted_at=window, position='{"names": {}}',
    )  # fmt: skip
    return GuardState([decision], {record.batch: record})


def test_windows_by_time_are_refused_and_a_name_in_a_catalog_is_not(tmp_path):
    with pytest.raises(ValueError, match="windows: the windows of an Iceberg table are its snapshots; remove `windows`"):
        guard(tmp_path, windows={"column": "at", "cadence": "daily"}, columns={"at": "date"}, start=None)
    assert guard("", table="ice.db.orders").is_of_catalog and not guard(tmp_path).is_of_catalog


def test_the_format_and_the_polls_are_no_rules(tmp_path):
    delta = GuardSpec.model_validate({"name": "orders", "path": "theirs"})
    assert guard("", table="ice.db.orders", poll_minutes=3).ruleset() == delta.ruleset()
    with pytest.raises(ValueError, match="poll_minutes: it is of Iceberg tables by their name in a catalog"):
        guard(tmp_path, poll_minutes=3)
