"""The checks behind a version: from a commit of silver or gold back to the decisions that it applied.

Belongs here: reading the commit, and the message if there is none. Does not: writing one (pipeline), or a listing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs

# Commits that put rows of decided batches into a table: by MERGE or append, by a fold of everything, by gold's SELECT.
APPLYING = frozenset({"silver", "rebuild", "gold"})


@dataclass(frozen=True)
class CheckedVersion:
    """The decisions with their checks' results. ``note``: how they were found, for the reader."""

    decisions: tuple[Decision, ...]
    note: str = ""


def find_checked_decisions(settings: Settings, table: str, version: int) -> CheckedVersion:
    """Return the decisions that one version of a table applied, by its commit; by the decisions' own marks if the Delta log has
    lost that commit. ``table``: as in the logs. No JVM.

    Raises RefusedError if there is no such version, or if it applied no decision.
    """
    layer, name = ("gold", table.removeprefix("gold_")) if table.startswith("gold_") else ("silver", table)
    path = settings.path(layer, name)
    label = f"{layer} {name}"
    if not delta.exists(path):
        raise RefusedError(f"there is no {label} yet; see `lakehouse verdicts --table {table}`")
    newest = delta.version(path)
    if version > newest:
        raise RefusedError(f"{label} has no version {version}; the newest is {newest}")
    decisions = logs.decisions(settings, table, checks=True)
    commit = delta.read_commit(path, version)
    if commit is None:
        return _by_marks(decisions, label, version)
    if commit.step not in APPLYING:
        raise RefusedError(
            f"version {version} of {label} applied no decision: it is {commit.operation}{_earlier_versions(decisions, version)}"
        )
    applied = tuple(d for d in decisions if d.decision_id in commit.decisions)
    if len(applied) < len(commit.decisions):
        raise RefusedError(f"version {version} of {label} names decisions that ops/decisions lacks: it comes from another lake")
    note = f"version {version} is a rebuild: all decisions that the table was folded from" if commit.step == "rebuild" else ""
    return CheckedVersion(applied, note)


def _by_marks(decisions: Sequence[Decision], label: str, version: int) -> CheckedVersion:
    """Return decisions by their marks. A mark names the version after a decision was applied; it may have published nothing."""
    marked = tuple(d for d in decisions if d.silver_version == version and d.superseded_by is None)
    if not marked:
        message = f"version {version} of {label} is no longer in its Delta log, and no decision's mark names it"
        raise RefusedError(message + _earlier_versions(decisions, version))
    note = f"version {version} is no longer in the Delta log: found by the marks of ops/decisions, which also name decisions "
    return CheckedVersion(marked, f"{note}that were applied then and published nothing")


def _earlier_versions(decisions: Sequence[Decision], version: int) -> str:
    earlier = [d.silver_version for d in decisions if d.silver_version is not None and d.silver_version < version]
    return f"; decisions were applied up to version {max(earlier)} before it" if earlier else ""
