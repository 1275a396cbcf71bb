"""`lakehouse audit-silver|audit-gold|audit-docs`: audit what is published, and read the pages.

Belongs here: arguments → the job, its answer on the terminal, serving files. Does not: auditing (layers), pages (reports).
"""

import functools
import json
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, Any

import typer

from lakehouse_assets.cli.common import AsJson, dagster_instance, err, out, show
from lakehouse_assets.errors import CheckFailedError, EnvironmentMissing, RefusedError
from lakehouse_assets.settings import AUDIT_PORT, Settings

Table = Annotated[list[str] | None, typer.Option("--table", help="Only this table; again for more (default: all on disk).")]
AsOf = Annotated[int | None, typer.Option("--as-of", min=0, help="Audit this Delta version of the one table that is named.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Draw this sample again (default: the run's second).")]
NoEscalate = Annotated[
    bool, typer.Option("--no-escalate", help="Leave open what the sample cannot tell; the whole table is not looked at.")
]


def add_audits(app: typer.Typer) -> None:
    """Add the three commands."""
    app.command("audit-silver")(audit_silver)
    app.command("audit-gold")(audit_gold)
    app.command("audit-docs")(audit_docs)


def audit_silver(
    table: Table = None, as_of: AsOf = None, seed: Seed = None, no_escalate: NoEscalate = False, as_json: AsJson = False
) -> None:
    """Audit the silver tables by sample and by the rules of audits/, and write the pages. Code 8: a table stops."""
    _audit("silver", table, as_of, seed, no_escalate, as_json)


def audit_gold(
    table: Table = None, as_of: AsOf = None, seed: Seed = None, no_escalate: NoEscalate = False, as_json: AsJson = False
) -> None:
    """Audit the gold tables, as `audit-silver` does those of silver."""
    _audit("gold", table, as_of, seed, no_escalate, as_json)


def _audit(stage: str, tables: list[str] | None, as_of: int | None, seed: int | None, no_escalate: bool, as_json: bool) -> None:
    from lakehouse_assets.contracts.audit import read_rules
    from lakehouse_assets.orchestration.headless import run_job

    settings = Settings.from_environment()
    read_rules()  # a mistake in a pack is told before anything starts
    config: dict[str, Any] = {"tables": tables or [], "escalate": not no_escalate}
    config |= {name: value for name, value in {"as_of": as_of, "seed": seed}.items() if value is not None}
    op = f"audit_{stage}_tables"
    with dagster_instance(settings) as (definitions, instance), err.status(f"auditing {stage}"):
        found = run_job(definitions, instance, f"audit_{stage}", op, config).output_for_node(op)
    if as_json:
        print(json.dumps(found, indent=2))  # noqa: T201
    else:
        rows = [{name: _cell(value) for name, value in audit.items() if name != "results"} for audit in found["audits"]]
        show(rows, False, f"no Delta table lies under {settings.path(stage)}")
        for trouble in found["troubles"]:
            out.print(trouble, markup=False, highlight=False, soft_wrap=True)
        out.print(f"pages: {found['pages']} (`lakehouse audit-docs` serves them)", markup=False, soft_wrap=True)
    if found["stops"]:
        raise CheckFailedError(f"the audit of {stage} stops: {'; '.join(found['stops'])}")


def _cell(value: Any) -> Any:
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def audit_docs(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = AUDIT_PORT,
    host: Annotated[str, typer.Option(help="Another address than loopback shows the pages to others: they have no login.")] = (
        "127.0.0.1"
    ),
) -> None:
    """Make the audits' pages from the log, and serve them until Ctrl-C."""
    from datetime import UTC, datetime

    from lakehouse_assets.contracts.audit import read_rules
    from lakehouse_assets.layers.audit_pages import write_pages

    settings = Settings.from_environment()
    first = write_pages(settings, read_rules(), datetime.now(UTC))
    if not any(first.parent.glob("tables/*.html")):
        raise RefusedError("nothing was audited yet; `lakehouse audit-silver`")
    try:
        server = ThreadingHTTPServer((host, port), functools.partial(_Quiet, directory=str(first.parent)))
    except OSError as error:
        raise EnvironmentMissing(
            f"{host}:{port} cannot be listened on ({error.strerror}); choose another with --port"
        ) from None
    out.print(f"http://{host}:{server.server_port}/ (Ctrl-C ends it)", markup=False, highlight=False)
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            out.print("ended")


class _Quiet(SimpleHTTPRequestHandler):
    """Files of the site alone, no listing of folders, no line per request."""

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def list_directory(self, path: Any) -> None:
        """A folder is no page."""
        self.send_error(404)

    def end_headers(self) -> None:
        """Nothing is to be guessed or kept."""
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()
