"""What was checked before a version: from a commit of silver or gold back to the decisions that it applied.

Belongs here: reading the commit, and what to say where there is none. Does not: writing one (exchange, gold), or a listing.
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
class Checked:
    """The decisions with their checks' results. ``note``: what a reader has to know of how they were found."""

    decisions: tuple[Decision, ...]
    note: str = ""


def checked_before(settings: Settings, table: str, version: int) -> Checked:
    """The decisions that one version of a table applied, by what its commit says; where the Delta log has lost that commit, by
    the decisions' own marks. ``table``: as in the logs. No JVM.

    Raises RefusedError where there is no such version, or where it applied no decision.
    """
    layer, name = ("gold", table.removeprefix("gold_")) if table.startswith("gold_") else ("silver", table)
    path = settings.path(layer, name)
    what = f"{layer} {name}"
    if not delta.exists(path):
        raise RefusedError(f"there is no {what} yet; see `lakehouse verdicts --table {table}`")
    newest = delta.version(path)
    if version > newest:
        raise RefusedError(f"{what} has no version {version}; the newest is {newest}")
    known = logs.decisions(settings, table, evidence=False, checks=True)
    commit = delta.commit(path, version)
    if commit is None:
        return _by_marks(known, what, version)
    if commit.step not in APPLYING:
        raise RefusedError(
            f"version {version} of {what} applied no decision: it is {commit.operation}{_before(known, version)}"
        )
    found = tuple(d for d in known if d.decision_id in commit.decisions)
    if len(found) < len(commit.decisions):
        raise RefusedError(f"version {version} of {what} names decisions that are not in ops/decisions: it is another lake's")
    whole = f"version {version} is a rebuild: all decisions that the table was folded from" if commit.step == "rebuild" else ""
    return Checked(found, whole)


def _by_marks(known: Sequence[Decision], what: str, version: int) -> Checked:
    """A mark names the version that stood once a decision was applied: it may have published nothing of its own."""
    found = tuple(d for d in known if d.silver_version == version and d.superseded_by is None)
    if not found:
        lost = f"version {version} of {what} is no longer in its Delta log, and no decision's mark names it"
        raise RefusedError(lost + _before(known, version))
    note = f"version {version} is no longer in the Delta log: found by the marks of ops/decisions, which also name decisions "
    return Checked(found, f"{note}that were applied then and published nothing")


def _before(known: Sequence[Decision], version: int) -> str:
    earlier = [d.silver_version for d in known if d.silver_version is not None and d.silver_version < version]
    return f"; decisions were applied up to version {max(earlier)} before it" if earlier else ""
