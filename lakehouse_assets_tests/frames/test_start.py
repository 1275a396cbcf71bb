"""What `from lakehouse_assets import Gate` loads.

Belongs here: modules that must not be loaded. Does not: seconds, which depend on the machine.
"""

import json
import subprocess
import sys

# Each is loaded by the call that needs it. pandas alone, which `pyarrow.dataset` loads, takes a third of a second.
LATER = ("pandas", "pyarrow.compute", "pyarrow.dataset", "scipy.stats", "matplotlib", "jinja2", "apprise", "obstore")
# A job has no Dagster, no command line and no table of a lake.
NEVER = (
    "dagster",
    "dagster_pyspark",
    "typer",
    "lakehouse_assets.orchestration",
    "lakehouse_assets.cli",
    "lakehouse_assets.tables",
)
LOADED = """
import json, sys
import pyspark.sql
before = set(sys.modules)
from lakehouse_assets import Gate
gate = Gate.from_dict({"name": "orders", "checks": [{"check": "not_empty"}], "drift": {"features": ["amount"]}})
json.dump(sorted(set(sys.modules) - before), sys.stdout)
"""


def test_a_gate_loads_neither_dagster_nor_what_a_later_call_needs(tmp_path):
    process = subprocess.run([sys.executable, "-c", LOADED], cwd=tmp_path, capture_output=True, text=True, check=True)
    loaded = json.loads(process.stdout)
    assert "lakehouse_assets.frames.gate" in loaded
    assert [name for name in (*LATER, *NEVER) if name in loaded] == []
    assert list(tmp_path.iterdir()) == []


def test_no_model_reads_its_docstrings_when_it_is_imported():
    """pydantic's `use_attribute_docstrings` does: a quarter of a second for all check kinds."""
    from lakehouse_assets.checks.registry import kinds
    from lakehouse_assets.contracts.table import TableSpec

    eager = [model.__name__ for model in (*kinds().values(), TableSpec) if model.model_config.get("use_attribute_docstrings")]
    assert eager == []
    assert "description" in TableSpec.model_json_schema()["properties"]["checks"]
