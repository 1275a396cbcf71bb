"""The user metadata of a commit: what of a decision can be restored from it.

Belongs here: a decision there and back. Does not: restoring a log (operations/test_restore_logs).
"""

from dataclasses import fields, replace
from datetime import UTC, datetime

from lakehouse_assets.contracts.decision import Counts, Decision, Reason
from lakehouse_assets.storage.commit_metadata import (
    WITHOUT_MESSAGE,
    decode_decisions,
    decode_fingerprints,
    decode_positions,
    decode_reading,
    encode_decisions,
    encode_fingerprints,
)

AT = datetime(2024, 6, 1, 12, 30, tzinfo=UTC)
REASON = Reason("value_in_range", "critical", "failed", "rows", 3, "3 of 9 rows fail")
DECISION = Decision(
    "readings", AT, 2, 7, "released", "published_with_warnings", Counts(9, 5, 1, 2, 1), (REASON,), "hash", '{"rules": 1}', 4, 6,
    "run", AT, 0.25, True, ("drift",), "ann", "it is true", "request-state", "earlier", {"silver_sites": 3}, ("LGA",),
    {"new": "int"}, ({"check": "a"},), {"status": "calibrated"}, ({"feature": "value"},), 5, AT, "1f2e3d4c 1 2",
    {"silver_sites": "an-id 0"},
)  # fmt: skip
# Evidence, profiles and marks of later commits are not stored; a message may quote what arrived.
LOST = {
    "recomputed": None, "checks": (), "drift": None, "profiles": (), "silver_version": None, "applied_at": None,
    "input_tables": {}, "reasons": (replace(REASON, message=WITHOUT_MESSAGE),),
}  # fmt: skip


def test_the_example_has_a_value_for_every_field():
    empty = [field.name for field in fields(Decision) if getattr(DECISION, field.name) in (None, (), {}, "", False)]
    assert empty == []


def test_a_commit_restores_every_field_but_those_named():
    (restored,) = decode_decisions(encode_decisions("silver", [DECISION], [DECISION]), "readings")
    assert restored == replace(DECISION, **LOST)


def test_another_programs_text_restores_nothing():
    for text in (None, "", "{}", "[]", '{"log": "x"}', '{"log": "eJw="}', '{"reading": "x"}', '{"reading": 1}'):
        assert decode_decisions(text, "readings") == []
        assert decode_fingerprints(text) == decode_positions(text) == {}
        assert decode_reading(text) is None


def test_a_commit_of_bronze_restores_its_fingerprints_positions_and_keys_of_the_source():
    prints, positions = {(AT, 1): "one", (AT, 2): "two"}, {(AT, 2): "4"}
    text = encode_fingerprints(prints, positions, '{"format": "csv"}')
    assert (decode_fingerprints(text), decode_positions(text), decode_reading(text)) == (
        prints, positions, '{"format": "csv"}'
    )  # fmt: skip
    assert decode_reading(encode_fingerprints(prints)) is None
