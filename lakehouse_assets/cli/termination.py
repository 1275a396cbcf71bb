"""The end of a command by SIGTERM: one line, whatever the libraries that run just then raise.

Belongs here: handling and noticing the signal, and the exit code. Does not: what a stream does with it (stream), other
errors (main).
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from lakehouse_assets.cli import terminal
from lakehouse_assets.errors import LakehouseError, MaskedError, RunFailedError

EXIT_CODE = 128 + signal.SIGTERM  # as shells name it
INTERRUPTED = 128 + signal.SIGINT


class Signals:
    """The signals that this process got since the block began. Python writes their numbers to a pipe, whoever handles them."""

    def __init__(self, pipe: int | None) -> None:
        self._pipe = pipe

    def explain(self, error: BaseException) -> bool:
        """Whether SIGTERM explains an error: an interrupt, or what Spark, Dagster or Python raise where one arrives."""
        if isinstance(error, SystemExit):
            is_consequence = error.code == INTERRUPTED
        else:
            is_consequence = not isinstance(error, LakehouseError) or isinstance(error, (MaskedError, RunFailedError))
        return is_consequence and signal.SIGTERM in self._numbers()

    def _numbers(self) -> bytes:
        if self._pipe is None:
            return b""
        try:
            return os.read(self._pipe, 1024)
        except BlockingIOError:
            return b""


@contextmanager
def end_by_sigterm(is_own: bool = False) -> Iterator[None]:
    """Within the block, SIGTERM ends the process with one line and its code, whatever error it leads to. ``is_own``: as
    `note_signals` has it.
    """
    with note_signals(is_own) as signals:
        try:
            yield
        except BaseException as error:
            if not signals.explain(error):
                raise
            terminal.err.print("ended by SIGTERM", style="red")
            sys.exit(EXIT_CODE)


@contextmanager
def note_signals(is_own: bool = False) -> Iterator[Signals]:
    """Note signals within the block, where SIGTERM interrupts as Ctrl-C does. None are noted in a thread, or where another
    program notes them. Nor are they if the command ends by a signal in a way of its own (``is_own``).
    """
    if is_own or threading.current_thread() is not threading.main_thread():
        yield Signals(None)
        return
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        if before != -1:
            signal.set_wakeup_fd(before)
        with _interrupting():
            yield Signals(reading if before == -1 else None)
    finally:
        if before == -1:
            signal.set_wakeup_fd(-1)
        os.close(reading)
        os.close(writing)


@contextmanager
def _interrupting() -> Iterator[None]:
    """Within the block, SIGTERM does what Ctrl-C does just then; where it is handled already, it stays so."""
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _interrupt(number: int, frame: FrameType | None) -> None:
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        handler(number, frame)
        return
    raise KeyboardInterrupt
