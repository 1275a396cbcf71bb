"""`lakehouse drift`: the gate's decision on two files, outside any table.

Belongs here: files → data frames, the answer on the terminal. Does not: the comparison (decisions).
"""

import json
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from lakehouse_assets.cli.common import AsJson, err, out, show
from lakehouse_assets.errors import CheckFailedError, RefusedError

drift_app = typer.Typer(no_args_is_help=True, help="Is this data distributed as that data was.")


@drift_app.callback()
def _several() -> None:
    """Keeps `test` a command of its own, alone as it is."""


@drift_app.command("test")
def drift_test(
    file: Annotated[Path, typer.Argument(help="The batch: CSV (also gzip) or Parquet, with a header.")],
    baseline: Annotated[Path, typer.Option(help="What it is compared with: a file of the same columns.")],
    history_column: Annotated[
        str | None, typer.Option(help="A column of the baseline that says which window a row is of: it calibrates.")
    ] = None,
    feature: Annotated[
        list[str] | None, typer.Option(help="Only this column; again for more (default: all in common).")
    ] = None,
    warn_at: Annotated[float, typer.Option(min=0.0001, max=0.5, help="The p-value up to which it counts as drift.")] = 0.05,
    min_effect: Annotated[
        float, typer.Option(min=0.0, max=10.0, help="A feature whose tail-weighted distance is not above this never counts.")
    ] = 0.05,
    fail: Annotated[bool, typer.Option("--fail", help="End with code 8 when it has drifted.")] = False,
    as_json: AsJson = False,
) -> None:
    """Decide as the gate would: warned of or held is drifted. Without a history, p-values are of Monte Carlo and say so."""
    from lakehouse_assets.decisions.compare import compare

    levels = {"warn_at": warn_at, "min_effect": min_effect}
    found = compare(_read(file), _read(baseline), history=history_column, features=feature, **levels)
    for name, why in found.left_out.items():
        err.print(f"note: {name} is not compared: {why}", markup=False)
    if as_json:
        print(json.dumps(found.to_dict(), indent=2, allow_nan=False))  # noqa: T201
    else:
        answer = found.to_dict()
        rows = [{k: _short(v) for k, v in row.items() if k != "missing_before"} for row in answer["features"]]
        show(rows, False, "nothing was compared")
        out.print(f"{'drifted' if found.drifted else 'not drifted'}: {found.verdict.message}", markup=False, highlight=False)
    if fail and found.drifted:
        raise CheckFailedError(f"{file} has drifted from {baseline}")


def _short(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else value


def _read(path: Path) -> Any:
    import pandas as pd

    if not path.is_file():
        raise RefusedError(f"there is no file {path}")
    name = path.name.lower()
    if name.endswith((".parquet", ".pq")):
        read = pd.read_parquet
    elif name.endswith((".csv", ".csv.gz", ".tsv")):
        read = partial(pd.read_csv, sep="\t" if name.endswith(".tsv") else ",")
    else:
        raise RefusedError(f"{path}: its name must end with .csv, .csv.gz, .tsv or .parquet, which says how to read it")
    try:
        return read(path)
    except Exception as error:  # whatever the parsers raise, the file is what cannot be read
        raise RefusedError(f"{path} cannot be read: {error}") from error
