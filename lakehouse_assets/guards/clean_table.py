"""The clean table of a guard that publishes: accepted rows go into it in one commit per decision, in the order of versions.

Belongs here: what a version of each kind does to the clean table. Does not: the commit (frames/exchange), or the verdict.
"""

from dataclasses import dataclass, replace
from typing import Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse_assets.checks.sql.text import identifier, literal
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.guarded_table import GuardSpec
from lakehouse_assets.decisions.guard import VersionBatch
from lakehouse_assets.decisions.guard_publication import last_publication
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.frames.destination import Destination
from lakehouse_assets.frames.exchange import assignments, commit_decision, insertion, is_newer, merge_rows
from lakehouse_assets.guards.target import GuardTarget
from lakehouse_assets.guards.version_rows import removed_keys

STEP = "guard"
# The window of the version that published a row. By it a repeated write changes nothing, and a late release hides no newer row.
WINDOW = "_judged_window"
REMOVED, REPLACES = "_judged_gone", "_judged_replaces"


@dataclass(frozen=True)
class CleanTableWriter:
    """``to``: the clean table. ``guarded``: the path of the table that others write. ``location``: the clean table's, as
    `refuse_unfit` found it; None: it does not exist yet.
    """

    to: Destination
    guard: GuardSpec
    guarded: str
    location: str | None = None

    def refuse_unfit(self) -> Self:
        """Return the writer of the table as it is now. Asks Spark once. Raises RefusedError where the clean table is the
        guarded one, or no guard made it.
        """
        if (detail := self.to.detail()) is None:
            if self.to.holds_files():
                raise RefusedError(f"{self._key} holds files, and is no Delta table; choose another path")
            return self
        location = str(detail["location"]).removeprefix("file:").rstrip("/")
        if location in (self.guarded.rstrip("/"), self.guarded.removeprefix("file://").rstrip("/")):
            raise RefusedError(f"{self._key} is the guarded table itself; choose another one")
        if WINDOW not in self.to.read().columns:
            raise RefusedError(f"{self._key} is a table that no guard made; choose another one, which the guard creates")
        return replace(self, location=str(detail["location"]))

    @property
    def _key(self) -> str:
        return f"{self.guard.name}: publish.to: {self.to.text}"

    def write(self, target: GuardTarget, decision: Decision) -> int | None:
        """Publish an accepted version in one commit that names its decision. Returns the commit's version; None if the version
        changes no row. A decision that was published before is published no second time.
        """
        batch = target.version_batch
        if batch.rows == "outside" or (batch.rows == "none" and not batch.removes):
            return None
        exists = self.location is not None
        last = last_publication(target.history)
        since = -1 if last is None or last.silver_version is None else last.silver_version
        if exists and (version := self.to.version_of(decision.decision_id, since)) is not None:
            return version
        if WINDOW in target.rows.columns:
            raise RefusedError(
                f"{self.guard.name}: the guarded table has a column {WINDOW}, which the clean table needs itself"
            )
        rows = target.staged_rows.clean(decision) if target.is_measured else target.rows.limit(0)
        rows = rows.withColumn(WINDOW, F.lit(batch.window))
        is_whole = batch.rows == "table" and not (exists and self._has_later_rows(batch))
        if exists and not is_whole:
            # Before the commit that names the decision: one that was killed in between is not taken for done.
            self._add_columns(rows)

        def exchange() -> None:
            if not exists:
                self.to.save(rows.write.format("delta").mode("error"))
            elif is_whole:
                rows.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(self.location)
            elif batch.rows == "table":
                self._replace_until(rows, decision, batch)
            elif self.guard.key and batch.rows != "window":
                self._merge(target, rows, decision, batch)
            else:
                self._replace_where(rows, f"{WINDOW} = {literal(batch.window)}")

        return commit_decision(self.to, self.guard, decision, STEP, exchange)

    def _has_later_rows(self, batch: VersionBatch) -> bool:
        """Whether later versions published rows before this one was released."""
        return not self.to.read().where(f"{WINDOW} > {literal(batch.window)}").isEmpty()

    def _replace_until(self, rows: DataFrame, decision: Decision, batch: VersionBatch) -> None:
        """Exchange the whole table but for the rows of later versions."""
        until = f"{WINDOW} <= {literal(batch.window)}"
        if not self.guard.key:
            self._replace_where(rows, until)
            return
        clauses = [*self._upserts(rows), f"WHEN NOT MATCHED BY SOURCE AND t.{until} THEN DELETE"]
        merge_rows(self.to, rows.withColumn(REPLACES, F.lit(True)), self.guard.key, decision, clauses)

    def _merge(self, target: GuardTarget, rows: DataFrame, decision: Decision, batch: VersionBatch) -> None:
        """Apply a version by the key: its rows replace older ones, and the keys that it removed go. A key whose row is in
        quarantine keeps the row that it has.
        """
        key = list(self.guard.key)
        if not batch.removes:
            merge_rows(self.to, rows.withColumn(REPLACES, F.lit(False)), key, decision, self._upserts(rows))
            return
        removed = removed_keys(self.to.spark, self.guarded, batch, key)
        arrived = target.rows.select(*map(identifier, key)) if target.is_measured else rows.select(*map(identifier, key))
        removed_only = removed.join(arrived, key, "left_anti").withColumns({REMOVED: F.lit(True), WINDOW: F.lit(batch.window)})
        upserts = rows.join(removed.withColumn(REPLACES, F.lit(True)), key, "left")
        upserts = upserts.withColumns({REPLACES: F.coalesce(REPLACES, F.lit(False)), REMOVED: F.lit(False)})
        deletion = f"WHEN MATCHED AND s.{REMOVED} AND t.{WINDOW} <= s.{WINDOW} THEN DELETE"
        source = upserts.unionByName(removed_only, allowMissingColumns=True)
        merge_rows(self.to, source, key, decision, [deletion, *self._upserts(rows, f"NOT s.{REMOVED}")])

    def _upserts(self, rows: DataFrame, condition: str = "TRUE") -> list[str]:
        """Return the clauses by which rows replace those of their key: what the version itself replaced, and what is older."""
        order = [self.guard.last_modified] if self.guard.last_modified else []
        newer = f"((s.{REPLACES} AND t.{WINDOW} <= s.{WINDOW}) OR {is_newer([*order, WINDOW])})"
        return [
            f"WHEN MATCHED AND {condition} AND {newer} THEN UPDATE SET {assignments(rows.columns)}",
            f"WHEN NOT MATCHED AND {condition} THEN {insertion(rows.columns)}",
        ]

    def _replace_where(self, rows: DataFrame, condition: str) -> None:
        rows.write.format("delta").mode("overwrite").option("replaceWhere", condition).save(self.location)

    def _add_columns(self, rows: DataFrame) -> None:
        """Add the columns that the clean table lacks."""
        names = {name.lower() for name in self.to.read().columns}
        if new := [f"{identifier(name)} {kind}" for name, kind in rows.dtypes if name.lower() not in names]:
            self.to.spark.sql(f"ALTER TABLE {self.to.sql} ADD COLUMNS ({', '.join(new)})")
