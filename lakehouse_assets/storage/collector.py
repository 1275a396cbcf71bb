"""Python's search for cycles: rarer in a process of our own, and paused while very many values are made at once.

Belongs here: how often it searches. Does not: what is made.
"""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

NEW_OBJECTS = 50_000  # 700 by default, of which Dagster's modules alone make a thousand times as many


@contextmanager
def paused_collector() -> Iterator[None]:
    """Search for no cycles within the block, in this whole process: among millions of values it takes a fourth of the time.
    What is not in a cycle is freed as ever.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@cache
def search_rarely() -> None:
    """Search for cycles only among every 50,000 new objects, and not at all when the process ends. For a process of our own:
    while it loads modules, and when it ends, the search takes two fifths of `lakehouse heal status`.
    """
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
    atexit.register(gc.freeze)
