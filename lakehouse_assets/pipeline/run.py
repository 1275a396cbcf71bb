"""What a step of the flow works with: the session (started when first used), the lake's paths, the table, the clock.

Belongs here: the values that are passed down. Does not: any step.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from pyspark.sql import SparkSession

from lakehouse_assets.contracts.frame_rules import FrameRules
from lakehouse_assets.contracts.gold import GoldSpec
from lakehouse_assets.contracts.lineage import GoldQuery
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.decisions.evidence.findings import Finding
from lakehouse_assets.settings import Settings

Contract = TypeVar("Contract", bound=TableContract | GoldSpec | FrameRules)
Table = TypeVar("Table", bound=TableContract)
OtherTable = TypeVar("OtherTable", bound=TableContract)


def _ignore(_: Any) -> None:
    return None


@dataclass(frozen=True)
class TableRun(Generic[Contract]):
    """One run of one table, silver's or gold's, by a contract. ``step`` receives each step's name as it is passed: progress
    shows it, kill tests stop at it. ``attempts``: ids of the runs that this one tries again.
    """

    settings: Settings
    spec: Contract
    session: Callable[[], SparkSession]
    run_id: str
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    step: Callable[[str], None] = _ignore
    attempts: Collection[str] = field(default=(), kw_only=True)

    @property
    def table(self) -> str:
        """Its name in the logs."""
        return self.spec.name

    @property
    def spark(self) -> SparkSession:
        """The session; the first use starts the JVM."""
        return self.session()

    @property
    def pii(self) -> frozenset[str]:
        """The personal columns of a table or frame. Gold has its own."""
        return getattr(self.spec, "pii_columns", frozenset())

    @property
    def personal(self) -> bool:
        """Whether an error of a check may quote a personal value."""
        return bool(self.pii)


@dataclass(frozen=True)
class Run(TableRun[Table]):
    """One run of one table. ``readers``: what reads a column downstream, by its name. ``alarm``: receives the damage before
    the table is refused.
    """

    readers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    alarm: Callable[[Sequence[Finding]], None] = _ignore

    @property
    def published_path(self) -> str:
        """The path of silver."""
        return self.path("silver")

    def path(self, layer: str) -> str:
        """The table's path in a layer."""
        return self.settings.path(layer, self.spec.name)

    def with_contract(self, spec: OtherTable) -> "Run[OtherTable]":
        """The same run by another contract of the table: as it was, or as batches changed it."""
        other: Any = replace(self, spec=spec)
        return other


@dataclass(frozen=True)
class GoldRun(TableRun[GoldSpec]):
    """One run of one gold table. ``pii``: its columns that are made of personal ones. ``reads_personal``: whether its inputs
    have any, on which its SQL may stop.
    """

    query: GoldQuery = field(kw_only=True)
    pii: frozenset[str] = frozenset()  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    reads_personal: bool = False

    @property
    def table(self) -> str:
        """Its name in the logs and as an asset."""
        return f"gold_{self.spec.name}"

    @property
    def published_path(self) -> str:
        """The path of the table."""
        return self.settings.path("gold", self.spec.name)

    @property
    def personal(self) -> bool:
        """Whether an error of its SQL or its checks may quote a personal value."""
        return self.reads_personal or bool(self.pii)


@dataclass(frozen=True)
class FrameRun(TableRun[FrameRules]):
    """One judgement of a data frame. ``settings``: its root is the folder of the log, or one that is removed afterwards.
    ``published_path``: the table that takes the rows; empty for none.
    """

    published_path: str = ""
