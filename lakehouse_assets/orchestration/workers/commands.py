"""A `lakehouse` command that a worker executes: its terminal goes to the worker, its exit code comes back.

Belongs here: both ends of that connection. Does not: which commands a worker executes (cli), or who gets one (pool).

The client listens on a socket in a private folder, to which the worker connects. The worker gets the descriptors of the
client's standard output and error. So colours and widths are those of the terminal.
"""

import os
import shutil
import socket
import struct
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import Timeout

from lakehouse_assets.errors import EnvironmentMissing, RunFailedError
from lakehouse_assets.orchestration.workers.folder import GivenRun, WorkerFolder
from lakehouse_assets.orchestration.workers.pool import WorkerPool

LOOK_SECONDS = 0.5
PATIENT_SECONDS = 1.5
CODE = struct.Struct("!i")
# Exit codes of a command that was done, or that ended with an answer: they leave the session as it was (docs/configuration.md).
ANSWERS = frozenset({0, 2, 5, 6, 8, 9})


def execute_on_worker(pool: WorkerPool, arguments: Sequence[str], folder: Path, environ: dict[str, str]) -> int | None:
    """Let a warm worker execute this command, and return its exit code; None if none is free: nothing has been done. A command
    starts no worker, which would stay when the command has ended.

    Raises RunFailedError if the worker dies meanwhile. Ctrl-C interrupts the command there.
    """
    run_id = f"command-{uuid.uuid4().hex}"
    with _listening() as (server, address):
        request = GivenRun(run_id, "", time.time(), tuple(arguments), address)
        try:
            worker = _assign(pool, request, environ, folder)
        except (OSError, Timeout, EnvironmentMissing):
            return None
        if worker is None:
            return None
        connection = _accept(server, worker)
        if connection is None:
            return None
        with connection:
            return _hand_over(connection, worker, run_id)


def _assign(pool: WorkerPool, request: GivenRun, environ: dict[str, str], folder: Path) -> WorkerFolder | None:
    """Return the worker that got the command. One that ends its run in a moment is waited for: a new process takes longer."""
    end = time.monotonic() + PATIENT_SECONDS
    while True:
        worker = pool.assign(request, None, environ, folder=folder, may_start=False)
        if worker is not None or time.monotonic() > end or not any(each.is_alive() for each in pool.workers()):
            return worker
        time.sleep(LOOK_SECONDS / 5)


@contextmanager
def _listening() -> Iterator[tuple[socket.socket, str]]:
    # Not in the pool's folder: the address of a socket has a hundred characters at most.
    folder = tempfile.mkdtemp(prefix="lakehouse-")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            server.bind(f"{folder}/command")
            server.listen(1)
            server.settimeout(LOOK_SECONDS)
            yield server, f"{folder}/command"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _accept(server: socket.socket, worker: WorkerFolder) -> socket.socket | None:
    """Return the connection of a living worker; None if it dies before it calls."""
    while True:
        try:
            return server.accept()[0]
        except TimeoutError:
            if not worker.is_alive():
                return None


def _hand_over(connection: socket.socket, worker: WorkerFolder, run_id: str) -> int:
    """Give the worker this process's terminal, and wait for the code. Ctrl-C, at whatever moment, is the command's."""
    connection.settimeout(None)
    is_sent = False
    while True:
        try:
            if not is_sent:
                sys.stdout.flush()
                socket.send_fds(connection, [b"!"], [1, 2])
                is_sent = True
            answer = connection.recv(CODE.size)
        except KeyboardInterrupt:
            worker.cancel(run_id)
            continue
        if len(answer) < CODE.size:
            raise RunFailedError(f"the worker ended while it executed the command; run it again. Its log: {worker.log}")
        return CODE.unpack(answer)[0]


def execute_command(request: GivenRun, call: Callable[[Sequence[str]], int]) -> bool:
    """In the worker: execute a command on its client's terminal, and return whether its code is one of the `ANSWERS`. Without a
    client nothing is done: it has gone, or does it itself.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(request.address or "")
            _, descriptors, _, _ = socket.recv_fds(connection, 1, 2)
        except OSError:
            return True
        if len(descriptors) != 2:
            return True
        with _terminal(descriptors):
            code = call(request.command or ())
        with suppress(OSError):
            connection.sendall(CODE.pack(code))
    return code in ANSWERS


@contextmanager
def _terminal(descriptors: Sequence[int]) -> Iterator[None]:
    """Within the block, the standard output and error are the client's."""
    own = [os.dup(1), os.dup(2)]
    try:
        for number, descriptor in zip((1, 2), descriptors, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        for number, descriptor in zip((1, 2), own, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)
