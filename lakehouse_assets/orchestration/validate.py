"""What can be said of contracts beyond each by itself: what no source has, what no table uses. No JVM.

Belongs here: `check validate` beyond the YAML itself. Does not: the YAML's own errors (contracts).
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from lakehouse_assets.contracts.sharing import Keys
from lakehouse_assets.errors import EnvironmentMissing, SourceError
from lakehouse_assets.layers.source import source_of
from lakehouse_assets.orchestration.component import LakehouseTable
from lakehouse_assets.settings import Settings


def unused_packs(tables: Sequence[LakehouseTable]) -> list[str]:
    """One line per pack that no table uses: it promises nothing."""
    used = {source.pack for table in tables for sources in table.places.sources.values() for source in sources}
    lines = set()
    for table in tables:
        files = table.places.files
        if files.packs:
            unused = (name for name in files.values.packs if name not in used)
            lines |= {f"{files.packs.at([name])}: {name}: no table uses this pack" for name in unused}
    return sorted(lines)


def unfitting_patterns(tables: Sequence[LakehouseTable]) -> tuple[list[str], list[str]]:
    """One line per pattern of a pack that fits no column: of any table that uses the pack (a mistake); of one of them, where
    it fits others' (to be known: the pack's other checks may be all that this table wants).
    """
    fits: dict[str, bool] = {}
    misses: list[tuple[str, str]] = []
    for table in tables:
        for keys, written, pattern in _patterns(table):
            packs, name = table.places.files.packs, ".".join(map(str, written))
            pattern_at = f"{packs.at(written) if packs else 'packs.yaml'}: {name}: {pattern!r}"
            # Gold's columns come of its SQL: nothing is looked for among them.
            fit = keys == ("checks",) and any(fnmatchcase(column, pattern) for column in table.spec.columns)
            fits[pattern_at] = fits.get(pattern_at, False) or fit
            if not fit:
                place, used = table.places.told([*keys[:-1], "packs"])
                misses.append((pattern_at, f"{place}: {used}: {pattern!r} ({name}) fits no column here"))
    mistakes = [f"{at} fits no column of any table that uses this pack" for at, fit in fits.items() if not fit]
    return mistakes, [text for pattern_at, text in misses if fits[pattern_at]]


def _patterns(table: LakehouseTable) -> Iterator[tuple[Keys, Keys, str]]:
    """Each pattern that packs bring into a list of checks: the list's keys, those of the pattern, and the pattern."""
    for keys, sources in table.places.sources.items():
        for name in dict.fromkeys(source.pack for source in sources if source.pack):
            for place, check in enumerate(table.places.files.values.packs[name].checks):
                if "for_columns" in check:
                    yield keys, (name, "checks", place, "for_columns"), str(check["for_columns"])


def source_mistakes(tables: Sequence[LakehouseTable], settings: Settings) -> list[str]:
    """One line per declared column that the newest landed window lacks, with file, line and key; none where nothing landed."""
    mistakes = []
    for table in tables:
        spec = table.spec
        source = source_of(spec, settings)
        try:
            arrived = source.fingerprints(spec.extraction.windows(datetime.now(UTC)))
        except (SourceError, EnvironmentMissing):
            continue  # nothing has landed yet, or no database is named here: nothing to compare with
        if not arrived:
            continue
        newest = max(arrived)
        has = source.columns(newest)
        for name in spec.columns:
            wanted = spec.source_column(name)
            if has and wanted not in has:
                place, key = table.places.told(["columns", name])
                mistakes.append(f"{place}: {key}: {newest.key} has no column {wanted!r}; it has {', '.join(has)}")
    return mistakes
