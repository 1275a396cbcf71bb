"""Proposals as checks that only warn. Belongs here: which of them a rehearsal judges. Does not: figures (test_dry_run)."""

from lakehouse_assets.decisions.proposals import Proposal
from lakehouse_assets.operations import suggest as suggesting
from lakehouse_assets.operations.suggest import suggested_checks
from lakehouse_assets_tests.logbook import decided, write
from lakehouse_assets_tests.support import readings, runner


def test_a_list_whose_texts_come_and_go_is_judged_in_no_rehearsal(settings, monkeypatch):
    write(settings, [decided(number) for number in range(1, 21)])
    proposals = [Proposal({"check": "in_set", "column": "sensor", "values": ["a", "b"]}, "", lone=lone) for lone in (0, 1, 2)]
    monkeypatch.setattr(suggesting, "suggest", lambda _: proposals)
    assert [check.id for check, _ in suggested_checks(runner(None, settings, readings()))] == ["proposal_0", "proposal_1"]
