"""Which windows bronze is to read before they are judged, and which of them a run could not read.

Belongs here: these windows, as a run finds them in the logs and in bronze. Does not: what the keys are, or where tries are
noted (reading_attempts), or what `heal status` asks without Spark (window_state).
"""

from collections.abc import Sequence
from datetime import datetime

import dagster as dg

from lakehouse_assets.contracts.decision import ExtractionRecord
from lakehouse_assets.decisions import ledger
from lakehouse_assets.decisions.reading import windows_to_read_again
from lakehouse_assets.orchestration.healing.reading_attempts import without_attempted
from lakehouse_assets.pipeline.extraction_records import find_written_again
from lakehouse_assets.pipeline.run import Run
from lakehouse_assets.storage import logs


def windows_still_unread(run: Run) -> set[datetime]:
    """Return the windows that are to be read again after bronze has read all that it could."""
    records, decisions = logs.extractions(run.settings, run.table), logs.decisions(run.settings, run.table)
    again = windows_to_read_again(run.spec, ledger.latest_extractions(records), decisions)
    return again | _find_written_again(run, ledger.undecided_extractions(records, decisions))


def unread_windows(instance: dg.DagsterInstance, run: Run, *, has_failed: bool = False) -> set[datetime]:
    """Return the windows that bronze must read before they are judged, by today's keys or since a killed run left other rows
    than are on record. Windows whose files are gone are not among them: their rows are judged as they were read.
    ``has_failed``: this run's own reading has failed, so that it may have left such rows itself.
    """
    records, decisions = logs.extractions(run.settings, run.table), logs.decisions(run.settings, run.table)
    undecided = ledger.undecided_extractions(records, decisions)
    again = windows_to_read_again(run.spec, ledger.latest_extractions(records), decisions)
    again &= {record.p_extracted_at for record in undecided}
    if has_failed:  # whatever an earlier run could not read, bronze has other rows than are on record
        return without_attempted(instance, run.spec, again) | find_written_again(run, undecided)
    return without_attempted(instance, run.spec, again | _find_written_again(run, undecided))


def _find_written_again(run: Run, undecided: Sequence[ExtractionRecord]) -> set[datetime]:
    """As `find_written_again`, without what this run itself has recorded: that is what it read."""
    return find_written_again(run, [record for record in undecided if record.run_id != run.run_id])
