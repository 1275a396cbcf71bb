"""Features that drift does not watch, by each table's newest verdict: whose windows differ too much to see a fault. No JVM.

Belongs here: notes of `check validate`, with file, line and key. Does not: finding such features (decisions/drift/watching).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from deltalake.exceptions import DeltaError
from pyarrow import ArrowException

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions.drift.messages import WHY_NOT_WATCHED
from lakehouse_assets.decisions.naming import first_of
from lakehouse_assets.errors import LakehouseError
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs

SHOWN = 5  # strata of a feature that a note names
WAY = "give it an expression that is stable, strata (by), or a season"


def unwatched_features(tables: Sequence[Any], settings: Settings) -> list[str]:
    """Return one line per feature of these tables and guards that is not watched. Without a lake there are none; a lake that
    cannot be read is a line.
    """
    lines: list[str] = []
    for table in (each for each in tables if each.spec.drift is not None):
        try:
            newest = _newest_verdict(settings, table.spec.name)
        except (OSError, ValueError, DeltaError, ArrowException, LakehouseError) as error:
            why = f"the lake at {settings.root} cannot be read ({type(error).__name__})"
            return [*lines, f"{table.spec.name}: {why}: which features drift does not watch is not known"]
        lines += [] if newest is None else _notes(table, newest)
    return lines


def _newest_verdict(settings: Settings, table: str) -> Decision | None:
    """Return the newest decision whose window drift has compared with others, with its drift verdict."""
    log = logs.view_decisions(settings, table, lambda fold: fold.decisions)
    compared = (each for each in reversed(log) if each.p_extracted_at is not None and each.drift_p_value is not None)
    newest = next(compared, None)
    return newest and logs.with_evidence(settings, table, [newest], ["drift"])[0]


def _notes(table: Any, newest: Decision) -> Iterator[str]:
    unwatched = (newest.drift or {}).get("unwatched", ())
    for index, feature in enumerate(table.spec.drift.features):
        strata = [stratum for name, stratum in unwatched if name == feature.name]
        if not strata:
            continue
        # The feature may have been split by another column then, which is personal now.
        named = [] if table.spec.pii_columns else [str(stratum) for stratum in strata if stratum is not None]
        location, key = table.source_map.locate(["drift", "features", index])
        name = f"{feature.name} at {first_of(named, SHOWN)}" if named else feature.name
        text = f"{name} is not watched (window {newest.p_extracted_at:%Y-%m-%dT%H:%MZ})"
        yield f"{location}: {key}: {text}: its {WHY_NOT_WATCHED}; {WAY}"
