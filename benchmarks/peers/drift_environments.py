"""The drift peers' environments: what is in them, and asking one for what it says of a folder of batches.

Belongs here: packages and the process. Does not: what a peer says (its own file), rates (`benchmarks.drift_peers`).
"""

import json
import math
import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.peers.drift_peer_server import PeerAnswer
from benchmarks.peers.environments import Peer
from benchmarks.peers.peer_client import PeerFailed

# Nothing is asked of a drift peer's time. Pinned are what decides, and what the tool does not bound although it must.
PANDAS, OLD_NUMPY, SCIPY = "pandas==2.3.3", "numpy==1.26.4", "scipy==1.15.3"
DRIFT_PEERS = {
    peer.name: peer
    for peer in (
        Peer("evidently", "Evidently", "drift_evidently", ("evidently==0.7.23", "numpy==2.2.6", PANDAS, SCIPY), math.inf),
        Peer(
            "nannyml",
            "NannyML",
            "drift_nannyml",
            ("nannyml==0.13.1", OLD_NUMPY, PANDAS, SCIPY, "scikit-learn==1.6.1", "statsmodels==0.14.5"),
            math.inf,
        ),
        Peer("alibi", "alibi-detect", "drift_alibi", ("alibi-detect==0.13.0", OLD_NUMPY, PANDAS, SCIPY), math.inf),
    )
}


def ask(peer: Peer, folder: Path, log: Path) -> Iterator[tuple[str, dict[str, PeerAnswer]]]:
    """For each file of the folder: its name, and what each way to use the peer says of its batches."""
    root = Path(__file__).parents[2]
    command = [peer.python, "-m", f"benchmarks.peers.{peer.module}", folder]
    with log.open("wb") as errors, subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=errors) as process:
        assert process.stdout is not None  # noqa: S101 (a pipe was asked for)
        for line in process.stdout:
            answer = json.loads(line)
            yield answer["case"], {way: PeerAnswer(*fields) for way, fields in answer["said"].items()}
    if process.returncode:
        last = log.read_text(errors="replace").strip().splitlines()[-15:]
        raise PeerFailed("\n".join([f"{peer.title} ended with {process.returncode}; its last output:", *last]))
