"""`lakehouse contract export|import`: tables as contracts of the Open Data Contract Standard.

Belongs here: arguments → call → file. Does not: what the standard calls what (contracts/open_contract).
"""

from pathlib import Path
from typing import Annotated

import typer

from lakehouse_assets.cli.common import select_tables
from lakehouse_assets.cli.table_file import new_table_file, write_table_file
from lakehouse_assets.cli.terminal import err, out

contract_app = typer.Typer(no_args_is_help=True, help="Exchange contracts of the Open Data Contract Standard.")


@contract_app.command("export")
def contract_export(
    table: str,
    to: Annotated[Path | None, typer.Option(help="The file to write (default: the terminal).")] = None,
    version: Annotated[str, typer.Option(help="The version of the contract.")] = "1.0.0",
) -> None:
    """Write a table's contract as YAML of the standard, version 3.1. Starts no JVM."""
    from lakehouse_assets.contracts.open_contract_export import export_contract

    text, carried = export_contract(select_tables(table)[0].spec, version)
    if to is None:
        typer.echo(text, nl=False)
    else:
        to.write_text(text, encoding="utf-8")
        out.print(f"wrote {to}")
    if carried:
        err.print(f"note: the standard has no place for {', '.join(carried)}: customProperties carry them", highlight=False)


@contract_app.command("import")
def contract_import(
    file: Path,
    table: Annotated[str | None, typer.Option(help="Which table of the contract (default: its only one).")] = None,
) -> None:
    """Write TABLE/defs.yaml into the project's folder of tables, from a contract of the standard, version 3."""
    from lakehouse_assets.contracts.open_contract_import import import_contract

    name, text, advice = import_contract(file, table)
    write_table_file(new_table_file(name), text, advice)
