"""The naive method: a histogram of 20 bins as the baseline, and a two-sample KS test against values drawn from its midpoints.

As many values are drawn as the batch has rows, and a column has drifted where p < 0.05; nothing corrects for several columns.
It needs SciPy alone and runs with the project.
"""

import numpy as np
from scipy.stats import ks_2samp

from benchmarks.peers.drift_peer_server import COLUMNS, Floats, PeerAnswer, serve

BINS, LEVEL = 20, 0.05


def judge(baseline: Floats, batches: Floats) -> dict[str, PeerAnswer]:
    """The score is the largest KS distance of a column."""
    rng, answer = np.random.default_rng(0), PeerAnswer([], [])
    columns = []
    for column in baseline.reshape(-1, len(COLUMNS)).T:
        counts, edges = np.histogram(column, BINS)
        columns.append(((edges[:-1] + edges[1:]) / 2, counts / counts.sum()))
    for batch in batches:
        tests = [
            ks_2samp(values, rng.choice(midpoints, values.size, p=shares))
            for values, (midpoints, shares) in zip(batch.T, columns, strict=True)
        ]
        answer.scores.append(float(max(test.statistic for test in tests)))
        answer.alarms.append(bool(min(test.pvalue for test in tests) < LEVEL))
    return {"naive, histogram and KS": answer}


if __name__ == "__main__":
    serve(judge)
