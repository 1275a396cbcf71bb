"""Evidently: its preset for data drift over all columns, as its documentation starts with it.

More than 1,000 rows of reference are compared by the Wasserstein distance in deviations, and a column has drifted from 0.1 on;
the data set has where half of its columns have. The reference is all rows of the baseline.
"""

import os

os.environ["DO_NOT_TRACK"] = "1"
import pandas as pd
from evidently import DataDefinition, Dataset, Report
from evidently.presets import DataDriftPreset

from benchmarks.peers.drift_peer_server import COLUMNS, Floats, PeerAnswer, serve


def judge(baseline: Floats, batches: Floats) -> dict[str, PeerAnswer]:
    """The score is the largest distance of a column."""
    definition = DataDefinition(numerical_columns=COLUMNS)

    def rows(values: Floats) -> Dataset:
        return Dataset.from_pandas(pd.DataFrame(values.reshape(-1, len(COLUMNS)), columns=COLUMNS), data_definition=definition)

    reference, report = rows(baseline), Report([DataDriftPreset()], include_tests=True)
    columns, data_set = PeerAnswer([], []), PeerAnswer([], [])
    for batch in batches:
        document = report.run(rows(batch), reference).dict()
        metrics = {
            kind: [m for m in document["metrics"] if m["metric_name"].startswith(kind)] for kind in ("Value", "DriftedCol")
        }
        failed = {test["id"] for test in document["tests"] if test["status"] == "FAIL"}
        if len(metrics["Value"]) != len(COLUMNS) or len(document["tests"]) != len(COLUMNS) + 1:
            raise ValueError(f"not one test of each column and one of all: {document}")
        columns.scores.append(max(float(metric["value"]) for metric in metrics["Value"]))
        columns.alarms.append("drift" in failed)
        data_set.alarms.append("lt" in failed)
    return {"Evidently, any column": columns, "Evidently, half the columns": data_set}


if __name__ == "__main__":
    serve(judge)
