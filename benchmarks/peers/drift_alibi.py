"""alibi-detect: `KSDrift` with all rows of the baseline as reference, and by default p < 0.05, corrected by Bonferroni.

The score is the largest KS distance of a column, which orders batches of one size as the least p-value does but never rounds
to zero.
"""

from alibi_detect.cd import KSDrift

from benchmarks.peers.drift_peer_server import COLUMNS, Floats, PeerAnswer, serve


def judge(baseline: Floats, batches: Floats) -> dict[str, PeerAnswer]:
    """One detector for all batches: it keeps the reference as it was given."""
    detector, answer = KSDrift(baseline.reshape(-1, len(COLUMNS))), PeerAnswer([], [])
    for batch in batches:
        prediction = detector.predict(batch)["data"]
        answer.scores.append(float(prediction["distance"].max()))
        answer.alarms.append(bool(prediction["is_drift"]))
    return {"alibi-detect, KSDrift": answer}


if __name__ == "__main__":
    serve(judge)
