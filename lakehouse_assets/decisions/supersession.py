"""Whether a batch may replace published rows, and the records of the extractions that it replaces.

Belongs here: the check `supersede` and those records, from numbers. Does not: measuring them, or other checks (gate).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from lakehouse_assets.contracts.decision import Counts, Decision
from lakehouse_assets.contracts.table_contract import TableContract
from lakehouse_assets.decisions.gate import Outcome
from lakehouse_assets.decisions.naming import first_of
from lakehouse_assets.decisions.numbers import BatchNumbers

CHECK = "supersede"
NAMED = 20
WAY_OUT = "if the source means it, release with --override supersede, or set `supersede: any`"
# Where an override would publish nothing.
CORRECTION = "correct the file, `columns` or the checks that fail: --override supersede alone publishes no value of it"


@dataclass(frozen=True)
class Replaced:
    """The measured rows that a batch would replace.

    ``published``: keys that are published now, of its window's earlier extractions (snapshot mode: of silver; append mode:
    rows). ``lost``: those that the batch does not have; where these are too many, only those that no other window publishes.
    ``stays``: by sequence number of each earlier extraction, the number of rows that stay published since the batch has their
    key in quarantine. ``undecided``: ``lost`` is too many, and other windows of the run may still publish some of them.
    """

    published: int = 0
    lost: int = 0
    stays: Mapping[int, int] = field(default_factory=dict)
    error: str = ""
    undecided: bool = False


def loses_too_much(spec: TableContract, rows_in: int, published: int, lost: int) -> bool:
    """Whether a batch of this many rows is refused for the keys that it does not have. Append mode compares rows instead."""
    if spec.supersede == "any" or spec.extraction.mode == "append" or not lost:
        return False
    return not rows_in or lost / published > spec.supersede.max_loss


def supersede_outcome(
    spec: TableContract, numbers: BatchNumbers, replaced: Replaced | None, lacking: Collection[str]
) -> list[Outcome]:
    """The check `supersede`: the batch is plausible beside the rows it would replace. None where a first delivery has no fault.

    ``lacking``: declared columns that no file of the batch has. ``replaced``: None where the batch replaces nothing.
    """
    if replaced and replaced.error:  # also where any batch may replace another: what stays of the earlier one is not known
        return [Outcome(CHECK, CHECK, "critical", "error", "batch", 0, replaced.error)]
    if spec.supersede == "any":
        return []
    clean = numbers.newest + numbers.older
    before, lost = (replaced.published, replaced.lost) if replaced else (0, 0)
    unit = "key(s)"
    if spec.extraction.mode == "append":
        # Rows without a key: a correction cannot be told from a loss, so their numbers are compared.
        unit = "row(s)"
        lost = max(0, before - numbers.newest - sum(replaced.stays.values() if replaced else ()))
    faults, without_values = [], False
    if numbers.rows_in and not clean and not numbers.unreadable:  # of a file that cannot be read `readable_row` speaks
        faults.append(f"none of its {numbers.rows_in} row(s) is clean")
        without_values = True
    if not numbers.rows_in and lost:
        faults.append(f"it has no rows, where {before} {unit} are published")
    if numbers.rows_in and set(lacking) >= set(spec.declared.columns):
        faults.append("it has none of the declared columns")
        without_values = True
    elif numbers.rows_in and replaced and (missing := [name for name in spec.key if name in lacking]):
        faults.append(f"it lacks the key column(s) {first_of(missing, NAMED)}")
    if before and clean and lost / before > spec.supersede.max_loss:
        share = f"{lost / before:.0%} of {before} published {unit} are not in it"
        faults.append(f"{share} (supersede.max_loss: {spec.supersede.max_loss:g})")
    observed = {"published_before": before, "lost": lost}
    if faults:
        message = f"{'; '.join(faults)}; {CORRECTION if without_values else WAY_OUT}"
        return [Outcome(CHECK, CHECK, "critical", "failed", "batch", numbers.rows_in, message, observed)]
    return [Outcome(CHECK, CHECK, "critical", "passed", "none", 0, "", observed)] if replaced else []


def supersession_records(earlier: Collection[Decision], by: Decision, replaced: Replaced | None) -> list[Decision]:
    """The records of the extractions that ``by`` replaces; none for those whose record stays as it is. ``earlier``: the current
    decisions of the window's earlier extractions. Rows that stay published are not superseded.
    """
    stays = replaced.stays if replaced else {}
    records = []
    for old in earlier:
        rows = stays.get(old.extraction_seq, 0)
        if old.superseded_by is None or old.counts.rows_published != rows:
            counts = Counts(old.counts.rows_in, rows, old.counts.rows_in - rows)
            records.append(replace(
                old, number=by.number, counts=counts, superseded_by=by.decision_id, run_id=by.run_id,
                decided_at=by.decided_at, operation=None, teaches=False, evolved={}, checks=(), drift=None, profiles=(),
                silver_version=None, applied_at=None,
            ))  # fmt: skip
    return records
