"""How a table's schema came to be, from Delta's log: no JVM.

Belongs here: the versions at which columns changed, and columns that a contract no longer reads. Does not: the diff of a
contract (test_cli_schema).
"""

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.decisions.schema.evolution import effective_table
from lakehouse_assets.queries.earlier_contracts import describe_other_marks, unread_columns
from lakehouse_assets.queries.schema_history import read_schema_history
from lakehouse_assets.queries.schema_status import read_schema_status
from lakehouse_assets.storage import delta, logs
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.support import readings, window

KEYED = {"key": ["sensor"], "last_modified": None, "checks": []}


def test_the_versions_at_which_columns_changed_and_no_other(tmp_path, monkeypatch):
    path, number = str(tmp_path / "table"), pa.array([1], pa.int32())
    write_deltalake(path, pa.table({"a": number}))
    write_deltalake(path, pa.table({"a": number, "b": ["x"]}), mode="append", schema_mode="merge")
    write_deltalake(path, pa.table({"a": number, "b": ["x"]}), mode="append")
    write_deltalake(path, pa.table({"b": pa.array([1], pa.int64())}), mode="overwrite", schema_mode="overwrite")
    versions = [(v.version, v.changes) for v in read_schema_history(path)]
    assert versions == [(0, "1 columns"), (1, "+ b string"), (3, "- a; b: string → bigint")]
    assert [v.version for v in read_schema_history(path, 1)] == [3]
    # Of a long log only the newest commits are looked at.
    monkeypatch.setattr(delta, "COMMITS_READ", 2)
    assert [(v.version, v.changes) for v in read_schema_history(path)] == [(3, "1 columns")]
    assert read_schema_history(str(tmp_path / "nothing")) == []


@pytest.mark.parametrize(
    ("declared", "former", "arrived", "advised"),
    [
        ("State", ["Status"], "Status", "[State, Status]"),
        ("State", ["Status"], "STATUS", "[State, Status]"),
        ("State", ["state"], "state", None),
        ("State", ["STATUS", "Status"], "status", "[State, Status]"),
        ("State", ["aged", "Status"], "aged", "[State, Status, aged]"),
        ("State", ["Status"], "STATE", None),
        ("State", ["Status"], "Other", None),
    ],
)
def test_former_names_of_a_column_whatever_their_letter_case(declared, former, arrived, advised):
    """``former``: the names in the contracts of decisions, the newest last."""
    rulesets = [json.dumps({"columns": {"status": {"type": "string", "from": name}}}) for name in former]
    decisions = [logbook.decided(number, ruleset=ruleset) for number, ruleset in enumerate(rulesets, 1)]
    contract = effective_table(
        readings(columns={"sensor": "string", "status": {"type": "string", "from": declared}}, **KEYED), []
    )
    at = datetime(2024, 6, 1, tzinfo=UTC)
    record = ExtractionRecord("readings", window(1).start, 1, "print", 3, ("sensor", arrived), 0, "run", at, (), {})
    texts = unread_columns(contract, decisions, [record])
    assert list(texts) == (["status"] if advised else [])
    assert all(text.endswith(f"declare `from: {advised}`") for text in texts.values())


def test_columns_that_arrived_in_other_letter_case_have_values_in_bronze(settings):
    """`Note` came as `note`, `Kind` by the name that an earlier contract read; `by_hand` was never in a source."""
    names = ["sensor", "Note", "Kind", "by_hand"]
    write_deltalake(settings.path("silver", "readings"), pa.table({name: ["x"] for name in names}))
    ruleset = json.dumps({"columns": {"kind": {"type": "string", "from": "Sort"}}})
    logbook.write(settings, [logbook.decided(1, ruleset=ruleset, verdict="published", p_extracted_at=window(1).start)])
    arrived = ("SENSOR", "STATUS", "note", "SORT")
    at = datetime(2024, 6, 1, tzinfo=UTC)
    logs.record_extractions(settings, [ExtractionRecord("readings", window(1).start, 1, "print", 3, arrived, 0, "run", at)])
    status = read_schema_status(
        settings, readings(columns={"sensor": "string", "status": {"type": "string", "from": "Status"}, "n": "int"}, **KEYED)
    )
    assert (status.filled, status.foreign) == ({"sensor", "status"}, {"by_hand"})


@pytest.mark.parametrize(
    ("kind", "before", "count"),
    [
        ("double", {}, "2 accepted window(s) with 4 rows"),
        ("double", {"decimal": ",", "thousands": "."}, "2 accepted window(s) with 4 rows"),
        ("double", {"decimal": ","}, ""),
        ("string", {}, ""),
    ],
)
def test_a_plan_counts_windows_that_were_read_with_other_number_marks(kind, before, count):
    source = {"kind": "files", "path": "readings/{window:%Y-%m-%d}.csv", "format": "csv"}
    columns = {"sensor": "string", "value": kind}
    contract = effective_table(readings(columns=columns, source={**source, "decimal": ","}, **KEYED), [])
    ruleset = effective_table(readings(columns=columns, source={**source, **before}, **KEYED), []).ruleset()
    decisions = [logbook.decided(number, ruleset=ruleset) for number in (1, 2)]
    text = describe_other_marks(contract, decisions)
    assert text.startswith(count)
    assert ("were judged with another" in text and "if silver was made anew since, their numbers stay" in text) == bool(count)
    assert bool(text) == bool(count)
