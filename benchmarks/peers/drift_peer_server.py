"""A peer's side, for drift: it reads baselines and batches from a folder and prints what its tool says of each batch.

Belongs here: files, answers, a trial. Does not: any tool. It needs NumPy alone, since it runs in the peers' environments.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
COLUMNS = ["a", "b", "c"]


class PeerAnswer(NamedTuple):
    """Of each batch: a score, larger where it is further off (empty: there is only a decision), and the tool's own decision."""

    scores: list[float]
    alarms: list[bool]


# Given a baseline (windows, rows, columns) and batches of the same form: what each way to use the tool says of each batch.
Judge = Callable[[Floats, Floats], dict[str, PeerAnswer]]


def serve(judge: Judge) -> None:
    """Answer a line of JSON for each file of the folder in the first argument: `{case, said: {way: [scores, alarms]}}`.
    With `--try` judge two batches of which one is plainly off. What the tool prints goes to the second output.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    if "--try" in sys.argv:
        _check_answers(judge)
        return
    for path in sorted(Path(sys.argv[1]).glob("*.npz")):
        with np.load(path) as arrays:
            results = judge(arrays["baseline"], arrays["batches"])
        answers.write(json.dumps({"case": path.stem, "said": results}) + "\n")


def _check_answers(judge: Judge) -> None:
    rng = np.random.default_rng(0)
    baseline, batches = rng.normal(size=(20, 500, 3)), rng.normal(size=(2, 500, 3))
    batches[1] = 3 * batches[1] + 1
    for way, answer in judge(baseline, batches).items():
        if not answer.alarms[1] or (answer.scores and answer.scores[0] >= answer.scores[1]):
            raise SystemExit(f"{way}: a batch that is plainly off is not found: {answer}")
