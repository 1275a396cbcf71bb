"""A frame as a target of the gate: the caller's rows as one batch, judged by the steps that judge silver.

Belongs here: the rows, the evidence, and where accepted rows go. Does not: the steps (pipeline/gate), or the exchange itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse_assets.checks.base import CheckContext
from lakehouse_assets.checks.sql.text import identifier
from lakehouse_assets.contracts.batch import Batch, start_of
from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.frame_rules import is_hidden
from lakehouse_assets.decisions.decide import BatchEvidence, Knowledge
from lakehouse_assets.decisions.drift.pseudonyms import name_mask
from lakehouse_assets.decisions.frame import decide_frame, frame_context
from lakehouse_assets.errors import RefusedError, SourceError
from lakehouse_assets.frames.session import copy_session, end_session
from lakehouse_assets.frames.staged_rows import StagedRows
from lakehouse_assets.frames.staging_folder import StagingFolder
from lakehouse_assets.measures.batch_numbers import MeasurePlan, measure_drift
from lakehouse_assets.measures.batches import Broken, evaluate
from lakehouse_assets.measures.error_text import error_text
from lakehouse_assets.measures.profile_files import StoredRows
from lakehouse_assets.measures.stage import declared_rules, key_rules
from lakehouse_assets.pipeline.gate import Target
from lakehouse_assets.pipeline.run import FrameRun
from lakehouse_assets.pipeline.staging import choose_frame_ranking, stage_frame, with_batch, write_once
from lakehouse_assets.sources.base import SCAN_ERRORS
from lakehouse_assets.storage.disk_errors import find_disk_fault
from lakehouse_assets.storage.java import is_connect

DECISION_ID = "_decision_id"


@dataclass
class FrameTarget(Target[FrameRun]):
    """The caller's ``rows`` as one ``batch``. ``references``: the tables that checks read. ``publish``: the exchange, which
    returns the version that has the rows; None: nothing is published. ``quarantine_to``: the same for quarantined rows.
    """

    rows: DataFrame = field(kw_only=True)
    batch: Batch = field(kw_only=True)
    number: int = field(kw_only=True)
    knowledge: Knowledge = field(kw_only=True)
    folder: StagingFolder = field(kw_only=True)
    references: Mapping[str, DataFrame] = field(default_factory=dict)
    publish: Callable[[Decision], int | None] | None = None
    quarantine_to: str | None = None
    staged_rows: StagedRows = field(init=False)
    own_session: SparkSession | None = field(default=None, init=False)
    _all_differ: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        # Hidden columns pass through under names that no flag has.
        self.names = {name: f"_own_{i}" if is_hidden(name) else name for i, name in enumerate(self.rows.columns)}

    @property
    def batches(self) -> list[Batch]:
        """The one batch."""
        return [self.batch]

    @property
    def context(self) -> CheckContext:
        """The frame as its checks see it."""
        return frame_context(self.run.spec, start_of(self.batch))

    @property
    def plan(self) -> MeasurePlan:
        """Return a plan of all checks: each is judged before anything is published."""
        checks, key = self.run.spec.checks, self.run.spec.key
        rules = [rule.id for rule in (*key_rules(key), *declared_rules(checks, self.context))]
        return MeasurePlan(checks, self.context, rules, self.run.personal)

    def complete_earlier_runs(self) -> None:
        """Do nothing: the rows of an earlier judgement are gone."""

    def stage_rows(self) -> tuple[DataFrame, Broken]:
        """Read the frame once, in its own session, and store it with its flags. They are measured in another session, whose
        views are the gate's own. Raises SourceError if the frame itself cannot be read.
        """
        caller = self.rows.sparkSession
        own = self.own_session = copy_session(caller)
        self._offer_references(own)
        rows = self.rows.select(*[F.col(identifier(name)).alias(staged) for name, staged in self.names.items()])

        def store(frame: DataFrame) -> DataFrame:
            try:
                return write_once(own, frame, f"{self.folder.path}/rows")
            except SCAN_ERRORS as error:
                if find_disk_fault(error):
                    raise
                if isinstance(error, AnalysisException):
                    # Not of a value: no rule can be at fault.
                    raise RefusedError(f"the frame cannot be stored: {error_text(error, False)}") from error
                self._refuse_unreadable(rows)
                raise

        try:
            staged, broken = stage_frame(self.run, self.batch, rows, self.context, self.references, store)
        except SCAN_ERRORS as error:
            if find_disk_fault(error):
                raise
            raise RefusedError(f"the frame cannot be stored: {error_text(error, self.run.personal)}") from error
        path, schema = f"{self.folder.path}/rows", staged.drop("p_extracted_at", "extraction_seq", "_unreadable").schema
        rank, sorts_all, self._all_differ = choose_frame_ranking(self.run.spec, staged)
        ranked = rank(staged)
        if sorts_all:
            # Sorted once, and not by each reader.
            path, rank = f"{self.folder.path}/ranked", lambda rows: rows
            ranked = write_once(own, ranked, path)
            schema = ranked.schema

        def read() -> DataFrame:
            return rank(with_batch(caller.read.schema(schema).parquet(path), self.batch))

        self.staged_rows = StagedRows(read, self.names, self.folder)
        return ranked, broken

    def close(self) -> None:
        """End the gate's own session. The result's frames are the caller's."""
        own, self.own_session = self.own_session, None
        if own is not None:
            end_session(own)

    def _offer_references(self, own: SparkSession) -> None:
        """Store the columns that checks read of other tables, and name them in the gate's session as its SQL does."""
        for check in self.run.spec.checks:
            if (reads := check.reads) is None:
                continue
            has = {name.lower() for name in self.references[reads.table].columns}
            if missing := [name for name in reads.columns if name.lower() not in has]:
                raise RefusedError(f"{check.id}: the table {reads.table} that was passed has no column {missing[0]!r}")
            if check.scope == "batch":
                path = f"{self.folder.path}/reference-{reads.table}-{check.id}"
                columns = [F.col(identifier(name)) for name in dict.fromkeys(self._columns_read(reads.table))]
                try:
                    stored = write_once(own, self.references[reads.table].select(*columns), path)
                except SCAN_ERRORS as error:
                    if find_disk_fault(error):
                        raise
                    text = error_text(error, self.run.personal)
                    raise SourceError(f"{check.id}: the table {reads.table} cannot be read: {text}") from error
                stored.createOrReplaceTempView(reads.view)

    def _columns_read(self, table: str) -> list[str]:
        has = {name.lower(): name for name in self.references[table].columns}
        reading = [check.reads for check in self.run.spec.checks if check.reads and check.reads.table == table]
        return [has[name.lower()] for reads in reading for name in reads.columns if name.lower() in has]

    def _refuse_unreadable(self, rows: DataFrame) -> None:
        try:
            evaluate(rows)
        except SCAN_ERRORS as error:
            raise SourceError(f"the frame cannot be read: {error_text(error, self.run.personal)}") from error

    def add_measures(self) -> None:
        """Profile the drift features."""
        spec, numbers, stored = self.run.spec, self.numbers[self.batch], None
        if spec.drift and self._all_differ and not is_connect(self.staged.sparkSession):
            stored = StoredRows(list(self.staged.inputFiles()), numbers.rows_in, numbers.newest, newest="_clean")
        self.profiles, self.numbers = measure_drift(
            self.staged, spec.drift, self.numbers, name_mask(spec), stored, personal=self.run.personal
        )

    def decide(self) -> list[Decision]:
        """One decision."""
        evidence = BatchEvidence(self.numbers[self.batch], self.profiles.get(self.batch, []))
        run = self.run
        decision = decide_frame(
            run.spec, self.batch, evidence, self.knowledge, number=self.number, run_id=run.run_id, at=run.clock()
        )
        return [decision]

    @property
    def quarantine_path(self) -> str | None:
        """Where the caller wants quarantined rows."""
        return self.quarantine_to

    def quarantined_rows(self, decisions: Sequence[Decision]) -> DataFrame:
        """The frame's rows with their reasons, and the decision's id."""
        (decision,) = decisions
        return self.staged_rows.quarantined(decision).withColumn(DECISION_ID, F.lit(decision.decision_id))

    def write(self) -> int | None:
        """Hand accepted rows to the exchange."""
        (decision,) = self.own
        return self.publish(decision) if self.publish and decision.accepted else None

    def count_published_rows(self) -> int | None:
        """None: the table may lie where only the caller's session can read."""
        return None

    def deferred(self, decision: Decision) -> tuple[CheckContext, tuple[str, ...]]:
        """Nothing is deferred."""
        return self.context, ()
