"""Tables from JSON and Parquet files for the search of one personal value: broken records, wrong types, misplaced cells.

Belongs here: their YAML and files. Does not: the search (test_personal_token).
"""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

TABLE = """
type: lakehouse_assets.LakehouseTable
attributes:
  name: {name}
  source: {{kind: files, path: "{name}/{{window:%Y-%m-%d}}.{format}", format: {format}}}
  extraction: {{cadence: daily, start: 2024-01-01, end: 2024-01-04, mode: upsert}}
  key: [mail]
  columns:
    mail: {{type: string, pii: true}}
    home: {{type: "struct<street: string, number: int>", pii: true}}
    amount: double
    city: string
  checks:
    - {{check: in_range, column: amount, min: 0, max: 10}}
  drift: {{features: [amount, city, {{name: by_city, expr: amount, by: city}}]}}
"""


def add_other_formats(home: Path, landing: Path, token: str) -> None:
    """Add the tables `notes` (JSON) and `visits` (Parquet) to a project, and land three windows of each."""
    good = {"mail": f"a@{token}", "home": {"street": token, "number": 1}, "amount": 1.5, "city": "Bonn"}
    swapped = {**good, "mail": "Bonn", "city": f"a@{token}"}
    wrong = {**good, "amount": token}
    for name, file_format in {"notes": "json", "visits": "parquet"}.items():
        folder = home / "lakehouse_assets" / "tables" / name
        folder.mkdir(parents=True)
        (folder / "defs.yaml").write_text(TABLE.format(name=name, format=file_format))
        (landing / name).mkdir(parents=True)
    lines = {
        1: [json.dumps(swapped), json.dumps({**swapped, "mail": "Rome"})],
        2: [json.dumps(wrong), json.dumps({**good, "home": token}), f'{{"mail": "{token}'],
        3: [json.dumps(good), json.dumps({**good, "mail": None})],
    }
    for day, own in lines.items():
        (landing / "notes" / f"2024-01-0{day}.json").write_text("\n".join(own) + "\n")
    for day, rows in {1: [swapped], 2: [wrong], 3: [good]}.items():
        pq.write_table(pa.Table.from_pylist(rows), landing / "visits" / f"2024-01-0{day}.parquet")
    torn = landing / "visits" / "2024-01-03.parquet"
    torn.write_bytes(torn.read_bytes()[:-3] + token.encode())
