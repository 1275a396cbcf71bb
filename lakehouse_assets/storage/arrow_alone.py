"""Arrow without pandas, for processes that read logs and end: importing pandas takes longer than reading them.

Belongs here: the one import. Does not: any reading.
"""

import importlib
import sys
from collections.abc import Collection
from typing import Any


class _Absent:
    """A finder of modules by which some libraries are not installed."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Raise for those libraries; find nothing else."""
        if name in self.names:
            raise ModuleNotFoundError(name, name=name)


def load_arrow_alone(numpy: bool = True) -> None:
    """Load Arrow so that it takes pandas for absent; without ``numpy`` that, too. Only for a process in which nothing turns
    their objects into Arrow's.

    Arrow asks for both when it is loaded, to recognize their objects among its arguments.
    """
    absent = {"pandas"} if numpy else {"pandas", "numpy"}
    if absent & sys.modules.keys() or "pyarrow.dataset" in sys.modules:
        return
    finder = _Absent(absent)
    sys.meta_path.insert(0, finder)
    try:
        importlib.import_module("pyarrow.dataset")
        arrow = importlib.import_module("pyarrow")
        arrow.table(arrow.table({}))  # without numpy, Arrow asks for pandas only here
    finally:
        sys.meta_path.remove(finder)
