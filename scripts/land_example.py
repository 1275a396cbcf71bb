"""Copy example files into the landing folder, each one atomically.

Belongs here: what arrives when (`--only`), and a copy that no poll sees half of. Does not: making the files
(`make_examples.py`). `python scripts/land_example.py [--only on_time|late|corrections|all] [--table TABLE]… [--to LANDING]`
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.atomic_write import write_atomically

EXAMPLES = Path(__file__).resolve().parent.parent / "data" / "examples"
TABLES = tuple(sorted(path.name for path in EXAMPLES.glob("*/")))
PARTS = {"on_time": ("on_time",), "late": ("late",), "corrections": ("corrections",), "all": ("on_time", "late")}


def land(source: Path, target: Path) -> bool:
    """Copy unless the target has this content already (it then keeps its mtime). Returns whether it was copied."""
    content = source.read_bytes()
    if target.is_file() and target.read_bytes() == content:
        return False
    write_atomically(target, content)
    return True


def land_part(part: str, landing: str, tables: Sequence[str] | None = None) -> str:
    """Land one part of the example (a key of PARTS) and say in one line how many files arrived. ``tables``: only these."""
    landed: list[bool] = []
    arrived: list[str] = []
    for table in TABLES if tables is None else tables:
        sources = sorted(path for folder in PARTS[part] for path in (EXAMPLES / table / folder).glob("*.*"))
        if sources:
            arrived.append(table)
            target = Path(landing) / table
            target.mkdir(parents=True, exist_ok=True)
            landed += [land(source, target / source.name) for source in sources]
    names = f" ({', '.join(arrived)})" if arrived else ""
    return f"{part}: {sum(landed)} files landed in {landing}{names}, {len(landed) - sum(landed)} were there already"


def main() -> int:
    """Land the chosen files and say how many arrived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=sorted(PARTS), default="all", help="all = on_time + late: every day, faults included")
    parser.add_argument("--table", action="append", choices=TABLES, help="only this table; may be repeated. Without it, all")
    parser.add_argument("--to", help="the landing folder; without it LAKEHOUSE_LANDING, or data/landing")
    arguments = parser.parse_args()
    landing = arguments.to or Settings.from_environment(start=Path(__file__).parent).landing
    if "://" in landing:
        print(f"{landing} is not a local folder; copy what data/examples holds there with its own tools", file=sys.stderr)
        return 2
    print(land_part(arguments.only, landing, arguments.table))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
