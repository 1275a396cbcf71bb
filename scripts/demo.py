"""The demonstration on real data: land the year without three days, run, land the late days, run again, print the results.

Belongs here: the order of the demonstration. Does not: anything that the project itself does.
"""

import sys
import time
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))
from land_example import land_part

from lakehouse_assets.cli import main as lakehouse
from lakehouse_assets.decisions import ledger
from lakehouse_assets.errors import LakehouseError
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import logs

out = Console(width=None if sys.stdout.isatty() else 160)


def command(*arguments: str) -> None:
    """Run a `lakehouse` command in this process, so that one JVM serves the whole demonstration."""
    out.print(f"\n$ lakehouse {' '.join(arguments)}", style="bold", markup=False)
    before, sys.argv = sys.argv, ["lakehouse", *arguments]
    try:
        lakehouse()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.argv = before


def main() -> int:
    """Run the demonstration. Exit code 5 where there is a lake already."""
    began = time.monotonic()
    settings = Settings.from_environment()
    if logs.decisions(settings):
        out.print("there is a lake already; `make clean-data` forgets it, `make dev` opens it", style="red")
        return 5
    out.rule("1 · the year arrives, without 10 to 12 June; LGA's barometer is 0.1 kPa off from 9 to 12 September")
    out.print(land_part("on_time", settings.landing, ["weather"]), markup=False)
    command("run", "--table", "weather")
    out.rule("2 · the late days arrive")
    out.print(land_part("late", settings.landing, ["weather"]), markup=False)
    command("run", "--table", "weather")
    out.rule("3 · what happened")
    decisions = logs.decisions(settings, "weather")
    current = ledger.current_decisions(decisions).values()
    published = sum(d.accepted for d in current)
    rows = sum(d.counts.rows_published for d in current)
    quarantined = sum(d.counts.rows_quarantined for d in current)
    out.print(f"{published} of {len(current)} windows published ({rows} rows); {quarantined} rows in quarantine", markup=False)
    healed = [d for d in current if f"{d.p_extracted_at:%Y-%m-%d}" in ("2013-06-10", "2013-06-11", "2013-06-12")]
    out.print("healed: " + ", ".join(f"{d.p_extracted_at:%Y-%m-%d} {d.verdict}" for d in healed), markup=False)
    command("quarantine", "list")
    out.print(
        "\nThe faulty days stay quarantined. To land the corrected files:"
        " .venv/bin/python scripts/land_example.py --only corrections"
        "\nand then: .venv/bin/lakehouse run     To see it all: make dev",
        markup=False,
    )
    out.print(f"\n{time.monotonic() - began:.0f} s", style="dim")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LakehouseError as error:
        out.print(f"error: {error}", style="red", markup=False)
        sys.exit(error.exit_code)
