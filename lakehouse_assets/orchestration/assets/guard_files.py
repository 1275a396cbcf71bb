"""A guard as its file describes it, and what several guards may not share.

Belongs here: which guards stop each other. Does not: reading files (table_files), or mistakes of one guard (contracts).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.source_map import SourceMap
from lakehouse_assets.settings import is_url


@dataclass(frozen=True, eq=False)
class DescribedGuard:
    """A guard, and where its keys are written."""

    spec: GuardSpec
    source_map: SourceMap

    @property
    def file(self) -> Path:
        """The YAML file that describes it."""
        return self.source_map.document.path if self.source_map.document else Path("defs.yaml")

    def with_asset_prefix(self, prefix: tuple[str, ...]) -> "DescribedGuard":
        """Return the same with this prefix of its asset's key."""
        return replace(self, spec=self.spec.with_asset_prefix(prefix))


def guard_conflicts(guards: Sequence[DescribedGuard], folder: Path) -> Iterator[tuple[DescribedGuard, str]]:
    """Yield each guard of a table that another guard has too, with the line of the mistake. ``folder``: of all tables."""
    project = next((above for above in folder.resolve().parents if (above / "pyproject.toml").is_file()), folder)
    by_table: dict[str, list[DescribedGuard]] = {}
    for guard in guards:
        by_table.setdefault(_address(guard.spec.path, project), []).append(guard)
    for several in by_table.values():
        for guard in several if len(several) > 1 else ():
            others = ", ".join(each.spec.name for each in several if each is not guard)
            location, key = guard.source_map.locate(["path"])
            text = f"the guard {others} has this table too; write the checks of both into one guard"
            yield guard, f"{location}: {key}: {text}"


def _address(path: str, project: Path) -> str:
    return path.rstrip("/").replace("s3://", "s3a://") if is_url(path) else str((project / Path(path).expanduser()).resolve())
