"""A redelivery that lacks keys waits for the other windows of its run, and the contract changes meanwhile: laws 1 to 3 hold.

Belongs here: a postponed redelivery beside a change of the contract. Does not: redeliveries alone (test_redeliveries), or what
a change of the contract means (pipeline/test_schema).
"""

import pytest

from lakehouse_assets_tests.laws.test_redeliveries import (
    current_decision,
    law_two,
    rows,
    same_after_rebuild,
    same_when_replayed,
    table,
)
from lakehouse_assets_tests.support import heal, land, silver

PLAIN = "sensor,hour,value,updated"
EVOLVING = {"schema": {"new_columns": "evolve"}}
# As declared before the run, and for it. Another expression changes what silver's rows mean.
COLUMNS = {"sensor": "string", "hour": "int", "value": "double", "updated": "timestamp"}
DOUBLED = {**COLUMNS, "value": {"type": "double", "expr": "value * 2"}}


def with_note(lines: list[str]) -> list[str]:
    return [f"{line},n-{line[0]}" for line in lines]


@pytest.mark.exhaustive(seconds=30)
@pytest.mark.parametrize("changing", ["the other window", "the redelivery", "the YAML", "both"])
def test_a_contract_may_change_in_the_run_that_postpones_a_redelivery(changing, spark, settings):
    """The keys of day 1 move to day 2: day 1 comes again without them, and is judged after day 2."""
    land(settings, 1, rows(1, dict.fromkeys("abcd", 1)))
    heal(spark, settings, [1], table(**EVOLVING))
    spec = table(**EVOLVING, columns=DOUBLED) if changing == "the YAML" else table(**EVOLVING)
    for day, name, keys in ((1, "the redelivery", "z"), (2, "the other window", "abcd")):
        lines, changes = rows(day, dict.fromkeys(keys, day + 1)), changing in (name, "both")
        land(settings, day, with_note(lines) if changes else lines, f"{PLAIN},note" if changes else PLAIN)
    heal(spark, settings, [1, 2], spec)
    redelivered, moved = current_decision(settings, 1, 2), current_decision(settings, 2, 1)
    assert redelivered.accepted and moved.accepted
    assert redelivered.number > moved.number, "judged after the window that has its keys"
    factor = 2.0 if changing == "the YAML" else 1.0
    assert {row["sensor"]: row["value"] for row in silver(settings)} == {**dict.fromkeys("abcd", 3 * factor), "z": 2 * factor}
    notes = {"the other window": "abcd", "the redelivery": "z", "both": "abcdz"}.get(changing, "")
    assert {row["sensor"] for row in silver(settings) if row.get("note")} == set(notes)
    assert all(row["note"] == f"n-{row['sensor']}" for row in silver(settings) if row.get("note"))
    same_after_rebuild(spark, settings, spec)
    same_when_replayed(spark, settings, spec)
    law_two(settings)


def test_a_contract_change_that_is_quarantined_leaves_the_postponed_redelivery_its_keys(spark, settings):
    """Day 2 has the keys and a column that the contract refuses: day 1 would lose them, and is quarantined as well."""
    spec = table(schema={"new_columns": "quarantine"})
    land(settings, 1, rows(1, dict.fromkeys("abcd", 1)))
    heal(spark, settings, [1], spec)
    land(settings, 1, rows(1, {"z": 2}))
    land(settings, 2, with_note(rows(2, dict.fromkeys("abcd", 3))), f"{PLAIN},note")
    heal(spark, settings, [1, 2], spec)
    assert [current_decision(settings, day, seq).verdict for day, seq in ((1, 2), (2, 1))] == ["quarantined"] * 2
    assert {row["sensor"]: row["value"] for row in silver(settings)} == dict.fromkeys("abcd", 1.0)
    same_after_rebuild(spark, settings, spec)
    law_two(settings)
