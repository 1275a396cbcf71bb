"""Samples of quarantined rows for window pages: those that show why the window is in quarantine come first. No JVM.

Belongs here: choosing and masking rows. Does not: which windows are in quarantine (history).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltalake.exceptions import DeltaError
from pyarrow import ArrowException
from pyarrow.dataset import field as column

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.contracts.table import TableSpec
from lakehouse_assets.pages.reading import UNREADABLE
from lakehouse_assets.queries.quarantine import decision_sample, presentable_rows
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.delta_dataset import read_first_rows

READ, SHOWN, MOST_DECISIONS = 2_000, 60, 100
FILE, REASONS = "_source_file", "reasons"
HIDDEN = ("outcome", "extraction_seq")


@dataclass(frozen=True)
class PageSample:
    """Rows of one decision. ``header``: their columns. ``marked``: how many first rows show the cause. ``cause``: what those
    rows have in common. ``files``: rows read by file. ``problem``: why there are no rows.
    """

    header: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    marked: int = 0
    cause: str = ""
    files: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""


class SampleReader:
    """Reads the quarantine of one table, opened once."""

    def __init__(self, settings: Settings, table: str) -> None:
        self._settings, self._path = settings, settings.path("quarantine", table)
        self._dataset, self._left = None, MOST_DECISIONS

    def read(self, decision: Decision, spec: TableSpec | None) -> PageSample:
        """Return the sample of a decision; without rules that can be read, no row is shown."""
        if spec is None:
            return PageSample(problem="the rules of this decision cannot be read, so that no value can be shown safely")
        if self._left <= 0:
            return PageSample(problem=f"only the newest {MOST_DECISIONS} windows in quarantine have a sample here")
        self._left -= 1
        try:
            if self._dataset is None:
                if not delta.exists(self._path):
                    return PageSample(problem="this table has no quarantine folder")
                self._dataset = delta.open_dataset(self._path, bounds=["p_extracted_at"])
            wanted = column("decision_id") == decision.decision_id
            if decision.p_extracted_at is not None and "p_extracted_at" in self._dataset.schema.names:
                wanted &= column("p_extracted_at") == decision.p_extracted_at
            rows = read_first_rows(self._dataset, READ, None, wanted).to_pylist()
        except (OSError, ArrowException) as error:
            return PageSample(problem=f"the quarantine cannot be read just now ({type(error).__name__}); make the pages again")
        return choose_rows(presentable_rows(rows, spec), spec, (decision.drift or {}).get("worst"))

    def read_version(self, decision: Decision, personal: Collection[str] | None) -> PageSample:
        """Return the sample of a decision on gold. ``personal``: its columns with personal values; None: nobody knows which."""
        if personal is None:
            command = f"lakehouse quarantine show {decision.table}"
            return PageSample(problem=f"its inputs have personal columns: `{command}` shows the rows without their values")
        if self._left <= 0:
            return PageSample(problem=f"only the newest {MOST_DECISIONS} decisions with rows in quarantine have a sample here")
        self._left -= 1
        try:
            rows = decision_sample(self._settings, decision, personal, (), SHOWN)
        except (OSError, ArrowException, DeltaError, *UNREADABLE) as error:
            return PageSample(problem=f"the quarantine cannot be read just now ({type(error).__name__}); make the pages again")
        header = tuple(dict.fromkeys(name for row in rows for name in row))
        return PageSample(header, tuple(tuple(row.get(name) for name in header) for row in rows))


def choose_rows(rows: Sequence[dict[str, Any]], spec: TableSpec, worst: Mapping[str, Any] | None) -> PageSample:
    """Return the rows to show: those of the stratum that drifted most first, then by key."""
    names = list(dict.fromkeys(name for row in rows for name in row if name not in HIDDEN))
    key = [source for name in spec.key if name in spec.columns for source in spec.source_columns(name)]
    feature = next((f for f in spec.features if worst and f.name == worst["feature"]), None)
    by = feature.by if feature else None
    used = [name for name in sorted(feature.columns_used) if name in spec.columns] if feature else []
    of_feature = [source for name in used for source in spec.source_columns(name)]
    stratum = worst["stratum"] if worst and by else None
    sources = spec.source_columns(by) if by and by in spec.columns else ()

    def is_cause(row: Mapping[str, Any]) -> bool:
        return stratum is not None and any(str(row.get(source)) == stratum for source in sources)

    has_cause = any(map(is_cause, rows))
    ordered = sorted(rows, key=lambda row: (has_cause and not is_cause(row), *(str(row.get(name) or "") for name in key)))
    files: dict[str, int] = {}
    for row in rows:
        files[str(row.get(FILE) or "unknown")] = files.get(str(row.get(FILE) or "unknown"), 0) + 1
    # Reasons of the whole window are above the rows already.
    own_reasons = len({row.get(REASONS) for row in rows}) > 1
    first = list(dict.fromkeys(n for n in (FILE, *((REASONS,) if own_reasons else ()), *key, *of_feature) if n in names))
    names = [name for name in names if name != REASONS or own_reasons]
    header = (*first, *(name for name in names if name not in first))
    marked = sum(map(is_cause, ordered[:SHOWN])) if has_cause else 0
    cause = f"{by} {stratum}, whose {worst['feature']} drifted most" if worst and marked else ""
    cells = tuple(tuple(row.get(name) for name in header) for row in ordered[:SHOWN])
    return PageSample(header, cells, marked, cause, files)
