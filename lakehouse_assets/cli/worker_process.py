"""`python -m lakehouse_assets.cli.worker_process`: a worker's process, which executes runs and commands.

Belongs here: that call alone. Does not: the loop (orchestration/workers/process), or a command.
"""

import sys
from functools import partial

from lakehouse_assets.storage.collector import search_rarely

if __name__ == "__main__":
    search_rarely()
    # What follows loads Dagster.
    from lakehouse_assets.cli import main as execute_command
    from lakehouse_assets.cli.on_worker import call_within
    from lakehouse_assets.orchestration.workers.process import main

    main(sys.argv[1], sys.argv[2], partial(call_within, execute_command))
