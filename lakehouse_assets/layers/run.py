"""What a step of the flow is given: the session (started when first used), the places, the table, the clock.

Belongs here: the value that is passed down. Does not: any step.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.settings import Settings


def _nothing(_: str) -> None:
    return None


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Run:
    """One run of one table. ``step`` is told each step's name as it is passed: progress shows it, kill tests stop at it.
    ``readers``: what reads a column downstream, by its name.
    """

    settings: Settings
    spec: TableSpec
    session: Callable[[], SparkSession]
    run_id: str
    clock: Callable[[], datetime] = _utc_now
    step: Callable[[str], None] = _nothing
    readers: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def spark(self) -> SparkSession:
        """The session; the first use starts the JVM."""
        return self.session()

    def path(self, layer: str) -> str:
        """Where this table lies in a layer."""
        return self.settings.path(layer, self.spec.name)
