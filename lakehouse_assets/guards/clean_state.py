"""What is known of a guard's clean table without a JVM: where it is, and whether it has every accepted row.

Belongs here: the clean table's address and its gap. Does not: writing it (clean_table).
"""

from pathlib import Path
from typing import TYPE_CHECKING

from deltalake.exceptions import DeltaError

from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.decisions.guard import CleanTable
from lakehouse_assets.decisions.guard_decision import rows_of
from lakehouse_assets.decisions.guard_publication import last_publication, unpublished_gap
from lakehouse_assets.errors import SourceError
from lakehouse_assets.object_store import is_url, spark_location
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta

if TYPE_CHECKING:
    from lakehouse_assets.guards.observed_table import GuardState

ABSENT = "the clean table is gone"
OF_ANOTHER_LOG = "the clean table is of another log of decisions"
REWOUND = "the clean table was restored to an earlier version"


def absolute_path(path: str, settings: Settings) -> str:
    """Return a path or URL of a guard's YAML as Spark reads it. A relative path starts at the project's folder."""
    if is_url(path):
        return spark_location(path.rstrip("/"))
    base = settings.project or Path(settings.root)
    return str((base / Path(path).expanduser()).resolve())


def clean_path(spec: GuardSpec, settings: Settings) -> str | None:
    """Return the clean table's path or URL; None without one, and for the name of a table."""
    return absolute_path(spec.publish.to, settings) if spec.publish and spec.publish.is_path else None


def clean_table(spec: GuardSpec, settings: Settings, state: "GuardState", exists: bool | None = None) -> CleanTable | None:
    """Return what the clean table asks for; None if the guard publishes nothing. ``exists``: whether a table of this name
    exists; None where only a session could say it.
    """
    if spec.publish is None:
        return None
    gap = unpublished_gap(state.decisions, state.records)
    return CleanTable(bool(spec.key), gap or _replacement(spec, settings, state, exists))


def has_lost_rows(spec: GuardSpec, settings: Settings, state: "GuardState", exists: bool | None = None) -> bool:
    """Whether a clean table that had published rows lacks some of them now: somebody else has deleted, replaced or rewound it.
    One more version must not be published to it then: only a whole table mends it.
    """
    if last_publication(state.decisions) is None:
        return False
    clean = clean_table(spec, settings, state, exists)
    return bool(clean and clean.gap)


def is_refused_table(state: "GuardState", version: int) -> bool:
    """Whether the last judgement was of this version's whole table, and quarantined it: then nothing is judged again."""
    judgements = [d for d in state.decisions if d.superseded_by is None and d.kind == "judged"]
    last = max(judgements, key=lambda d: d.number, default=None)
    if last is None or last.accepted or last.bronze_version is None:
        return False
    return last.bronze_version >= version and rows_of(state.records.get(last.batch)) == "table"


def _replacement(spec: GuardSpec, settings: Settings, state: "GuardState", exists: bool | None) -> str:
    last, path = last_publication(state.decisions), clean_path(spec, settings)
    if path is None:
        return ABSENT if last and exists is False else ""
    try:
        if not delta.exists(path):
            return ABSENT if last else ""
        if last is None:
            return OF_ANOTHER_LOG
        number = last.silver_version or 0
        commit = delta.read_commit(path, number) if number <= delta.version(path) else delta.Commit("")
        is_rewound = delta.was_restored_after(path, number)
    except (DeltaError, OSError) as error:
        raise SourceError(f"{spec.name}: publish.to: the clean table cannot be read: {type(error).__name__}") from None
    if commit and last.decision_id not in commit.decisions:
        return OF_ANOTHER_LOG
    return REWOUND if is_rewound else ""
