"""Commands that a worker executes, where the instance keeps workers: no imports, no new Java.

Belongs here: which commands, and calling one within a worker. Does not: the connection (orchestration/workers/commands).
"""

import os
import shutil
import sys
from collections.abc import Callable, Sequence

from lakehouse_assets.cli import terminal
from lakehouse_assets.cli.kept_definitions import WITHIN
from lakehouse_assets.errors import LakehouseError
from lakehouse_assets.settings import Settings

# Those that run Dagster's jobs on the instance, or read it. None has a path: the worker is in the project's folder.
COMMANDS = (
    ("run",), ("rebuild",), ("verify",), ("heal", "status"), ("schema", "migrate", "--apply"),
    ("audit-silver",), ("audit-gold",), ("audit-guarded",), ("quarantine", "release"), ("quarantine", "discard"),
    ("baseline", "pin"), ("baseline", "reset"), ("guard", "run"), ("guard", "release"), ("guard", "discard"),
)  # fmt: skip


def execute_elsewhere(arguments: Sequence[str]) -> int | None:
    """Execute a command on a warm worker and return its code; None if it is to be executed here."""
    if not _is_one_of(COMMANDS, arguments) or "--help" in arguments or WITHIN in os.environ:
        return None
    from lakehouse_assets.orchestration.workers.commands import execute_on_worker
    from lakehouse_assets.orchestration.workers.configured import configured_pool

    try:
        settings = Settings.from_environment()
    except LakehouseError:
        return None  # the command reports it
    pool = configured_pool(settings)
    if pool is None or settings.project is None:
        return None
    environ = {**os.environ, "DAGSTER_HOME": str(settings.dagster_home)}
    return execute_on_worker(pool, arguments, settings.project, environ)


def _is_one_of(commands: Sequence[Sequence[str]], arguments: Sequence[str]) -> bool:
    for command in commands:
        names = [part for part in command if not part.startswith("-")]
        if list(arguments[: len(names)]) == names and {*command[len(names) :]} <= {*arguments}:
            return True
    return False


def call_within(main: Callable[[], None], arguments: Sequence[str]) -> int:
    """Execute a command in this process, a worker's, and return its code. ``main``: what reads `sys.argv` and executes it."""
    argv = sys.argv
    for console, stream in ((terminal.out, sys.stdout), (terminal.err, sys.stderr)):
        console.width = shutil.get_terminal_size().columns if stream.isatty() else terminal.UNWRAPPED
    os.environ[WITHIN] = "1"
    try:
        sys.argv = ["lakehouse", *arguments]
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        return 130
    finally:
        sys.argv = argv
        del os.environ[WITHIN]
    return 0
