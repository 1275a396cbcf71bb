"""A part of a lake is older or newer than the rest of it, or cannot be written: what is said, and that its way out ends.

Belongs here: what needs no Spark. Does not: damage on a lake that Spark made (test_evidence).
"""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse_assets.contracts.decision import Counts, Decision
from lakehouse_assets.decisions.drift.profiles import Profile
from lakehouse_assets.decisions.evidence.findings import Inventory, LoggedEvidence
from lakehouse_assets.errors import DiskError
from lakehouse_assets.operations.restore_logs import AcceptedLoss, restore_logs
from lakehouse_assets.pipeline import evidence
from lakehouse_assets.pipeline.evidence import findings_of
from lakehouse_assets.storage import delta, log_rows
from lakehouse_assets.storage.baseline import write_profiles
from lakehouse_assets_tests.support import readings, rows_of, runner

SPEC = readings(drift={"features": ["value"]})
AT = datetime(2024, 6, 1, tzinfo=UTC)


def decision(number: int) -> Decision:
    fields = {"verdict": "quarantined", "reasons": (), "ruleset_hash": "h", "ruleset": "{}", "bronze_version": 0}
    fields |= {"baseline_version": 0, "run_id": "run", "decided_at": AT, "applied_at": AT, "teaches": True}
    fields["profiles"] = (Profile("value", None, 3).to_dict(),)
    return Decision(
        "readings", datetime(2024, 1, number, tzinfo=UTC), 1, number, "judged", counts=Counts(0, 0, 0, 0, 0), **fields
    )


def test_a_baseline_that_is_newer_than_the_lake(settings):
    """Everything but the baseline was put back: only it knows of a decision, so that no commit brings that one back."""
    write_profiles(settings, "readings", [decision(1)])
    for _ in range(2):
        (finding,) = findings_of(settings, SPEC)
        assert finding.layer == "ops/decisions"
        assert "profiles in baseline/readings name" in finding.message
        assert "lakehouse verify --table readings --restore-logs" in finding.mend
    assert restore_logs(runner(None, settings, SPEC)).forgotten == 1
    assert findings_of(settings, SPEC) == []
    assert rows_of(settings.path("baseline", "readings")) == []
    assert restore_logs(runner(None, settings, SPEC)).forgotten == 0


def strange(named=()) -> tuple[LoggedEvidence, Inventory]:
    return LoggedEvidence(), Inventory(named=named)


def test_a_change_during_the_comparison_is_compared_again_under_the_lock(settings, monkeypatch):
    """A file that another process has just removed is no damage, and neither is what is between two of its commits."""
    for first in (FileNotFoundError("x.parquet"), strange(["between two commits"])):
        answers = [first, strange()]

        def measure(*_, answers=answers, **__):
            answer = answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(evidence, "measure_evidence", measure)
        assert findings_of(settings, SPEC) == []
        assert not answers


def test_a_copy_that_cannot_be_written_is_compared_all_the_same(settings, monkeypatch):
    def refused(*_, **__):
        raise OSError(30, "Read-only file system", "_locks")

    monkeypatch.setattr(evidence, "measure_evidence", lambda *_, **__: strange(["lost"]))
    monkeypatch.setattr("pathlib.Path.mkdir", refused)
    (finding,) = findings_of(settings, SPEC)
    assert finding.kind == "lost"
    with pytest.raises(DiskError, match="Read-only file system"):
        log_rows.DECISIONS.append(settings, [])
    assert not Path(settings.root).exists()


def test_decisions_missing_from_every_commit_do_not_stop_the_table(settings):
    """A lake of before, whose commits name decisions and keep none: restored as far as can be, it must not stop for ever."""
    rows = pa.table(
        {"decision_id": ["old"], "p_extracted_at": pa.array([AT], pa.timestamp("us", "UTC")), "extraction_seq": [1]}
    )
    delta.append_arrow(rows, settings.path("quarantine", "readings"))
    delta.append_arrow(rows, settings.path("silver", "readings"), user_metadata=delta.commit_metadata_of(["older"], "silver"))
    run = runner(None, settings, SPEC)
    assert restore_logs(run).given_up == 0
    (finding,) = findings_of(settings, SPEC)
    assert "--restore-logs --accept-loss" in finding.mend
    assert restore_logs(run, AcceptedLoss("ann", "the backup is gone")).given_up == 2
    assert findings_of(settings, SPEC) == []
    assert rows_of(settings.path("quarantine", "readings")) == []
    assert delta.properties(settings.path("silver", "readings"))[delta.MEANING] == "none"
    assert restore_logs(run, AcceptedLoss("ann", "the backup is gone")).given_up == 0
