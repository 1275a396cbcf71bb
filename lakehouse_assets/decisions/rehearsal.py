"""What a rehearsal found: each faulty copy of a window beside the clean one, what saw it, and what nothing saw.

Belongs here: the comparison, and its sums by fault. Does not: making copies or judging them (operations), or showing the result
(reports).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from lakehouse_assets.decisions.gate import Outcome

# What a check did to a copy that it did not do to the clean one, the strongest first.
LEVELS = ("quarantined", "rows quarantined", "warning", "unseen")
_STRENGTH = {"batch": 3, "rows": 2, "report": 1, "none": 0}
_LEVEL_OF = {3: "quarantined", 2: "rows quarantined", 1: "warning"}


@dataclass(frozen=True)
class Copy:
    """One copy of an accepted window. ``fault``: empty for the clean copy. ``column``, ``partner``: empty for a fault of the
    rows. ``number``: the copy's number among those of its window; 0 is the clean one.
    """

    window: datetime
    number: int
    fault: str = ""
    size: str = ""
    column: str = ""
    partner: str = ""


@dataclass(frozen=True)
class JudgedCopy:
    """A copy as the gate judged it. ``outcomes``: of all checks, deferred ones and drift included. ``published_rows``: those
    that would be in silver. ``changed_rows``: those that differ from the window's, or are more or fewer. ``drifted_feature``:
    the one that was farthest off, where drift did not pass. ``proposals``: names of the proposed checks that it does not pass.
    """

    copy: Copy
    verdict: str
    rows: int
    published_rows: int
    outcomes: tuple[Outcome, ...]
    changed_rows: int = 0
    drifted_feature: str = ""
    proposals: frozenset[str] = frozenset()


class Detection(NamedTuple):
    """What the gate did to a faulty copy and not to the clean one. It is one of `LEVELS`, and the checks that did it, the
    strongest first.
    """

    level: str
    by: tuple[str, ...]


def compare(clean: JudgedCopy, faulty: JudgedCopy) -> Detection:
    """Compare two copies of one window. A check that fails on the clean copy too has seen nothing, unless it does more, or to
    more rows.
    """
    before = {outcome.check: outcome for outcome in clean.outcomes}
    # Where rows are repeated, so are those that fail on the clean copy.
    growth = max(faulty.rows / clean.rows, 1.0) if clean.rows else 1.0
    stronger = [o for o in faulty.outcomes if _strength(o) and _does_more(before.get(o.check), o, growth)]
    stronger.sort(key=_strength, reverse=True)
    if not stronger:
        return Detection("unseen", ())
    names = [
        f"drift of {faulty.drifted_feature}" if o.check == "drift" and faulty.drifted_feature else o.check for o in stronger
    ]
    return Detection(_LEVEL_OF[_strength(stronger[0])], tuple(names))


def _strength(outcome: Outcome) -> int:
    """A check that did not pass and has no effect is a warning too."""
    return max(_STRENGTH[outcome.effect], int(outcome.status in ("failed", "error")))


def _does_more(before: Outcome | None, now: Outcome, growth: float) -> bool:
    if before is None or _strength(now) > _strength(before):
        return True
    return _strength(now) == _strength(before) and now.failed_rows > before.failed_rows * growth


@dataclass(frozen=True)
class FaultSummary:
    """One kind of fault at one size, over all its copies. ``levels``: copies by level. ``seers``: copies by check.
    ``harmless``: unseen copies of which the key publishes the same rows.
    """

    fault: str
    size: str
    copies: int
    levels: Mapping[str, int]
    seers: Mapping[str, int]
    harmless: int = 0

    @property
    def harmful(self) -> int:
        """Copies that the key does not make good."""
        return self.copies - self.harmless

    @property
    def detections(self) -> int:
        """Copies that anything saw."""
        return self.copies - self.levels.get("unseen", 0)


@dataclass(frozen=True)
class Unseen:
    """A fault of a column, at one size, that nothing saw in ``copies`` of ``of`` copies. ``proposals``: proposed checks, as
    YAML, that do not pass in any of these copies, and pass in all clean ones.
    """

    fault: str
    size: str
    column: str
    copies: int
    of: int
    proposals: tuple[str, ...]
    advice: str


@dataclass(frozen=True)
class CleanSummary:
    """The clean copies: false alarms. ``by``: copies by check that did not pass."""

    windows: int = 0
    quarantined: int = 0
    rows_quarantined: int = 0
    warned: int = 0
    by: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Rehearsal:
    """The scorecard of one table. ``windows``: those that were copied with faults. ``unchanged``: copies that a fault left as
    they were, which count nowhere. ``left_out``: columns without faults, and why. ``summaries``: what each kind of fault is.
    """

    table: str
    seed: int
    windows: tuple[datetime, ...]
    clean: CleanSummary
    faults: tuple[FaultSummary, ...]
    unseen: tuple[Unseen, ...]
    unchanged: int
    left_out: Mapping[str, str]
    summaries: Mapping[str, str]

    @property
    def harmful(self) -> int:
        """Faulty copies that would do harm."""
        return sum(each.harmful for each in self.faults)

    @property
    def without_harm(self) -> str:
        """Why no copy would do harm; empty where one would."""
        if self.harmful:
            return ""
        return "no fault would do harm: the key keeps one row of each" if self.faults else "no fault changed any row"

    @property
    def detections(self) -> int:
        """Those that anything saw."""
        return sum(each.detections for each in self.faults)

    @property
    def quarantined(self) -> int:
        """Those that were quarantined as a whole, or some rows of them."""
        return sum(each.levels.get(level, 0) for each in self.faults for level in LEVELS[:2])

    @property
    def remedies(self) -> dict[str, int]:
        """The proposed checks as YAML, with the unseen copies that each would have seen; the most first."""
        copies: Counter[str] = Counter()
        for each in self.unseen:
            copies.update(dict.fromkeys(each.proposals, each.copies))
        return dict(copies.most_common())

    @property
    def share_detected(self) -> float:
        """The share of the harmful copies that anything saw; 1 for none."""
        return self.detections / self.harmful if self.harmful else 1.0


def summarize_clean(copies: Sequence[JudgedCopy]) -> CleanSummary:
    """Return the false alarms."""
    failed = Counter(o.check for copy in copies for o in copy.outcomes if _strength(o))
    quarantined = sum(copy.verdict == "quarantined" for copy in copies)
    rows = sum(copy.verdict != "quarantined" and any(o.effect == "rows" for o in copy.outcomes) for copy in copies)
    warned = sum(copy.verdict == "published_with_warnings" for copy in copies) - rows
    return CleanSummary(len(copies), quarantined, rows, warned, dict(failed.most_common()))


def summarize_faults(pairs: Iterable[tuple[JudgedCopy, JudgedCopy]], removed_by_key: Collection[str]) -> list[FaultSummary]:
    """Return the sums by fault and size, in the order of the copies. ``pairs``: clean and faulty copies, each changed.
    ``removed_by_key``: faults after which the table publishes the same rows.
    """
    levels: dict[tuple[str, str], Counter[str]] = {}
    seers: dict[tuple[str, str], Counter[str]] = {}
    harmless: Counter[tuple[str, str]] = Counter()
    for clean, faulty in pairs:
        key = (faulty.copy.fault, faulty.copy.size)
        detection = compare(clean, faulty)
        levels.setdefault(key, Counter())[detection.level] += 1
        seers.setdefault(key, Counter()).update(detection.by)
        harmless[key] += is_made_good(clean, faulty, removed_by_key)
    return [
        FaultSummary(*key, counts.total(), dict(counts), dict(seers[key].most_common()), harmless[key])
        for key, counts in levels.items()
    ]


def is_made_good(clean: JudgedCopy, faulty: JudgedCopy, removed_by_key: Collection[str]) -> bool:
    """Whether nothing saw the fault, and the same rows would be published in spite of it."""
    same = faulty.copy.fault in removed_by_key and 0 < faulty.published_rows == clean.published_rows
    return same and compare(clean, faulty).level == "unseen"


def list_unseen(
    pairs: Sequence[tuple[JudgedCopy, JudgedCopy]],
    removed_by_key: Collection[str],
    advice: Mapping[Copy, str],
    proposals: Mapping[str, str],
    clean_copies: Sequence[JudgedCopy],
) -> list[Unseen]:
    """Return what nothing saw, by column, fault and size. ``proposals``: YAML by name; those that some clean copy fails are
    not listed.
    """
    noisy = frozenset[str]().union(*[copy.proposals for copy in clean_copies])
    every: Counter[tuple[str, str, str]] = Counter()
    unseen: dict[tuple[str, str, str], list[tuple[JudgedCopy, JudgedCopy]]] = {}
    for clean, faulty in pairs:
        key = (faulty.copy.fault, faulty.copy.size, faulty.copy.column)
        every[key] += 1
        if compare(clean, faulty).level == "unseen" and not is_made_good(clean, faulty, removed_by_key):
            unseen.setdefault(key, []).append((clean, faulty))
    listed = []
    for key, missed in unseen.items():
        failing = frozenset.intersection(*[faulty.proposals - noisy for _, faulty in missed])
        texts = tuple(text for name, text in proposals.items() if name in failing)
        listed.append(Unseen(*key, len(missed), every[key], texts, advice[missed[0][1].copy]))
    return sorted(listed, key=lambda each: (each.column, each.fault))
