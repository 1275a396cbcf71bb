"""`lakehouse stream`: a window of what has arrived, every few seconds, until Ctrl-C.

Belongs here: arguments → call → exit code. Does not: anything that another room could do.
"""

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from lakehouse_assets.cli import common, terminal
from lakehouse_assets.cli.termination import INTERRUPTED, end_by_sigterm
from lakehouse_assets.errors import EnvironmentMissing, EvidenceError, LakehouseError, RefusedError, RunFailedError, SourceError
from lakehouse_assets.settings import Settings

STOPPING = (signal.SIGTERM, signal.SIGINT)
FINISHING = (
    b"ending: the window under way is finished first. Ctrl-C again ends at once; the next start then finishes the window.\n"
)


def stream(
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="[TABLE]...", help="Only these tables (default: all with extraction.stream).")
    ] = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="End with what waits now, then rewrite gold that is out of date.")
    ] = False,
) -> None:
    """Make a window of what has arrived, every few seconds, and bring it through the gate; until Ctrl-C.

    A window that is under way is finished first; a second Ctrl-C ends at once, with code 130. A table whose source does not
    answer is tried again, and the others go on.
    """
    from lakehouse_assets.orchestration.streams.service import StreamService

    settings = Settings.from_environment()
    names = _streams(tables or [])
    with common.stop_own_spark(), common.open_instance(settings) as instance:
        service = StreamService(
            settings,
            instance,
            load=lambda: common.load_all_tables().tables,
            is_served=lambda spec: spec.extraction.stream is not None and (not tables or spec.name in names),
            available_now=available_now,
            say=lambda line: terminal.show_lines([line]),
        )
        _log_to_terminal()
        with _ending_by_signal(service.stopping):
            service.serve()
        if available_now and not service.stopping.is_set():
            with end_by_sigterm():
                _rewrite_gold(settings, instance, names)
    if service.failures:
        raise joined_error(service.failures)


def joined_error(failures: Mapping[str, Exception]) -> LakehouseError:
    """Return one error for the tables that failed: a source's, of damaged evidence or of this machine, where all are that."""
    kinds = (SourceError, EvidenceError, EnvironmentMissing)
    kind = next((kind for kind in kinds if all(isinstance(each, kind) for each in failures.values())), RunFailedError)
    return kind("\n".join(f"{name}: {error}" for name, error in sorted(failures.items())))


@contextmanager
def _ending_by_signal(stopping: threading.Event) -> Iterator[None]:
    """Within the block, SIGTERM or Ctrl-C sets ``stopping``. A Ctrl-C after that ends the process and its Java at once."""
    from lakehouse_assets.storage.session_reset import kill_java

    count = 0

    def end(number: int, _frame: Any) -> None:
        nonlocal count
        count += 1
        if count > 1 and number == signal.SIGINT:
            kill_java()
            os._exit(INTERRUPTED)
        if count == 1:
            os.write(2, FINISHING)  # `print` may be interrupted by this very signal
        stopping.set()

    before = {number: signal.signal(number, end) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _streams(names: list[str]) -> list[str]:
    """Return the names of the requested streams. Raises RefusedError for a table that is none, or if there is none at all."""
    loaded = common.select_tables() if not names else [common.select_tables(name)[0] for name in names]
    streams = [table.spec.name for table in loaded if table.spec.extraction.stream is not None]
    others = [name for name in names if name not in streams]
    if others:
        raise RefusedError(f"{', '.join(others)}: no stream: add extraction.stream to its defs.yaml (docs/streams.md)")
    if not streams:
        raise RefusedError("no table is a stream: add extraction.stream to one (docs/streams.md)")
    return streams


def _rewrite_gold(settings: Settings, instance: Any, names: list[str]) -> None:
    """Rewrite what is out of date of these tables' gold, and send what is to be sent, as `lakehouse run` does at its end."""
    from lakehouse_assets.orchestration.healing.foreground import ForegroundRun

    tables = [table for table in common.select_tables() if table.spec.name in names]
    definitions = common.definitions_of(settings)
    datasets = common.project_datasets(settings)
    report = ForegroundRun(definitions, instance, settings, tables, lambda _: False, lineage=datasets).run()
    terminal.show_lines(f"{name}: rewritten" for name in report.gold)
    terminal.err_lines(f"warning: {warning}" for warning in report.warnings)


def _log_to_terminal() -> None:
    """Show the service's warnings, with their time, on the standard error output."""
    import logging

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    log = logging.getLogger("lakehouse.stream")
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False
