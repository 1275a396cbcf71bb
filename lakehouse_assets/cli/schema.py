"""`lakehouse schema show|diff|migrate`: what is promised of a table, what it has, what arrived last, and the way between.

Belongs here: arguments → call → listing. Does not: anything that another room could do.
"""

from typing import Annotated, Any

import typer

from lakehouse_assets.cli.common import AsJson, dagster_instance, err, out, pick, show, tables_of
from lakehouse_assets.errors import RefusedError
from lakehouse_assets.settings import Settings

schema_app = typer.Typer(no_args_is_help=True, help="The contract of a table against what there is.")


@schema_app.command("show")
def schema_show(table: str, as_json: AsJson = False) -> None:
    """Each column: what is promised and by whom, what silver has, what the last extraction brought. Starts no JVM."""
    from lakehouse_assets.layers.reality import shown

    show(shown(_reality(table)), as_json, "no columns")


@schema_app.command("diff")
def schema_diff(table: str, as_json: AsJson = False) -> None:
    """Only what differs, of the table and of what arrived last, with what to do and what reads it. Starts no JVM."""
    from lakehouse_assets.layers.reality import table_differences

    reality = _reality(table)
    rows: list[dict[str, Any]] = []
    last = reality.last
    where = f"arrived {last.p_extracted_at:%Y-%m-%d %H:%M} #{last.extraction_seq}" if last else ""
    for place, found in (("silver", table_differences(reality)), (where, reality.arrived)):
        rows += [
            {
                "where": place, "column": d.path, "promised": d.promised, "found": d.arrived,
                "is": "differs" if place == "silver" else d.outcome, "what to do": d.advice, "read by": ", ".join(d.used_by),
            }
            for d in found
        ]  # fmt: skip
    show(rows, as_json, "the table and what arrived last are as the contract says")


@schema_app.command("migrate")
def schema_migrate(
    table: str,
    rename: Annotated[list[str] | None, typer.Option(help="OLD=NEW: the declared column NEW is the table's OLD.")] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Carry the plan out, in one commit.")] = False,
    as_json: AsJson = False,
) -> None:
    """The steps from the table to its contract: what each rewrites, and whether there is a way back. Nothing is done
    without --apply.
    """
    from lakehouse_assets.layers.migrate import plan_of
    from lakehouse_assets.orchestration.headless import run_job

    renames = {}
    for text in rename or ():
        old, equals, new = text.partition("=")
        if not (old and equals and new):
            raise RefusedError(f"--rename {text}: write it as OLD=NEW")
        renames[old] = new
    steps = plan_of(_reality(table), renames)
    show([step.as_row() for step in steps], as_json, "the table is as the contract says; there is nothing to do")
    if not steps:
        return
    if not apply:
        err.print("nothing is done yet; carry it out with --apply", markup=False)
        return
    settings = Settings.from_environment()
    with dagster_instance(settings) as (definitions, instance), err.status(f"migrating silver {table}"):
        found = run_job(definitions, instance, "migrate_schema", "migrate", {"table": table, "renames": renames})
    if not as_json:
        version = found.output_for_node("migrate")["version"]
        out.print(f"silver {table} is as the contract says, from version {version} on", markup=False)


def _reality(table: str) -> Any:
    from lakehouse_assets.contracts.readers import readers_of
    from lakehouse_assets.layers.reality import reality_of
    from lakehouse_assets.orchestration.tables import golds_of

    tables = tables_of()
    spec = pick(tables, table).spec
    return reality_of(Settings.from_environment(), spec, readers_of(spec, golds_of(tables)))
