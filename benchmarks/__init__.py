"""Benchmarks: what a part of the project costs, each paired with the least that would do the same work without it.

`python -m benchmarks` runs them; docs/benchmarks.md says how to read what it prints. The package is not installed with
the project.
"""

from pathlib import Path

# The folder of this repository.
PROJECT_ROOT = Path(__file__).resolve().parent.parent
