"""`lakehouse drift`: the drift gate's decision on two files or Delta tables, outside any project.

Belongs here: files and tables → data frames, the answer on the terminal. Does not: the comparison (decisions).
"""

import json
import re
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from lakehouse_assets.cli.terminal import AsJson, err, out, show
from lakehouse_assets.errors import CheckFailedError, RefusedError
from lakehouse_assets.object_store import is_url

drift_app = typer.Typer(no_args_is_help=True, help="Compare the distributions of two files or Delta tables.")


@drift_app.command("test")
def drift_test(
    file: Annotated[
        str,
        typer.Argument(help="The batch: CSV (also gzip) or Parquet, with a header; or a Delta table, PATH or PATH@vNUMBER."),
    ],
    baseline: Annotated[str, typer.Option(help="The data to compare with: a file or Delta table of the same columns.")],
    history_column: Annotated[
        str | None, typer.Option(help="A column of the baseline that names each row's window. It calibrates the test.")
    ] = None,
    feature: Annotated[
        list[str] | None, typer.Option(help="Only this column; repeat for more (default: all in common).")
    ] = None,
    warn_at: Annotated[
        float | None,
        typer.Option(min=0.0001, max=0.5, help="The p-value up to which it counts as drift (default: as in `drift:`)."),
    ] = None,
    min_effect: Annotated[
        float | None,
        typer.Option(
            min=0.0, max=10.0, help="The tail-weighted distance that no feature counts below (default: as in `drift:`)."
        ),
    ] = None,
    fail: Annotated[bool, typer.Option("--fail", help="End with code 8 if the file has drifted.")] = False,
    as_json: AsJson = False,
) -> None:
    """Decide as the gate does: a warning or a quarantine counts as drift. Without a history, p-values come from Monte Carlo."""
    from lakehouse_assets.decisions.drift.compare import compare

    levels = {name: level for name, level in (("warn_at", warn_at), ("min_effect", min_effect)) if level is not None}
    result = compare(_read(file), _read(baseline), history=history_column, features=feature, **levels)
    for name, why in result.left_out.items():
        err.print(f"note: {name} is not compared: {why}")
    answer = result.to_dict()
    if as_json:
        print(json.dumps(answer, indent=2, allow_nan=False))  # noqa: T201
    else:
        rows = [{k: _short(v) for k, v in row.items() if k != "missing_before"} for row in answer["features"]]
        show(rows, False, "nothing was compared")
        out.print(f"{'drifted' if result.drifted else 'not drifted'}: {result.verdict.message}", highlight=False)
    if fail and result.drifted:
        raise CheckFailedError(f"{file} has drifted from {baseline}")


def _short(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else value


def _read(text: str) -> Any:
    import pandas as pd

    if (table := re.fullmatch(r"(.+?)(?:@v(\d+))?", text)) and (is_url(text) or Path(table[1]).is_dir()):
        return _read_delta(table[1], None if table[2] is None else int(table[2]))
    path = Path(text)
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
    except Exception as error:  # whatever the parsers raise, the file cannot be read
        raise RefusedError(f"{path} cannot be read: {error}") from error


def _read_delta(path: str, version: int | None) -> Any:
    from lakehouse_assets.storage import delta

    try:
        if not delta.exists(path):
            raise RefusedError(f"{path} is no Delta table (a folder or a URL that holds a `_delta_log`)")
        return delta.read_arrow(path, version=version).to_pandas()
    except RefusedError:
        raise
    except Exception as error:  # whatever its readers raise, the table cannot be read
        raise RefusedError(f"{path} cannot be read: {error}") from error
