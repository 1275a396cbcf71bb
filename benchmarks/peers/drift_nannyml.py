"""NannyML: univariate drift (Jensen-Shannon distance) and the reconstruction error of a PCA, both as they are by default.

Chunks are windows: the baseline's give each statistic's mean and deviation, and more than three deviations is an alert. The
score is the distance from that mean beside the distance of the alert's threshold.
"""

import os

os.environ["NML_DISABLE_USAGE_LOGGING"] = "1"
import nannyml
import numpy as np
import pandas as pd

from benchmarks.peers.drift_peer_server import COLUMNS, Floats, PeerAnswer, serve


def judge(baseline: Floats, batches: Floats) -> dict[str, PeerAnswer]:
    """All batches are chunks of one call: each is compared with the reference alone."""

    def rows(values: Floats) -> pd.DataFrame:
        return pd.DataFrame(values.reshape(-1, len(COLUMNS)), columns=COLUMNS)

    def answer_of(calculator, measures: list[tuple[str, ...]]) -> PeerAnswer:
        results = calculator.fit(rows(baseline)).calculate(rows(batches)).to_df()
        period = results["chunk", "period"] if measures[0][0] == "reconstruction_error" else results["chunk", "chunk", "period"]
        reference, analysis = results[period == "reference"], results[period == "analysis"]
        scores, alarms = np.zeros(len(batches)), np.zeros(len(batches), bool)
        for measure in measures:
            mean, upper = reference[(*measure, "value")].mean(), analysis[(*measure, "upper_threshold")]
            way = (analysis[(*measure, "value")] - mean) / (upper - mean)
            two_sided = analysis[(*measure, "lower_threshold")].notna().all()
            scores = np.maximum(scores, (way.abs() if two_sided else way).to_numpy(float))
            alarms |= analysis[(*measure, "alert")].to_numpy(bool)
        return PeerAnswer(scores.tolist(), alarms.tolist())

    chunk = {"column_names": COLUMNS, "chunk_size": batches.shape[1]}
    univariate = nannyml.UnivariateDriftCalculator(**chunk)
    multivariate = nannyml.DataReconstructionDriftCalculator(**chunk)
    return {
        "NannyML, univariate": answer_of(univariate, [(column, "jensen_shannon") for column in COLUMNS]),
        "NannyML, PCA reconstruction": answer_of(multivariate, [("reconstruction_error",)]),
    }


if __name__ == "__main__":
    serve(judge)
