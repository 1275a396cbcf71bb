"""The last thing that a step does: its checks' results go where they can be asked for.

Belongs here: that a failure of it fails nothing. Does not: what a result is (storage).
"""

from collections.abc import Callable

from lakehouse_assets.measures.isolate import plain
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.check_results import project


def keep_results(settings: Settings, table: str, step: Callable[[str], None]) -> None:
    """Project the table's applied decisions. What fails is told as a step and made up for by the next run, or the sensor."""
    try:
        project(settings, table)
    except Exception as error:
        # The decisions are applied: the data is right, and the log has what is missing here.
        step(f"check results are left to the next run: {plain(error)}")
        return
    step("results_kept")
