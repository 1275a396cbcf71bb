"""The thread of a worker that hears what it is asked while a run is executed: a cancellation interrupts the run.

Belongs here: waking the worker, interrupting its main thread, and killing it if the run does not stop. Does not: executing runs
(process).
"""

import os
import select
import signal
import threading
from collections.abc import Callable
from contextlib import suppress

from lakehouse_assets.orchestration.workers.folder import WorkerFolder
from lakehouse_assets.storage.session_reset import kill_java

LOOK_SECONDS = 5.0
# Between the end of Java, by which most of what hangs ends, and the end of the process.
AFTER_JAVA_SECONDS = 5.0


class Interrupter:
    """Looks at the worker's folder when it is woken. ``before_kill``: called in this thread before the process is killed."""

    def __init__(self, folder: WorkerFolder, cancel_seconds: float, before_kill: Callable[[], None]) -> None:
        self.folder, self.cancel_seconds, self.before_kill = folder, cancel_seconds, before_kill
        self.run_id: str | None = None
        self._lock, self._woken, self._interrupted = threading.Lock(), threading.Event(), False
        self._main = threading.get_ident()

    def start(self) -> None:
        """Begin to listen. To be called by the main thread."""
        # It interrupts this thread by SIGINT, which a daemon that a shell started in the background passes on as ignored.
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Thread(target=self._watch, name="interrupter", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Wait until somebody wakes the worker, or for so long. Returns whether somebody did."""
        woken = self._woken.wait(seconds)
        self._woken.clear()
        return woken

    def begin(self, run_id: str) -> None:
        """From now on a cancellation of this run interrupts the main thread."""
        with self._lock:
            self.run_id, self._interrupted = run_id, False
        self._look()

    def end(self) -> None:
        """From now on nothing interrupts the main thread."""
        with self._lock:
            self.run_id = None

    def _watch(self) -> None:
        # Open for writing too: so it never reports its end.
        pipe = os.open(self.folder.wake_pipe, os.O_RDWR | os.O_NONBLOCK)
        while True:
            ready, _, _ = select.select([pipe], [], [], LOOK_SECONDS)
            if ready:
                with suppress(BlockingIOError):
                    os.read(pipe, 65536)
                self._woken.set()
            self._look()

    def _look(self) -> None:
        with self._lock:
            if self.run_id is None or self._interrupted or not self.folder.is_cancelled(self.run_id):
                return
            self._interrupted = True
            threading.Thread(target=self._end_in_time, args=(self.run_id,), daemon=True).start()
            signal.pthread_kill(self._main, signal.SIGINT)

    def _end_in_time(self, run_id: str) -> None:
        """Kill Java, then the process, if the run has not stopped in time."""
        if self._stops(run_id, self.cancel_seconds):
            return
        kill_java()
        if self._stops(run_id, AFTER_JAVA_SECONDS):
            return
        # A storage that hangs must not keep the process.
        reporting = threading.Thread(target=self.before_kill, daemon=True)
        reporting.start()
        reporting.join(10)
        os.kill(os.getpid(), signal.SIGKILL)

    def _stops(self, run_id: str, seconds: float) -> bool:
        end = threading.Event()
        waited = 0.0
        while waited < seconds:
            if self.run_id != run_id:
                return True
            end.wait(0.1)
            waited += 0.1
        return self.run_id != run_id
