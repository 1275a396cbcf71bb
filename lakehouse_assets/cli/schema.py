"""`lakehouse schema show|diff|migrate`: a table's contract beside silver and the last extraction, and the steps between them.

Belongs here: arguments → call → listing. Does not: anything that another room could do.
"""

from typing import Annotated, Any

import typer

from lakehouse_assets.cli.common import find_table, run_operation, select_tables
from lakehouse_assets.cli.terminal import AsJson, err, out, show
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.settings import Settings

schema_app = typer.Typer(no_args_is_help=True, help="Compare a table's contract with its schema, and migrate it.")


@schema_app.command("show")
def schema_show(table: str, as_json: AsJson = False) -> None:
    """List each column: what the contract declares and where, what silver has, what the last extraction had. Starts no JVM."""
    from lakehouse_assets.queries.schema_status import column_rows

    show(column_rows(_status(table)), as_json, "no columns")


@schema_app.command("diff")
def schema_diff(table: str, as_json: AsJson = False) -> None:
    """List only differences of silver and of the last extraction with rows, with what to do and what reads them; and undeclared
    columns of the 20 extractions before. Starts no JVM.
    """
    from lakehouse_assets.queries.schema_status import table_differences

    status = _status(table)
    rows: list[dict[str, Any]] = []
    arrived = [("silver", table_differences(status)), (_arrival(status.last), status.arrived)]
    arrived += [(_arrival(record), (difference,)) for record, difference in status.earlier]
    for where, differences in arrived:
        rows += [
            {
                "where": where, "column": d.path, "promised": d.promised, "found": d.arrived,
                "is": "differs" if where == "silver" else d.outcome, "what to do": d.advice, "read by": ", ".join(d.used_by),
            }
            for d in differences
        ]  # fmt: skip
    show(rows, as_json, "the table and the last extraction are as the contract says")


@schema_app.command("migrate")
def schema_migrate(
    table: str,
    rename: Annotated[list[str] | None, typer.Option(help="OLD=NEW: the declared column NEW is the table's OLD.")] = None,
    lose: Annotated[
        list[str] | None,
        typer.Option(help="A column whose values may be lost, since bronze does not have them; repeat for more."),
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Carry the plan out, in one commit.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the steps from silver to its contract: what each rewrites, and whether you can go back. Nothing is changed without
    --apply.
    """
    from lakehouse_assets.operations.rebuild import describe_replaced_rows, plan_of, refuse_loss

    renames = {}
    for text in rename or ():
        old, equals, new = text.partition("=")
        if not (old and equals and new):
            raise RefusedError(f"--rename {text}: write it as OLD=NEW")
        renames[old] = new
    status = _status(table)
    steps = plan_of(status, renames)
    show([step.as_row() for step in steps], as_json, "the table is as the contract says; there is nothing to do")
    if not steps:
        return
    if replaced := describe_replaced_rows(Settings.from_environment(), status.spec.declared, steps):
        err.print(f"warning: {replaced}", soft_wrap=True)
    if not apply:
        err.print("nothing is changed yet; carry the plan out with --apply")
        return
    refuse_loss(table, steps, lose or ())
    config = {"table": table, "renames": renames, "lose": lose or []}
    version = run_operation("migrate_schema", config)["version"]
    if not as_json:
        out.print(f"silver {table} is as the contract says, from version {version} on")


def _arrival(record: Any) -> str:
    return f"arrived {record.p_extracted_at:%Y-%m-%d %H:%M} #{record.extraction_seq}" if record else ""


def _status(table: str) -> Any:
    from lakehouse_assets.contracts.references import readers_of
    from lakehouse_assets.orchestration.assets.described_table import golds_of
    from lakehouse_assets.queries.schema_status import read_schema_status

    tables = select_tables()
    spec = find_table(tables, table).spec
    return read_schema_status(Settings.from_environment(), spec, readers_of(spec, golds_of(tables)))
