"""A guard as its file describes it, and what several guards may not share.

Belongs here: which guards stop each other. Does not: reading files (table_files), or mistakes of one guard (contracts).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.contracts.source_map import SourceMap
from lakehouse_assets.object_store import is_url, spark_location


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


def guard_conflicts(guards: Sequence[DescribedGuard], folder: Path, lake: str = "") -> Iterator[tuple[DescribedGuard, str]]:
    """Yield each guard of a table that another guard has too, or whose clean table is not its own, with the line of the
    mistake. ``folder``: of all tables. ``lake``: the root of the lake; empty where it is not known.
    """
    project = next((above for above in folder.resolve().parents if (above / "pyproject.toml").is_file()), folder)
    by_table: dict[str, list[DescribedGuard]] = {}
    for guard in guards:
        by_table.setdefault(_guarded_address(guard, project), []).append(guard)
    for several in by_table.values():
        for guard in several if len(several) > 1 else ():
            others = ", ".join(each.spec.name for each in several if each is not guard)
            key = "table" if guard.spec.table else "path"
            yield guard, _line(guard, key, f"the guard {others} has this table too; write the checks of both into one guard")
    for guard in guards:
        if text := _publish_mistake(guard, guards, project, lake):
            yield guard, _line(guard, "publish", "to", text)


def _line(guard: DescribedGuard, *keys_and_text: str) -> str:
    *keys, text = keys_and_text
    location, key = guard.source_map.locate(keys)
    return f"{location}: {key}: {text}"


def _publish_mistake(guard: DescribedGuard, guards: Sequence[DescribedGuard], project: Path, lake: str) -> str:
    """Return why a guard cannot publish to its clean table; empty if it can."""
    if (to := _clean_address(guard, project)) is None:
        return ""
    if _overlaps(to, _guarded_address(guard, project)):
        return "this is the guarded table itself, or lies within it; choose another path"
    if lake and _overlaps(to, lake.rstrip("/")):
        return "this lies in the lake, whose tables the project writes itself; choose a path outside of it"
    for other in guards:
        if other is guard:
            continue
        if _overlaps(to, _guarded_address(other, project)):
            back = _clean_address(other, project)
            circle = back is not None and _overlaps(back, _guarded_address(guard, project))
            which = f"which publishes to the table of {guard.spec.name}: they go in a circle" if circle else "which guards it"
            return f"this is the table of the guard {other.spec.name}, {which}; choose a path that no guard has"
        if (others := _clean_address(other, project)) is not None and _overlaps(to, others):
            return f"the guard {other.spec.name} publishes to this table too; each guard needs one of its own"
    return ""


def _guarded_address(guard: DescribedGuard, project: Path) -> str:
    return guard.spec.table.lower() if guard.spec.table else _address(guard.spec.path, project)


def _clean_address(guard: DescribedGuard, project: Path) -> str | None:
    publish = guard.spec.publish
    if publish is None:
        return None
    return _address(publish.to, project) if publish.is_path else publish.to.lower()


def _overlaps(one: str, other: str) -> bool:
    """Whether two addresses are of one table, or one of them lies within the other."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def _address(path: str, project: Path) -> str:
    return spark_location(path.rstrip("/")) if is_url(path) else str((project / Path(path).expanduser()).resolve())
