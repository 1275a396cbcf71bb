"""The comparison of two lakes: what differs between two plays of one version is left out. No Spark.

Belongs here: rows of two logs and the lines of `compare`. Does not: playing the stories.
"""

import json

import pyarrow as pa
from deltalake import write_deltalake

from scripts.compare_lakes import compare


def write_decision(play, inputs):
    log = play / "demo" / "lake" / "ops" / "decisions"
    log.mkdir(parents=True)
    row = {"decision_id": "a", "table": "gold_all", "number": 1, "inputs": json.dumps(inputs)}
    write_deltalake(str(log), pa.Table.from_pylist([row]))
    return play


def test_random_ids_of_golds_inputs_are_no_difference_and_their_versions_are(tmp_path):
    inputs = {"versions": {"silver_readings": 3}, "recomputed": None}
    first, second, other = (
        write_decision(
            tmp_path / name, {**inputs, "versions": {"silver_readings": version}, "tables": {"silver_readings": id_}}
        )
        for name, version, id_ in (("first", 3, "8f0c"), ("second", 3, "27ab"), ("other", 4, "27ab"))
    )
    assert compare(first, second) == []
    assert [line.partition("\n")[0] for line in compare(first, other)] == [
        "demo/ops/decisions: 1 row(s) only before",
        "demo/ops/decisions: 1 row(s) only after",
    ]
