"""Law 1 on random histories: a model of the exchange on a thousand, the real one on some; a failing seed is in the message.

Belongs here: that silver is the oracle's, whatever came in what order. Does not: crashes (test_kill, chaos).
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as with_settings
from hypothesis import strategies as st

from lakehouse_assets.contracts.decision import Decision
from lakehouse_assets.decisions import ledger
from lakehouse_assets_tests import logbook
from lakehouse_assets_tests.laws.histories import (
    COLUMNS,
    Chain,
    Key,
    PlacedRow,
    Step,
    accepted,
    history,
    oracle,
    published,
    silver_of,
    start_of,
)
from lakehouse_assets_tests.laws.on_delta import SPECS, check_histories


@dataclass
class Model:
    """The exchange in a few lines: newest rows are merged where the project's own rule allows it, else keys are folded."""

    deletes: bool
    live: dict[int, Chain] = field(default_factory=dict)
    silver: dict[Key, dict[str, Any]] = field(default_factory=dict)
    merged: int = 0

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
            touched.append(logbook.decided(len(touched) + 1, p_extracted_at=start, extraction_seq=seq))
            if seq > 1:
                replaced.add(touched[-1].decision_id)
            concerned |= {p.key for p in published(start, before)}
            self.live[window] = list(now)
            new += published(start, now)
        complete = all(landed.columns == COLUMNS for chain in self.live.values() for _, landed in chain)
        extraction = SPECS["deletes" if self.deletes else "plain"].extraction
        if complete and ledger.may_merge(extraction, touched, replaced):
            self.merged += 1
            for each in new:
                if each.key not in self.silver or order_key_of(self.silver[each.key]) < each.order_key:
                    self.silver |= oracle([each], deletes=False)
            return
        fold = silver_of(self.live, deletes=self.deletes, snapshots=False)
        for key in concerned | {p.key for p in new}:
            self.silver.pop(key, None)
            if key in fold:
                self.silver[key] = fold[key]


def order_key_of(state: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(state[name] for name in ("updated", "p_extracted_at", "extraction_seq", "_content_hash"))


def agrees(seed: int, deletes: bool, **drawn: bool) -> tuple[bool, int]:
    """Whether the model's silver is the oracle's, and how often it merged."""
    steps = history(seed, **drawn)
    model = Model(deletes)
    for number, step in enumerate(steps, start=1):
        model.run(step, accepted(steps[:number], deletes=deletes))
    expected = silver_of(accepted(steps, deletes=deletes), deletes=deletes, snapshots=False)
    return model.silver == expected, model.merged


@with_settings(max_examples=1000, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.booleans(), st.booleans())
def test_the_exchange_gives_the_fold(seed, deletes, edits, lacking):
    same, _ = agrees(seed, deletes, edits=edits, lacking=lacking)
    assert same, f"seed {seed}"


def test_the_histories_are_worth_playing(monkeypatch):
    """They merge often, and a rule that merged always would be found out, by what is deleted and by what is edited."""
    assert sum(agrees(seed, False, edits=True, lacking=False)[1] for seed in range(100)) > 100
    monkeypatch.setattr(ledger, "may_merge", lambda *_: True)
    assert sum(not agrees(seed, True, edits=False, lacking=False)[0] for seed in range(100)) > 20
    assert sum(not agrees(seed, False, edits=True, lacking=False)[0] for seed in range(100)) > 20


@pytest.mark.parametrize(
    ("kind", "seeds"),
    [
        # Eight histories of at most three steps.
        pytest.param("edited", [100, 102, 103, 108, 109, 110, 114, 115], marks=pytest.mark.exhaustive(seconds=60)),
        pytest.param("edited", range(200, 208), marks=pytest.mark.exhaustive(seconds=80)),
        pytest.param("snapshot", [300], marks=pytest.mark.exhaustive(seconds=50)),
        pytest.param("merged", range(8), marks=pytest.mark.exhaustive(seconds=60)),
        pytest.param("deletes", range(200, 208), marks=pytest.mark.exhaustive(seconds=60)),
    ],
)
def test_on_delta(spark, settings, kind, seeds):
    check_histories(spark, settings, kind, [*seeds])
