"""Values that a process keeps, of bounded size in all.

Belongs here: which values are dropped. Does not: what is kept, or when it is right no more (log_files, delta).
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Value = TypeVar("Value")


class NewestValues(Generic[Value]):
    """Values by a key, of which the least recently used ones are dropped. ``most``: of all sizes together. The newest value
    stays, whatever its size: whoever asks for it asks again.
    """

    def __init__(self, most: int, size_of: Callable[[Value], int]) -> None:
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._most, self._size_of, self._size, self._lock = most, size_of, 0, Lock()

    def get(self, key: Hashable) -> Value | None:
        """Return the value of a key; None if there is none, or none any more."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: Hashable, value: Value) -> None:
        """Keep a value, at the cost of those that were not asked for lately."""
        with self._lock:
            if (before := self._values.pop(key, None)) is not None:
                self._size -= self._size_of(before)
            self._size += self._size_of(value)
            self._values[key] = value
            while self._size > self._most and len(self._values) > 1:
                self._size -= self._size_of(self._values.popitem(last=False)[1])
