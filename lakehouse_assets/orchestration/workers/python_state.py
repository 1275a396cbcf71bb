"""What a run or a command may change in a worker's Python: given back afterwards.

Belongs here: environment, working directory, log levels. Does not: Spark's state (storage/session_reset).
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def python_as_it_was() -> Iterator[None]:
    """Afterwards the environment, the working directory and the level of Dagster's loggers are as before."""
    environ, folder, level = dict(os.environ), Path.cwd(), logging.getLogger("dagster").level
    try:
        yield
    finally:
        logging.getLogger("dagster").setLevel(level)
        for name in os.environ.keys() - environ.keys():
            del os.environ[name]
        os.environ.update(environ)
        os.chdir(folder)
