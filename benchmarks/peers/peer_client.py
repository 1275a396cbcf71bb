"""Our side of the pipe: a peer's process, started once, asked for one measurement at a time.

Belongs here: the process and its answers. Does not: what it is compared with.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.harness import Sample
from benchmarks.peers.environments import Peer


class PeerFailed(Exception):
    """The peer's process ended instead of answering; what it printed last is the message."""


class PeerRequest:
    """A context: a peer's process while it is open. ``job``: as `peer_server` describes it. ``log``: what the tool prints."""

    def __init__(self, peer: Peer, job: Mapping[str, Any], log: Path) -> None:
        self.peer, self._log = peer, log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [peer.python, "-m", f"benchmarks.peers.{peer.module}"],
                cwd=Path(__file__).parents[2],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                bufsize=1,
            )
        self._send_line(json.dumps(job))

    def measure(self) -> tuple[Sample, dict[str, int]]:
        """One measurement, timed by the peer itself, and the failing rows of each rule."""
        self._send_line("measure")
        assert self._process.stdout is not None  # noqa: S101 (a pipe was asked for)
        line = self._process.stdout.readline()
        if not line:
            raise self._failed()
        answer = json.loads(line)
        return Sample(answer["seconds"], cpu=answer["cpu"]), answer["failing"]

    def _send_line(self, line: str) -> None:
        assert self._process.stdin is not None  # noqa: S101 (a pipe was asked for)
        try:
            self._process.stdin.write(line + "\n")
        except BrokenPipeError:
            raise self._failed() from None

    def _failed(self) -> PeerFailed:
        self._process.wait()
        last_lines = self._log.read_text(errors="replace").strip().splitlines()[-15:]
        return PeerFailed("\n".join([f"{self.peer.title} ended instead of answering; its last output:", *last_lines]))

    def __enter__(self) -> "PeerRequest":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None  # noqa: S101 (a pipe was asked for)
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()


def describe_differences(failing_rows: Mapping[str, Mapping[str, int]], rules: Sequence[str]) -> str:
    """What the sides do not agree on, a line for each rule; empty where they agree on all."""
    lines = []
    for rule in rules:
        counts_by_side = {side: counts.get(rule) for side, counts in failing_rows.items()}
        if len(set(counts_by_side.values())) > 1:
            lines.append(f"{rule}: " + ", ".join(f"{side} {count}" for side, count in counts_by_side.items()))
    return "\n".join(lines)
