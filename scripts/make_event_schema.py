"""Write `docs/decision-event.schema.json`: the JSON Schema of the event that each applied decision becomes.

Belongs here: model → file. Does not: a word about any field; that stands below the field, in the model.
"""

import argparse
import json
import sys
from pathlib import Path

from lakehouse_assets.contracts.event import DecisionEvent

SCHEMA = Path(__file__).resolve().parent.parent / "docs" / "decision-event.schema.json"


def main() -> int:
    """Write the file, or with ``--check`` say whether it is what the model gives."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the file is not up to date")
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema |= DecisionEvent.model_json_schema(mode="serialization")
    page = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
    if not parser.parse_args().check:
        SCHEMA.write_text(page, encoding="utf-8")
        return 0
    if SCHEMA.is_file() and SCHEMA.read_text(encoding="utf-8") == page:
        return 0
    print(
        "docs/decision-event.schema.json is not what the model gives; run python scripts/make_event_schema.py", file=sys.stderr
    )
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
