"""What a log adds up to while decisions are added, marked and checked, against a plain list of them that is folded anew."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lakehouse_assets.contracts.decision import Counts, Decision
from lakehouse_assets.decisions import ledger, log_parts
from lakehouse_assets.decisions.decision_log import DecisionLog, Sums, count_alike, log_of
from lakehouse_assets_tests.logbook import DECIDED, decided

START = datetime(2024, 1, 1, tzinfo=UTC)
VERDICTS = ("published", "published_with_warnings", "quarantined")
KINDS = ("judged", "released", "discarded", "rejudged")
COUNTS = (Counts(3, 3), Counts(3, 2, 0, 1), Counts(3, 0, 0, 3), Counts(3, 2, 0, 0, 1))
steps = st.one_of(
    st.tuples(
        st.just("decide"),
        st.integers(0, 3),
        st.integers(1, 3),
        st.sampled_from(VERDICTS),
        st.sampled_from(KINDS),
        st.sampled_from(COUNTS),
        st.booleans(),
    ),
    st.tuples(st.just("mark"), st.integers(0, 30)),
    st.tuples(st.just("check"), st.integers(0, 30), st.sampled_from(VERDICTS)),
    st.tuples(st.just("double"), st.integers(0, 30), st.integers(-2, 0)),
)


def next_decisions(log: list[Decision], window: int, seq: int, verdict, kind, counts, teaches: bool) -> list[Decision]:
    """A decision with the next number, and the records of what it supersedes."""
    number = max((d.number for d in log), default=0) + 1
    evolved = {"more": "string"} if number % 7 == 0 else {}
    new = decided(
        number, p_extracted_at=START + timedelta(days=window), extraction_seq=seq, verdict=verdict, kind=kind, counts=counts,
        teaches=teaches, evolved=evolved,
    )  # fmt: skip
    replaced = [d for d in ledger.earlier(new, log) if d.accepted] if new.accepted else []
    return [new, *(replace(d, number=number, superseded_by=new.decision_id) for d in replaced)]


def assert_same(log: DecisionLog, decisions: list[Decision]) -> None:
    last = ledger.last_number(decisions)
    assert [*log] == decisions
    assert ledger.last_number(log) == last
    for as_of in (None, last, last - 1):
        # Of both, also the order.
        for fold in (ledger.current_decisions, ledger.accepted_decisions):
            assert [*fold(log, as_of).items()] == [*fold(decisions, as_of).items()]
        assert ledger.live_decisions(log, as_of) == ledger.live_decisions(decisions, as_of)
        if as_of is not None:
            assert ledger.joined_decisions(log, as_of) == ledger.joined_decisions(decisions, as_of)
    assert ledger.live_decisions(log).publishing == ledger.live_decisions(decisions).publishing
    assert ledger.unapplied_decisions(log) == ledger.unapplied_decisions(decisions)
    assert ledger.lost_marks(log) == ledger.lost_marks(decisions)
    assert ledger.quarantined_decisions(log) == ledger.quarantined_decisions(decisions)
    assert ledger.ids_of(log) == ledger.ids_of(decisions) == {d.decision_id for d in decisions}
    assert ledger.superseding_ids(log) == ledger.superseding_ids(decisions)
    assert ledger.has_evolution(log) == ledger.has_evolution(decisions)
    starts = {START + timedelta(days=day) for day in range(0, 6, 2)}
    assert _by_number(ledger.of_windows(log, starts)) == _by_number(ledger.of_windows(decisions, starts))
    for first in (START, START + timedelta(days=2)):
        recent = ledger.current_decisions(log_parts.since_windows(log, first, 1)).values()
        needed = {d.p_extracted_at for d in ledger.current_decisions(decisions).values() if d.superseded_by is None}
        needed = {start for start in needed if start >= first} | {*sorted(start for start in needed if start < first)[-1:]}
        assert needed <= {d.p_extracted_at for d in recent}
    between = (START + timedelta(days=1), START + timedelta(days=2))
    by_id = [sorted(d.decision_id for d in log_parts.decided_between(each, *between)) for each in (log, decisions)]
    assert by_id[0] == by_id[1]
    assert {*log_parts.applied_decisions(log)} == {*log_parts.applied_decisions(decisions)}
    ids = {d.decision_id for d in decisions[:2]}
    assert log_parts.windows_of_ids(log, ids) == log_parts.windows_of_ids(decisions, ids)
    for part in (lambda each: log_parts.superseded_decisions(each, ids),):
        assert sorted(d.number for d in part(log)) == sorted(d.number for d in part(decisions))
    own = [d for d in decisions if d.superseded_by is None]
    doubled = Counter(d.decision_id for d in own) | Counter(d.number for d in own)
    if ledger.are_single(log):
        assert all(times == 1 for times in doubled.values())


def _by_number(by_window: Mapping[datetime, Sequence[Decision]]) -> dict[datetime, list[Decision]]:
    """The order of two writers' decisions is no one's."""
    return {start: sorted(own, key=lambda d: d.number) for start, own in by_window.items()}


@given(st.lists(steps, max_size=25), st.integers(0, 5))
def test_a_log_that_grows_adds_up_to_what_its_decisions_do(history, first_look):
    log, decisions, before = DecisionLog(), list[Decision](), list[tuple[DecisionLog, list[Decision]]]()
    for index, (step, *values) in enumerate(history):
        log = log.copy()
        if step == "decide":
            new = next_decisions(decisions, *values)
            log.extend(new)
            decisions = [*decisions, *new]
        elif decisions:
            at = values[0] % len(decisions)
            old = decisions[at]
            if step == "mark":
                new = [replace(old, silver_version=1, applied_at=DECIDED)]
            elif step == "check":
                new = [replace(old, verdict=values[1])]
            else:  # two writers without a lock
                new = [replace(old, number=old.number + values[1], run_id="other")]
            if step == "double":
                log.extend(new)
                decisions = [*decisions, *new]
            else:
                log.exchange(at, new[0])
                decisions = [*decisions[:at], *new, *decisions[at + 1 :]]
        if index >= first_look:
            assert_same(log, decisions)
        before.append((log, decisions))
    for (first, old), (second, new) in pairwise(before):
        assert log_parts.changed_windows(first, second) >= log_parts.changed_windows(old, new)
        assert log_parts.lost_ids(first, second) == log_parts.lost_ids(old, new)
    for earlier, content in before:
        assert_same(earlier, content)
        assert_same(DecisionLog(content), content)


def test_decisions_that_follow_one_another_are_single():
    log = DecisionLog(decided(number) for number in range(1, 5))
    assert ledger.are_single(log)
    assert ledger.are_single(log.followed_by([decided(9)]))
    assert not ledger.are_single(log.followed_by([decided(4)]))
    assert not ledger.are_single([*log])  # nobody has looked


def test_what_is_known_is_not_computed_again(monkeypatch):
    log = DecisionLog(decided(number) for number in range(1, 5))
    assert ledger.last_number(log) == 4
    monkeypatch.setattr(Sums, "of", None)
    later = log.followed_by([decided(5)])
    later.exchange(4, replace(decided(5), applied_at=DECIDED))
    assert [d.number for d in ledger.unapplied_decisions(later)] == [1, 2, 3, 4]
    assert ledger.last_number(log) == 4


def test_a_log_is_equal_to_its_decisions_and_stays_itself():
    log = DecisionLog([decided(1)])
    assert log == [decided(1)]
    assert log != [decided(2)]
    assert log != 1
    assert log_of(log) is log
    assert log_of([decided(1)]) == log


def test_how_many_first_ids_are_the_same():
    assert count_alike([1, 2], [1, 2, 3]) == 2
    assert count_alike(["a", "b", "c"], ["a", "x", "c"]) == 1
    assert count_alike([], [1]) == 0
