"""Write `lakehouse_assets/tables/table.schema.json`: the JSON schema of a table's `defs.yaml`, for editors.

Belongs here: model → file. Does not: a word about any key; that stands below the key, in the model.
"""

import argparse
import sys
from pathlib import Path

from lakehouse_assets.contracts.schema_file import is_current, write_schema
from lakehouse_assets.orchestration.assets.table_files import tables_folder
from lakehouse_assets.settings import Settings


def main() -> int:
    """Write the file, or with ``--check`` say whether it is what the models give."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the file is not up to date")
    folder = tables_folder(Settings.from_environment({}, start=Path(__file__).parent))
    if not parser.parse_args().check:
        write_schema(folder)
        return 0
    if is_current(folder):
        return 0
    print("table.schema.json is out of date; run python scripts/make_table_schema.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
