"""`lakehouse audit-silver|audit-gold|audit-guarded|audit-docs`: audit published tables, and serve the pages.

Belongs here: arguments → the job, its result on the terminal, serving files. Does not: auditing (audit), pages (reports).
"""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from lakehouse_assets.cli.common import load_all_tables, run_operation
from lakehouse_assets.cli.terminal import AsJson, show, show_json, show_lines
from lakehouse_assets.errors import CheckFailedError, RefusedError
from lakehouse_assets.settings import AUDIT_PORT, Settings

Table = Annotated[list[str] | None, typer.Option("--table", help="Only this table; repeat for more (default: all on disk).")]
AsOf = Annotated[int | None, typer.Option("--as-of", min=0, help="Audit this Delta version; needs one --table.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Draw the sample of this seed again (default: a new one).")]
NoEscalate = Annotated[
    bool, typer.Option("--no-escalate", help="Do not read the whole table where the sample leaves a rule inconclusive.")
]


def audit_command(layer: str) -> Callable[..., None]:
    """Return the command that audits the tables of a layer."""

    def audit(
        table: Table = None, as_of: AsOf = None, seed: Seed = None, no_escalate: NoEscalate = False, as_json: AsJson = False
    ) -> None:
        from lakehouse_assets.contracts.audit import read_rules

        read_rules(own=Settings.from_environment().audits)  # reports a mistake in a pack before anything starts
        if layer == "guarded" and all(guard.spec.format != "delta" for guard in load_all_tables().guards):
            raise RefusedError("this project guards no Delta table; `type: lakehouse_assets.GuardedTable` makes a guard")
        config: dict[str, Any] = {"tables": table or [], "escalate": not no_escalate}
        config |= {name: value for name, value in {"as_of": as_of, "seed": seed}.items() if value is not None}
        summary = run_operation(f"audit_{layer}", config)
        if as_json:
            show_json(summary)
        else:
            rows = [{name: _cell(value) for name, value in line.items() if name != "results"} for line in summary["audits"]]
            show(rows, False, f"there is no Delta table under {Settings.from_environment().path(layer)}")
            show_lines([*summary["troubles"], f"pages: {summary['pages']} (`lakehouse audit-docs` serves them)"])
        if summary["stops"]:
            raise CheckFailedError(f"the audit of {layer} stops: {'; '.join(summary['stops'])}")

    audit.__doc__ = (
        f"Audit the {layer} tables by sample, with the rules of audits/, and write the pages. Code 8: a table stops."
    )
    return audit


def _cell(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def audit_docs(
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port of the pages; 0: a free one.")] = AUDIT_PORT,
    host: Annotated[
        str, typer.Option(help="An address other than loopback lets others read the pages: they have no login.")
    ] = ("127.0.0.1"),
) -> None:
    """Write the audits' pages from the log, and serve them until Ctrl-C."""
    from datetime import UTC, datetime

    from lakehouse_assets.audit.pages import write_pages
    from lakehouse_assets.contracts.audit import read_rules
    from lakehouse_assets.orchestration.assets.described_table import golds_of
    from lakehouse_assets.orchestration.jobs.audits import declared_tables, marks_of

    settings, loaded = Settings.from_environment(), load_all_tables()
    specs, guards = ([each.spec for each in tables] for tables in (loaded.tables, loaded.guards))
    marks = marks_of(declared_tables(settings, specs, golds_of(loaded.tables), guards))
    folder = write_pages(settings, read_rules(own=settings.audits), datetime.now(UTC), marks).parent
    if not any(folder.glob("tables/*.html")):
        raise RefusedError("nothing has been audited yet; run `lakehouse audit-silver` first")
    from lakehouse_assets.cli.serving import serve_folder

    serve_folder(folder, host, port)
