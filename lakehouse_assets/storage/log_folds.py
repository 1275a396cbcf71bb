"""What the rows of a table's decisions and extractions add up to, and how a few more rows change it.

Belongs here: adding rows; what does not simply follow is left to a fold of all rows. Does not: reading them (folded_log), or
decoding a row (logs).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.decision import Decision, ExtractionRecord, Reason
from lakehouse_assets.decisions.decision_log import DecisionLog
from lakehouse_assets.decisions.extraction_log import ExtractionLog
from lakehouse_assets.decisions.verdict import verdict_with

Row = Mapping[str, Any]
Rows = Sequence[Row]
DECIDED = ("decided", "superseded")


class DecisionFold:
    """``decisions``: all of a table, in order, with marks and deferred checks: another log each time that some are added.
    ``others``: rows that are no decision, mark or check. ``last_mark``: the newest mark with a version.
    """

    def __init__(self, decode: Callable[[Rows], list[Decision]], rows: Rows, files: Sequence[str]) -> None:
        self._decode, self.decisions = decode, DecisionLog()
        self.others: list[Row] = []
        self.last_mark: Row | None = None
        self._marked, self._checked = set[str](), set[str]()
        # Where a decision is; and where those are that one mark applies to.
        self._by_id, self._by_mark = dict[str, list[int]](), dict[str, list[int]]()
        self._files: dict[str, tuple[str, ...]] = {}
        self._append(rows, files)

    def __len__(self) -> int:
        return len(self.decisions)

    def files_of(self, ids: Iterable[str]) -> set[str]:
        """Return the files with the evidence of these decisions: those of the decisions, and of their deferred checks."""
        return {file for decision_id in ids for file in self._files.get(decision_id, ())}

    @property
    def marks(self) -> list[Row]:
        """The newest mark, and the rows that are no decision, mark or check."""
        return [*self.others, *([self.last_mark] if self.last_mark else [])]

    def _append(self, rows: Rows, files: Sequence[str]) -> None:
        new = self._decode(rows)
        for index, decision in enumerate(new, len(self.decisions)):
            self._by_id.setdefault(decision.decision_id, []).append(index)
            self._by_mark.setdefault(decision.superseded_by or decision.decision_id, []).append(index)
        self.decisions.extend(new)
        for row, file in zip(rows, files, strict=True):
            if row["event"] in (*DECIDED, "checked"):
                self._files[row["decision_id"]] = (*self._files.get(row["decision_id"], ()), file)
            if row["event"] == "applied":
                self._marked.add(row["decision_id"])
                if row["silver_version"] is not None and (self.last_mark is None or _age(row) > _age(self.last_mark)):
                    self.last_mark = row
            elif row["event"] == "checked":
                self._checked.add(row["decision_id"])
            elif row["event"] not in DECIDED:
                self.others.append(row)

    def add(self, rows: Rows, files: Sequence[str]) -> bool:
        """Add rows that came later: decisions after the others, and the first mark and checks of each."""
        new = [row for row in rows if row["event"] in DECIDED]
        marks = {row["decision_id"]: row for row in rows if row["event"] == "applied"}
        checked = {row["decision_id"]: row for row in rows if row["event"] == "checked"}
        if not self._are_later(new) or checked.keys() & self._checked or marks.keys() & self._marked:
            return False
        self.decisions = self.decisions.copy()
        for decision_id, row in marks.items():
            for index in self._by_mark.get(decision_id, ()):
                mark = {name: row[name] for name in ("silver_version", "applied_at")}
                self.decisions.exchange(index, replace(self.decisions[index], **mark))
        for decision_id, row in checked.items():
            reasons = tuple(Reason(**reason) for reason in row["reasons"] or [])
            for index in self._by_id.get(decision_id, ()):
                before = self.decisions[index]
                verdict = verdict_with(before.verdict, bool(reasons))
                self.decisions.exchange(index, replace(before, verdict=verdict, reasons=(*before.reasons, *reasons)))
        self._append(rows, files)
        return True

    def _are_later(self, new: Rows) -> bool:
        """Whether these are new decisions, after all others, of which no mark or check came before."""
        ids = [row["decision_id"] for row in new]
        if len(set(ids)) < len(ids) or any(each in self._by_id or each in self._checked for each in ids):
            return False
        if any((row["superseded_by"] or row["decision_id"]) in self._marked for row in new):
            return False
        last = _order(self.decisions[-1].number, self.decisions[-1].superseded_by) if self.decisions else (0, False)
        return all(_order(row["number"], row["superseded_by"]) > last for row in new)


def _age(row: Row) -> tuple[datetime, int]:
    return row["applied_at"], row["silver_version"]


def _order(number: int, superseded_by: str | None) -> tuple[int, bool]:
    return number, superseded_by is not None


class ExtractionFold:
    """``records``: of each extraction its newest record: another log each time that some are added. ``doubled``: as
    `find_double_records`.
    """

    def __init__(self, decode: Callable[[Rows], list[ExtractionRecord]], rows: Rows) -> None:
        self._decode = decode
        self.records = ExtractionLog(decode(rows))
        self.doubled = find_double_records(rows)
        self.last_at: datetime | None = max((row["extracted_at"] for row in rows), default=None)

    def __len__(self) -> int:
        return len(self.records)

    def add(self, rows: Rows, _: Sequence[str]) -> bool:
        """Add rows that came later, of extractions that have no record yet."""
        batches = [(row["p_extracted_at"], row["extraction_seq"]) for row in rows]
        if len(set(batches)) < len(batches) or any(batch in self.records.by_batch for batch in batches):
            return False
        self.records = self.records.followed_by(self._decode(rows))
        times = [row["extracted_at"] for row in rows]
        self.last_at = max([*times, *([self.last_at] if self.last_at else [])], default=None)
        return True


def find_double_records(rows: Rows) -> set[Batch]:
    """Return extractions that two runs recorded with the same fingerprint and reading, one right after the other.

    With another fingerprint between them, the source was changed and restored before the window was judged. With another
    reading, the keys of `source:` were corrected before.
    """
    batches: set[Batch] = set()
    last: dict[Batch, Row] = {}
    for row in sorted(rows, key=lambda r: r["extracted_at"]):
        batch = (row["p_extracted_at"], row["extraction_seq"])
        earlier = last.get(batch)
        if earlier and _content_of(earlier) == _content_of(row) and earlier["run_id"] != row["run_id"]:
            batches.add(batch)
        last[batch] = row
    return batches


def _content_of(row: Row) -> tuple[str, str | None]:
    return row["fingerprint"], row.get("reading")
