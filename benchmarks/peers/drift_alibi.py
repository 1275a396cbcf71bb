"""alibi-detect: `KSDrift` with all rows of the baseline as reference, and by default p < 0.05, corrected by Bonferroni.

The score is the largest KS distance of a column, which orders batches of one size as the least p-value does but never rounds
to zero.
"""

from alibi_detect.cd import KSDrift

from benchmarks.peers.drift_served import COLUMNS, Floats, Said, serve


def judge(baseline: Floats, batches: Floats) -> dict[str, Said]:
    """One detector for all batches: it keeps the reference as it was given."""
    detector, said = KSDrift(baseline.reshape(-1, len(COLUMNS))), Said([], [])
    for batch in batches:
        told = detector.predict(batch)["data"]
        said.scores.append(float(told["distance"].max()))
        said.alarms.append(bool(told["is_drift"]))
    return {"alibi-detect, KSDrift": said}


if __name__ == "__main__":
    serve(judge)
