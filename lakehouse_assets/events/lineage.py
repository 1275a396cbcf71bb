"""A decision as OpenLineage: what was checked and found, what was written from what, and the schema.

Belongs here: the library's events and facets of one decision. Does not: sending them (openlineage), or the names of datasets
(lineage_tables). Importing it needs the extra `openlineage`.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, TypeVar
from uuid import NAMESPACE_URL, uuid5

import attr
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    column_lineage_dataset,
    data_quality_assertions_dataset,
    data_quality_metrics_input_dataset,
    dataset_version_dataset,
    nominal_time_run,
    output_statistics_output_dataset,
    schema_dataset,
)
from openlineage.client.generated.base import BaseFacet, RunFacet

from lakehouse_assets.contracts.decision import ACCEPTED, Decision
from lakehouse_assets.contracts.event import DecisionEvent, EventCheck, event_of
from lakehouse_assets.events.lineage_tables import LineageTable
from lakehouse_assets.events.outbox import Message
from lakehouse_assets.events.recorded_contract import RecordedContract, recorded_contract

# Names this code; nothing is read there.
PRODUCER = "urn:lakehouse-assets"
FORMS = ("whole", "without texts", "without columns and passed checks")
Facets = dict[str, Any]
Facet = TypeVar("Facet", bound=BaseFacet)


@attr.define
class DecisionRunFacet(RunFacet):
    """What the standard has no field for: the verdict, and how to find the decision."""

    decision_id: str
    table: str
    kind: str
    verdict: str
    extraction_seq: int
    number: int
    ruleset_hash: str
    dagster_run_id: str
    rows: dict[str, int]

    @staticmethod
    def _get_schema() -> str:
        return f"{PRODUCER}:decision-run-facet:1"


def lineage_forms(decision: Decision, table: LineageTable, namespace: str) -> Iterator[Message]:
    """Yield the decision's events, then shorter forms: each is sent only if the one before was too large."""
    event = event_of(decision)
    contract = recorded_contract(decision, table)
    for form in FORMS:
        events = _Events(event, table, namespace, contract, form)
        yield Message(event.table, event.event_id, event.event_type, events.all())


@attr.define
class _Events:
    """The events of one decision, in one form."""

    event: DecisionEvent
    table: LineageTable
    namespace: str
    contract: RecordedContract
    form: str

    def all(self) -> list[RunEvent]:
        """Return them in the order of the data's way: extracted, checked, written. None for a superseded batch: the decision
        that superseded it has events of its own.
        """
        superseded = self.event.event_type == "batch.superseded"
        return [] if superseded else [*self._extracted(), *self._checked(), *self._written()]

    def _extracted(self) -> Iterator[RunEvent]:
        """Yield the batch's way into bronze. Its run has one id at every decision on the batch."""
        event, (source, bronze) = self.event, (self.table.source, self.table.bronze)
        if source is None or bronze is None or event.window_start is None:
            return
        batch = f"{event.window_start.isoformat()}#{event.extraction_seq}"
        outputs = [OutputDataset(namespace=self.namespace, name=bronze)]
        yield self._complete(bronze, batch, [self._input(source)], outputs)

    def _checked(self) -> Iterator[RunEvent]:
        """Yield what the checks found. The standard has quality facets for inputs, so the judged table is one."""
        if not self.event.checks:
            return
        guarded = self.table.bronze is None and self.event.layer == "silver"
        judged = self._input(self.table.name, self.event.bronze_version if guarded else None)
        judged.facets, judged.inputFacets = {**(judged.facets or {}), **self._schema()}, self._quality()
        yield self._complete(f"{self.table.name}__checks", self.event.event_id, [judged], [], self._decision_facet())

    def _written(self) -> Iterator[RunEvent]:
        """Yield what was written from what; nothing of a guard that does not publish."""
        if self.table.output is None:
            return
        own = self.table.bronze or (self.table.name if self.table.output != self.table.name else None)
        names: dict[str, int | None] = {own: None} if own else {}
        gold = self.event.layer == "gold"
        for name, version in self.event.inputs.items():
            if name in self.table.inputs:
                # Silver's inputs are numbers of decisions, gold's are Delta versions.
                names[self.table.inputs[name]] = version if gold else None
        inputs = [self._input(name, version) for name, version in names.items()]
        output = OutputDataset(namespace=self.namespace, name=self.table.output, facets=self._schema())
        if self.event.verdict in ACCEPTED and self.event.silver_version is not None:
            output.facets = {**(output.facets or {}), **_version(self.event.silver_version)}
        rows = self.event.counts.rows_published if self.event.verdict in ACCEPTED else 0
        statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=rows)
        output.outputFacets = {"outputStatistics": _own(statistics)}
        yield self._complete(self.table.name, self.event.event_id, inputs, [output], self._decision_facet())

    def _complete(
        self,
        job: str,
        run: str,
        inputs: list[InputDataset],
        outputs: list[OutputDataset],
        facets: Mapping[str, Any] | None = None,
    ) -> RunEvent:
        return RunEvent(
            eventType=RunState.COMPLETE,
            eventTime=_iso(self.event.applied_at),
            run=Run(
                # The same event has the same run however often it is sent: receivers keep one.
                runId=str(uuid5(NAMESPACE_URL, f"{PRODUCER}:{self.namespace}:{job}:{run}")),
                facets={**self._nominal_time(), **(facets or {})},
            ),
            job=Job(namespace=self.namespace, name=job),
            producer=PRODUCER,
            inputs=inputs,
            outputs=outputs,
        )

    def _input(self, name: str, version: int | None = None) -> InputDataset:
        return InputDataset(namespace=self.namespace, name=name, facets={} if version is None else _version(version))

    def _nominal_time(self) -> Facets:
        start, end = self.event.window_start, self.event.window_end
        if start is None:
            return {}
        return {"nominalTime": _own(nominal_time_run.NominalTimeRunFacet(_iso(start), _iso(end) if end else None))}

    def _decision_facet(self) -> Facets:
        event = self.event
        own = {name: getattr(event, name) for name in ("table", "kind", "verdict", "extraction_seq", "number", "ruleset_hash")}
        rows = event.counts.model_dump()
        facet = DecisionRunFacet(decision_id=event.event_id, dagster_run_id=event.run_id, rows=rows, **own)
        return {"lakehouse_decision": _own(facet)}

    def _schema(self) -> Facets:
        if not self.contract.types or self.form == FORMS[-1]:
            return {}
        texts = self.contract.descriptions if self.form == FORMS[0] else {}
        fields = [
            schema_dataset.SchemaDatasetFacetFields(name=name, type=kind, description=texts.get(name))
            for name, kind in self.contract.types.items()
        ]
        facets: Facets = {"schema": _own(schema_dataset.SchemaDatasetFacet(fields=fields))}
        if self.contract.origins:
            lineage = {name: self._origins(origins) for name, origins in self.contract.origins.items()}
            facets["columnLineage"] = _own(column_lineage_dataset.ColumnLineageDatasetFacet(lineage))
        return facets

    def _origins(self, origins: tuple[tuple[str, str], ...]) -> column_lineage_dataset.Fields:
        return column_lineage_dataset.Fields(
            [column_lineage_dataset.InputField(self.namespace, table, column) for table, column in origins]
        )

    def _quality(self) -> Facets:
        """Return the checks as assertions, and the batch's figures that they counted."""
        ran = [check for check in self.event.checks if check.status != "skipped"]
        metrics = data_quality_metrics_input_dataset
        nulls = {
            self.contract.columns[check.check]: metrics.ColumnMetrics(nullCount=check.failed_rows)
            for check in ran
            if check.check in self.contract.null_counts and check.status in ("passed", "failed")
        }
        shown = ran if self.form != FORMS[-1] else [check for check in ran if check.status != "passed"]
        assertions = [self._assertion(check) for check in shown]
        figures = metrics.DataQualityMetricsInputDatasetFacet(nulls, rowCount=self.event.counts.rows_in)
        return {
            "dataQualityMetrics": _own(figures),
            "dataQualityAssertions": _own(data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(assertions)),
        }

    def _assertion(self, check: EventCheck) -> data_quality_assertions_dataset.Assertion:
        counted = check.failed_rows and f"{check.failed_rows} of {self.event.counts.rows_in} rows fail"
        return data_quality_assertions_dataset.Assertion(
            assertion=check.kind,
            success=check.status == "passed",
            column=self.contract.columns.get(check.check),
            severity="error" if check.severity == "critical" else "warn",
            name=check.check,
            description=(check.message or None) if self.form == FORMS[0] else None,
            actual=counted or None,
        )


def _version(version: int) -> Facets:
    return {"version": _own(dataset_version_dataset.DatasetVersionDatasetFacet(str(version)))}


def _own(facet: Facet) -> Facet:
    """Return a facet that names this code: the library's own setting is one for the whole process."""
    facet._producer = PRODUCER
    return facet


def _iso(moment: datetime) -> str:
    return moment.isoformat()
