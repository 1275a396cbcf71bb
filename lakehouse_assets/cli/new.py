"""`lakehouse new`: make a project, or complete one.

Belongs here: writing what is not there, and listing what to add. Does not: the texts (contracts/new_project).
"""

import os
from pathlib import Path
from typing import Annotated

import typer

from lakehouse_assets.cli.terminal import out, show_lines
from lakehouse_assets.errors import EnvironmentMissing


def new(
    folder: Annotated[Path, typer.Argument(help="The project's folder (default: the working directory).")] = Path(),
) -> None:
    """Make a Dagster project with a lakehouse, or complete an existing one. No existing file is changed."""
    from lakehouse_assets.contracts.new_project import plan_project

    folder = folder.expanduser().absolute()
    home = os.environ.get("DAGSTER_HOME")
    plan = plan_project(folder, Path(home).absolute() if home else None)
    try:
        for path, text in plan.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            out.print(f"wrote {_shown(path, folder)}")
    except OSError as error:
        raise EnvironmentMissing(f"{error.filename or folder} cannot be written: {error.strerror}") from None
    for path, text in plan.additions.items():
        out.print(f"\nadd to {_shown(path, folder)}, which exists and stays as it is:\n")
        show_lines(f"    {line}" if line else "" for line in text.splitlines())
    if home and Path(home).absolute() != folder:
        out.print(
            f"\nuses the Dagster instance in {Path(home).absolute()}, because DAGSTER_HOME is set;"
            " unset it, and run this command again, for one of the project's own",
            soft_wrap=True,
        )
    is_complete = not plan.files and not plan.additions
    out.print(f"{folder} is complete" if is_complete else "\nnext: lakehouse init TABLE --from FILE, in the project's folder")


def _shown(path: Path, folder: Path) -> Path:
    return path.relative_to(folder) if path.is_relative_to(folder) else path
