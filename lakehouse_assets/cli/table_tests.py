"""`lakehouse test`: tests of tables' own rules and SQL, on given rows and without a lake.

Belongs here: arguments → call → listing. Does not: finding or running a test (testing).
"""

import time
from typing import Annotated, Any

import typer
from rich.markup import escape

from lakehouse_assets.cli import common, terminal
from lakehouse_assets.errors import CheckFailedError, RefusedError
from lakehouse_assets.settings import Settings

NO_TESTS = "there are no tests; write them into tests.yaml beside a table's defs.yaml"


def run_tests(
    tables: Annotated[list[str] | None, typer.Argument(help="Only these tables' tests.", metavar="[TABLE]...")] = None,
    as_json: terminal.AsJson = False,
) -> None:
    """Run the tests beside the tables (tests.yaml): given rows through the gate and gold's SQL. Reads no lake, writes nothing.

    Ends with code 8 unless all pass.
    """
    from lakehouse_assets.testing.table_tests import declared_tests, run_table_test

    names, components = tables or [], common.select_tables()
    for name in set(names) - {each.spec.name for each in components}:
        common.select_tables(name)  # unknown, or with a mistake: it says which
    declared = declared_tests(components, names)
    if lacking := [name for name in names if name not in {each.spec.name for each in declared}]:
        raise RefusedError(f"{', '.join(lacking)}: {NO_TESTS}")
    if not declared:
        terminal.show([], as_json, NO_TESTS)
        return
    rows: list[dict[str, Any]] = []
    with common.stop_own_spark(), terminal.err.status("starting Spark") as status:
        from lakehouse_assets.storage.java import FAST_COMPILER
        from lakehouse_assets.storage.session import build_session

        spark = build_session(Settings.from_environment(), "lakehouse test", FAST_COMPILER)
        for each in declared:
            status.update(escape(str(each)))
            began = time.monotonic()
            differences = run_table_test(spark, each)
            rows.append(
                {
                    "table": each.spec.name, "test": each.test.name, "result": "failed" if differences else "passed",
                    "seconds": round(time.monotonic() - began, 1), "at": each.location, "differences": differences,
                }
            )  # fmt: skip
    terminal.show(rows if as_json else [{name: row[name] for name in list(row)[:4]} for row in rows], as_json)
    failed = [row for row in rows if row["differences"]]
    if not as_json:
        terminal.show_lines(
            line for row in failed for line in (f"{row['at']}: {row['test']}", *(f"  {d}" for d in row["differences"]))
        )
    if failed:
        raise CheckFailedError(f"{len(failed)} of {len(rows)} test(s) failed")
