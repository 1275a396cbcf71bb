"""A run that Dagster starts again after it was killed has another id, and names the run that it tries again.

Belongs here: which attempts a gate receives. Does not: what is the same operation (decisions).
"""

from types import SimpleNamespace

import dagster as dg
import pytest

from lakehouse_assets.orchestration.dagster_internals import RETRIED_RUN_TAGS
from lakehouse_assets.orchestration.spark import table_run
from lakehouse_assets_tests.support import readings


@pytest.mark.parametrize(
    ("status", "attempts"), [(dg.DagsterRunStatus.FAILURE, {"first"}), (dg.DagsterRunStatus.SUCCESS, set()), (None, {"first"})]
)
def test_attempts_are_the_runs_that_did_not_succeed(settings, status, attempts):
    """A run that succeeded and is re-executed in the UI is another request."""
    tags = dict.fromkeys(RETRIED_RUN_TAGS, "first")
    instance = SimpleNamespace(get_run_by_id=lambda _: status and SimpleNamespace(status=status))
    context = SimpleNamespace(run=SimpleNamespace(run_id="second", tags=tags), instance=instance, log=None)
    run = table_run(readings(), settings, context)
    assert (run.run_id, set(run.attempts)) == ("second", attempts)
