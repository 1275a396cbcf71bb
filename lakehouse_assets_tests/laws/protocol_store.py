"""The store of the protocol's model: lease files, versions of tables, and the requests that reach them.

Belongs here: states and single operations of a store. Does not: what writers do (protocol_writer), exploring (protocol_model).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

SPARK_TABLES = ("bronze", "quarantine", "silver")
LOGS = ("extractions", "decisions")
TABLES = (*SPARK_TABLES, "baseline", *LOGS)
# The model's `leases.files.MOST_FILES`: so many stay, the others are removed by whoever lists them.
MOST_FILES = 2
ABSENT = -1


@dataclass(frozen=True)
class Safeguards:
    """The protocol's safeguards. A test leaves one out, and the model has to find what goes wrong."""

    puts_lease_if_absent: bool = True
    confirms_claim: bool = True
    fences_takeover: bool = True
    fences_logs: bool = True
    checks_number_at_fence: bool = True
    abandons_failed_fence: bool = True
    checks_number_at_commit: bool = True
    creates_version_once: bool = True
    compares_content: bool = True
    states_lease_in_tables: bool = True
    reads_number_of_commits: bool = True
    states_lease_in_logs: bool = True
    claims_decision_numbers: bool = True
    fences_after_errors: bool = True
    refuses_unfenced_tables: bool = True
    fences_absent_tables_later: bool = True


class Table(NamedTuple):
    """``number``: of the lease, as the newest commit states it. ``application``: the newest transaction of the lease's
    application. ``stated``: the version of the newest commit with that transaction. ``claim``: the version that logged the
    newest decision. ``reader``: the highest lease that fenced or read it.
    """

    version: int = ABSENT
    number: int = 0
    application: int = 0
    stated: int = ABSENT
    claim: int = ABSENT
    reader: int = 0
    rows: tuple[Any, ...] = ()


class Commit(NamedTuple):
    """One commit as requested: version ``base`` + 1 of a table. ``replaces``: rows of the same thing are replaced by it.
    ``is_light``: `deltalake` writes it, with the transaction of the lease's application.
    """

    table: str
    base: int
    number: int
    row: Any
    replaces: bool = False
    is_light: bool = False


class LeaseFile(NamedTuple):
    """``kind``: ``held``, ``released``, or ``failed``: given back after an error, so that the next holder has to fence."""

    number: int
    kind: str
    absent: frozenset[str] = frozenset()


class Store(NamedTuple):
    """``late``: a request that its client has given up, and that may still arrive. ``violation``: what has gone wrong."""

    files: tuple[LeaseFile, ...] = ()
    tables: tuple[Table, ...] = (Table(),) * len(TABLES)
    late: Commit | None = None
    violation: str = ""

    def table(self, name: str) -> Table:
        """Return a table."""
        return self.tables[TABLES.index(name)]

    def with_table(self, name: str, table: Table) -> "Store":
        """Return the store with another state of this table."""
        index = TABLES.index(name)
        return self._replace(tables=(*self.tables[:index], table, *self.tables[index + 1 :]))

    def broken(self, message: str) -> "Store":
        """Return the store with a violation; the first one stays."""
        return self if self.violation else self._replace(violation=message)


def find_newest(store: Store) -> tuple[Store, LeaseFile | None]:
    """List the lease files; remove the oldest ones."""
    files = store.files
    if len(files) > MOST_FILES:
        store = store._replace(files=files[-MOST_FILES // 2 :])
    return store, files[-1] if files else None


def create_file(store: Store, file: LeaseFile, *, if_absent: bool = True) -> tuple[Store, bool]:
    """Put a lease file if there is none of this number."""
    if any(each.number == file.number for each in store.files) and if_absent:
        return store, False
    others = [each for each in store.files if each.number != file.number]
    return store._replace(files=tuple(sorted([*others, file]))), True


def read_table(store: Store, name: str, number: int) -> tuple[Store, Table]:
    """Read a table as the holder of a lease."""
    table = store.table(name)
    if table.version != ABSENT and number > table.reader:
        store = store.with_table(name, table._replace(reader=number))
    return store, table


def fence_table(store: Store, name: str, number: int) -> Store:
    """Add a commit that states the lease's number, and changes no row."""
    table = store.table(name)
    version, reader = table.version + 1, max(table.reader, number)
    fenced = table._replace(version=version, number=number, application=number, stated=version, reader=reader)
    return store.with_table(name, fenced)


def apply_commit(store: Store, commit: Commit) -> Store:
    """Write the version, whoever was allowed to."""
    table = store.table(commit.table)
    others = [row for row in table.rows if commit.table != "bronze" and row != commit.row] if commit.replaces else table.rows
    rows = (*others, commit.row)
    number = commit.number if commit.table not in LOGS else table.number
    version = commit.base + 1
    application, stated = (commit.number, version) if commit.is_light else (table.application, table.stated)
    claim = version if commit.table == "decisions" and commit.row[0] == "decided" else table.claim
    after = Table(version, number, application, stated, claim, max(table.reader, commit.number), rows)
    late = table.reader > commit.number and version > 0
    store = store.with_table(commit.table, after)
    store = check(store)
    if late:
        return store.broken(f"a commit to {commit.table} under lease {commit.number}, which lease {table.reader} has read")
    return store


def check(store: Store) -> Store:
    """Return the store with a violation if one of the promises does not hold."""
    decisions = store.table("decisions").rows
    decided = [row[1] for row in decisions if row[0] == "decided"]
    applied = [row[1] for row in decisions if row[0] == "applied"]
    if len(store.table("bronze").rows) > 1:
        return store.broken(f"bronze has an extraction twice: {store.table('bronze').rows}")
    if len(decided) > 1:
        return store.broken(f"two decisions have one number: {decided}")
    # The source does not change here, so that each copy of the extraction is as its record says.
    if store.table("extractions").rows and not store.table("bronze").rows:
        return store.broken("an extraction is on record, and bronze does not have it")
    for name in ("quarantine", "silver", "baseline"):
        rows = store.table(name).rows
        if len(rows) != len(set(rows)):
            return store.broken(f"{name} has a decision twice: {rows}")
        if not set(rows) <= set(decided):
            return store.broken(f"{name} names {rows}, and the log has {decided}")
        if not set(applied) <= set(rows):
            return store.broken(f"{applied} are marked as applied, and {name} has {rows}")
    return store
