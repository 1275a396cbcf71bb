"""Arrow without pandas, for processes that read logs and end: importing pandas takes longer than reading them.

Belongs here: the one import. Does not: any reading.
"""

import importlib
import sys
from typing import Any


class _PandasAbsent:
    """A finder of modules by which there is no pandas."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Raise for pandas; find nothing else."""
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)


def load_arrow_alone() -> None:
    """Load Arrow so that it takes pandas for absent. Only for a process in which nothing turns pandas objects into Arrow's.

    Arrow asks for pandas when it is loaded, to recognize pandas objects among its arguments.
    """
    if "pandas" in sys.modules or "pyarrow.dataset" in sys.modules:
        return
    sys.meta_path.insert(0, _PandasAbsent)
    try:
        importlib.import_module("pyarrow.dataset")
    finally:
        sys.meta_path.remove(_PandasAbsent)
