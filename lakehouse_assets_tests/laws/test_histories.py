"""Law 1 on random histories: a model of the exchange on a thousand, the real one on some; a failing seed is in the message.

Belongs here: that silver is the oracle's, whatever came in what order. Does not: crashes (test_kill, chaos).
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as with_settings
from hypothesis import strategies as st

from lakehouse_assets.contracts.batch import Batch
from lakehouse_assets.contracts.decision import Counts, Decision, ExtractionRecord
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.ledger import Link, Live
from lakehouse_assets.decisions.merge_plan import plan_merge
from lakehouse_assets.decisions.order_span import EPOCH, OrderSpan
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.laws.histories import (
    COLUMNS,
    Chain,
    Key,
    Landed,
    PlacedRow,
    Step,
    accepted,
    history,
    is_clean,
    oracle,
    published,
    silver_of,
    start_of,
)
from lakehouse_assets_tests.laws.on_delta import SPECS, check_histories


@dataclass
class Model:
    """The exchange in a few lines: newest rows are merged where the project's own rules allow it, else keys are folded."""

    deletes: bool
    live: dict[int, Chain] = field(default_factory=dict)
    silver: dict[Key, dict[str, Any]] = field(default_factory=dict)
    merged: int = 0
    looked_at: int = 0
    with_kept_columns: int = 0

    def run(self, step: Step, chains: dict[int, Chain]) -> None:
        """``chains``: the accepted extractions after this step."""
        concerned: set[Key] = set()
        new: list[PlacedRow] = []
        touched: list[Decision] = []
        replaced: set[str | None] = set()
        for window in sorted({landed.window for landed in step}):
            before, now = self.live.get(window, []), chains.get(window, [])
            if before == now:
                continue
            start, seq = start_of(window), now[-1][0]
            touched.append(decision_on(window, *now[-1]))
            if seq > 1:
                replaced.add(touched[-1].decision_id)
            concerned |= {p.key for p in published(start, before)}
            self.live[window] = list(now)
            new += published(start, now)
        spec = SPECS["deletes" if self.deletes else "plain"]
        records = [record_of(window, *link) for window, chain in self.live.items() for link in chain]
        plan = plan_merge(spec, touched, live_of(self.live), replaced, records, COLUMNS)
        if plan is not None:
            newer = plan.newer.publishing
            rows = [p for w, chain in self.live.items() for p in published(start_of(w), chain) if batch_of(p) in newer]
            self.looked_at += len(newer)
            self.with_kept_columns += bool(plan.kept_columns)
            self.merge(new, rows, plan.kept_columns)
            return
        fold = silver_of(self.live, deletes=self.deletes, snapshots=False)
        for key in concerned | {p.key for p in new}:
            self.silver.pop(key, None)
            if key in fold:
                self.silver[key] = fold[key]

    def merge(self, new: list[PlacedRow], others: list[PlacedRow], kept_columns: Collection[str]) -> None:
        """``others``: the rows of the batches that may have a newer deletion."""
        self.merged += 1
        newest = {each.key: each for each in sorted(new, key=lambda p: p.order_key)}
        for key, each in newest.items():
            if any(self.is_gone(p) and p.key == key and p.order_key > each.order_key for p in others):
                continue
            before = self.silver.get(key)
            if before is None or order_key_of(before) < each.order_key:
                self.silver.pop(key, None)
                self.silver |= {} if self.is_gone(each) else oracle([each], deletes=False)
                if before and key in self.silver and not any(self.is_gone(p) and p.key == key for p in new):
                    self.silver[key] |= {name: before[name] for name in kept_columns}

    def is_gone(self, each: PlacedRow) -> bool:
        return self.deletes and each.row.get("op") == "D"


def batch_of(each: PlacedRow) -> Batch:
    return each.order_key[1:3]


def record_of(window: int, seq: int, landed: Landed) -> ExtractionRecord:
    """What is recorded when the file is read."""
    at = start_of(window)
    return ExtractionRecord("readings", at, seq, "", len(landed.rows), landed.columns, 0, "", at)


def live_of(chains: dict[int, Chain]) -> Live:
    """These accepted extractions as the ledger gives them."""
    links = {start_of(w): tuple(Link(decision_on(w, *link), True) for link in chain) for w, chain in chains.items()}
    accepted = [chain[-1].decision for chain in links.values()]
    return Live({d.batch: d for d in accepted}, {start: chain for start, chain in links.items() if len(chain) > 1})


def decision_on(window: int, seq: int, landed: Landed) -> Decision:
    """What the gate records of these rows: how many are clean, and from when to when they are."""
    clean = [row for row in landed.cells if is_clean(row)]
    moments = [(datetime.fromisoformat(row["updated"]) - EPOCH) // timedelta(microseconds=1) for row in clean]
    span = logbook.recorded_span(SPECS["plain"], OrderSpan(min(moments), max(moments))) if moments else None
    counts = Counts(len(landed.rows), len(clean), 0, len(landed.rows) - len(clean), 0)
    start = start_of(window)
    return logbook.decided(1 + window, p_extracted_at=start, extraction_seq=seq, counts=counts, order_span=span)


def order_key_of(state: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(state[name] for name in ("updated", "p_extracted_at", "extraction_seq", "_content_hash"))


def agrees(seed: int, deletes: bool, **drawn: Any) -> tuple[bool, Model]:
    """Whether the model's silver is the oracle's; and the model."""
    steps = history(seed, **drawn)
    model = Model(deletes)
    for number, step in enumerate(steps, start=1):
        model.run(step, accepted(steps[:number], deletes=deletes))
    expected = silver_of(accepted(steps, deletes=deletes), deletes=deletes, snapshots=False)
    return model.silver == expected, model


@with_settings(max_examples=1000, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_the_exchange_gives_the_fold(seed, deletes, edits, lacking, in_order):
    same, _ = agrees(seed, deletes, edits=edits, lacking=lacking, in_order=in_order)
    assert same, f"seed {seed}"


def test_the_histories_are_worth_playing(monkeypatch):
    """They merge often, also where rows delete and windows lack a column; and a rule that merged always, or looked at no other
    batch, would be found out.
    """
    assert sum(agrees(seed, False, edits=True, lacking=False)[1].merged for seed in range(100)) > 100
    in_order = [agrees(seed, True, edits=False, lacking=True, in_order=True)[1] for seed in range(100)]
    assert sum(model.merged for model in in_order) > 100
    assert sum(model.looked_at for model in in_order) < sum(model.merged for model in in_order)
    assert sum(model.with_kept_columns for model in in_order) > 10
    with monkeypatch.context() as patch:
        patch.setattr(ledger, "may_merge", lambda *_: True)
        assert sum(not agrees(seed, False, edits=True, lacking=False)[0] for seed in range(100)) > 20
    monkeypatch.setattr(OrderSpan, "may_have_newer", lambda *_: False)
    assert sum(not agrees(seed, True, edits=False, lacking=False)[0] for seed in range(100)) > 20
    assert sum(not agrees(seed, False, edits=False, lacking=True)[0] for seed in range(100)) > 10


@pytest.mark.parametrize(
    ("kind", "seeds"),
    [
        # Eight histories of at most three steps.
        pytest.param("edited", [100, 102, 103, 108, 109, 110, 114, 115], marks=pytest.mark.exhaustive(seconds=60)),
        pytest.param("edited", range(200, 208), marks=pytest.mark.exhaustive(seconds=80)),
        pytest.param("snapshot", [300], marks=pytest.mark.exhaustive(seconds=50)),
        pytest.param("merged", range(8), marks=pytest.mark.exhaustive(seconds=60)),
        pytest.param("deletes", range(200, 208), marks=pytest.mark.exhaustive(seconds=60)),
        pytest.param("deletes_in_order", range(8), marks=pytest.mark.exhaustive(seconds=60)),
    ],
)
def test_on_delta(spark, settings, kind, seeds):
    check_histories(spark, settings, kind, [*seeds])
