"""Questions that one poll asks and a later one has the answer to: at most one Spark at a time in a process, in turn.

Belongs here: whose turn it is, and which answer is there. Does not: the process that answers (table_poll), or how long an
answer counts (table).
"""

import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from lakehouse_assets.sources.base import AnswerPending

# A table that was not polled for so long gives up its turn: it may be gone.
FORGOTTEN_SECONDS = 900.0


class RunningQuestion(Protocol):
    """A question that was asked."""

    @property
    def began(self) -> float:
        """When it was asked."""
        ...

    def is_over(self) -> bool:
        """Whether there is an answer, or will be none."""
        ...


Question = TypeVar("Question", bound=RunningQuestion)


class PollQueue:
    """The questions of one process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._running: dict[str, RunningQuestion] = {}
        self._waiting: dict[str, float] = {}  # in the order of their turn, with the last poll

    def next_answer(self, key: str, ask: Callable[[], Question]) -> Question:
        """Return the question of ``key`` that is over, once. Otherwise ask it if it is its turn, and raise AnswerPending.
        Returns at once.
        """
        with self._lock:
            if (question := self._running.get(key)) is not None:
                if not question.is_over():
                    raise AnswerPending(f"Spark has been asked for {self._clock() - question.began:.0f} s")
                del self._running[key]
                return question  # type: ignore[return-value]
            now = self._clock()
            self._waiting = {name: at for name, at in self._waiting.items() if now - at < FORGOTTEN_SECONDS}
            self._waiting[key] = now
            if next(iter(self._waiting)) != key or not all(each.is_over() for each in self._running.values()):
                raise AnswerPending("it waits for its turn: Spark answers for another table")
            del self._waiting[key]
            self._running[key] = ask()
            raise AnswerPending("Spark is asked")


# That of this process, for tables of every kind.
QUEUE = PollQueue()
