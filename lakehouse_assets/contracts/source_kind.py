"""The base of every source kind's model, and what a source is opened with.

Belongs here: what the contract and the pipeline need to know of any source. Does not: any kind, or reading (sources).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import model_validator

from lakehouse_assets.checks.strict_model import StrictModel
from lakehouse_assets.contracts.windows import Cadence, Window
from lakehouse_assets.settings import Settings


@dataclass(frozen=True)
class SourceOpening:
    """What the lake knows when it opens a source.

    ``declared``: the source's names of the declared columns. ``windows``: all windows that have ended by a moment (UTC).
    ``recorded_positions``, ``recorded_fingerprints``: of the windows that were read before, by their start.
    ``timeout_seconds``: for one answer of the source; None without a limit. ``personal``: whether the table has columns marked
    pii: an error then quotes no row.
    """

    settings: Settings
    declared: Sequence[str]
    windows: Callable[[datetime], Sequence[Window]]
    recorded_positions: Mapping[datetime, str]
    recorded_fingerprints: Mapping[datetime, str] | None = None
    timeout_seconds: int | None = None
    personal: bool = False


class SourceKind(StrictModel):
    """What a table's YAML says below `source:`. A kind declares `kind: Literal["…"]`, `nulls` and `timezone`."""

    if TYPE_CHECKING:
        kind: Any  # each kind declares its own literal
        nulls: tuple[str, ...]
        timezone: str

    @model_validator(mode="before")
    @classmethod
    def _settled_is_of_files(cls, data: Any) -> Any:
        if isinstance(data, dict) and "settled" in data and "settled" not in cls.model_fields:
            raise ValueError(
                "settled: only files of `kind: files` have it; of any other source two polls must agree: remove the key"
            )
        return data

    @property
    def medium(self) -> str:
        """The kind of storage, in one word: shown in the UI."""
        raise NotImplementedError  # each kind

    @property
    def location(self) -> str:
        """Where the data is, without any address or secret: shown in the UI and in errors."""
        raise NotImplementedError  # each kind

    @property
    def records_positions(self) -> bool:
        """Whether the offsets of a window are recorded before the read, since the source cannot repeat them."""
        return False

    @property
    def keeps_history(self) -> bool:
        """Whether a window can be read again later; else bronze has its only copy."""
        return True

    @property
    def polled_by_spark(self) -> bool:
        """Whether fingerprints need Spark: a run then starts its session before it asks for them."""
        return False

    def reading(self) -> dict[str, Any]:
        """Return the keys of `source:` that `reads_like` compares, as JSON; each extraction records them. Empty: the same
        content always gives the same rows.
        """
        return {}

    def reads_like(self, recorded: Mapping[str, Any]) -> bool:
        """Whether the same content gives the same rows as by ``recorded``, an earlier `source:` of the table as JSON. If not,
        quarantined windows are read again.
        """
        return True

    def refuse_extraction(self, cadence: Cadence, mode: str, delete_when: str | None) -> None:
        """Raise ValueError for windows or a mode that the source cannot have."""

    def refuse_stream(self, mode: str, delete_when: str | None) -> None:
        """Raise ValueError for a source that cannot be read as a stream, or not in this mode."""
        raise ValueError("extraction.stream: only sources of kind kafka, files or delta can be streams")

    def open_source(self, opening: SourceOpening) -> Any:
        """Return the reader, a `lakehouse_assets.sources.base.Source`, without a connection yet. Extensions' kinds have this:
        `sources/` opens those of the package.
        """
        raise NotImplementedError  # each extension's kind


def refuse_snapshots(history: str, mode: str, kind: str) -> None:
    """Raise ValueError where the mode and the source's history do not fit."""
    if mode == "snapshot" and history != "none":
        raise ValueError(
            f"extraction.mode: a window of a {kind} source has only the rows modified in it; use upsert or append, or"
            " source.history: none for whole snapshots"
        )
    if mode != "snapshot" and history == "none":
        raise ValueError("extraction.mode: with history: none a window has the whole table; use snapshot")
