"""An operation killed at every file that it writes: the lake after the first n of them, then the operation again.

Belongs here: the files in their order, and the lake after some of them. Does not: processes (strike).

A file of a lake is written once and comes into place whole, so that a kill leaves a beginning of the sequence in which an
undisturbed operation wrote them: no process has to be killed for it. What was being written then is half there.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lakehouse_assets.settings import Settings
from lakehouse_assets_tests.chaos.play import end, run_of, run_operation
from lakehouse_assets_tests.support import copy_lake

UNORDERED = ("_locks", "staging")  # of no state, and swept


def list_written_files(before: Path, after: Path) -> list[Path]:
    """Files that are new or changed since, relative to the lake, in the order in which they were written."""
    files = []
    for path in after.rglob("*"):
        there = before / path.relative_to(after)
        if path.is_file() and path.relative_to(after).parts[0] not in UNORDERED:
            when = path.stat().st_mtime_ns
            if not there.exists() or there.stat().st_mtime_ns != when:
                files.append((when, is_commit(path), path.relative_to(after)))
    return [path for *_, path in sorted(files)]


def is_commit(path: Path) -> bool:
    """Whether it is a commit of a Delta table: with it, what was written before becomes part of the table."""
    return path.parent.name == "_delta_log" and path.suffix == ".json" and path.stem.isdigit()


class EveryFile:
    """An operation, run once on a copy of the lake ``before`` it, and what it wrote there."""

    def __init__(self, spark: Any, home: Path, name: str, before: Settings) -> None:
        self.spark, self.home, self.name, self.before = spark, home, name, before
        self.after = copy_lake(before, home / "after")
        run_operation(run_of(spark, self.after), name)
        self.files = list_written_files(Path(before.root), Path(self.after.root))
        self.clean = end(spark, copy_lake(before, home / "clean"), name)

    def kill_counts(self, *, commits: bool = False) -> list[int]:
        """After how many files to kill: any number; or with ``commits``, right before and after each commit."""
        every = range(len(self.files) + 1)
        if not commits:
            return [*every]
        return [n for n in every if n == 0 or is_commit(self.files[n - 1])]

    def killed_after(self, count: int) -> Settings:
        """The lake after so many files; of the next one, where it is data, the first half."""
        here = copy_lake(self.before, self.home / f"after-{count}")
        for index, path in enumerate(self.files[: count + 1]):
            source, target = Path(self.after.root, path), Path(here.root, path)
            if index == count and (is_commit(path) or path.parent.name == "_delta_log"):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
            if index == count:
                target.write_bytes(source.read_bytes()[: source.stat().st_size // 2])
        return here

    def differences(self, *, commits: bool = False) -> Iterator[tuple[int, str]]:
        """Yield each kill point with the tables that differ at the end once the operation runs again; empty if none does."""
        for count in self.kill_counts(commits=commits):
            here, wrong = self.killed_after(count), ""
            try:
                actual = end(self.spark, here, self.name)
                wrong = ", ".join(name for name, expected in self.clean.items() if actual[name] != expected)
            except Exception as error:
                wrong = f"{type(error).__name__}: {str(error)[:500]}"
            shutil.rmtree(here.dagster_home)
            yield count, wrong and f"{self.name} after file {count} of {len(self.files)} ({self._last(count)}): {wrong}"

    def _last(self, count: int) -> str:
        return str(self.files[count - 1]) if count else "none"
