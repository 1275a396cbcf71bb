"""Rules proposed from a frame, as YAML for a person to read.

Belongs here: a frame → the YAML's text. Does not: which checks are proposed (operations/suggest).
"""

from typing import Any

import yaml
from pyspark.sql import DataFrame

from lakehouse_assets.contracts.columns import Column, declared_type, unfit_name
from lakehouse_assets.contracts.frame_rules import FrameRules, is_hidden
from lakehouse_assets.decisions.proposals import NUMBERS
from lakehouse_assets.frames.session import require_frame
from lakehouse_assets.operations.suggest import propose

MOST_FEATURES = 10


def draft_rules(frame: DataFrame, name: str) -> str:
    """Return rules as YAML. Raises RefusedError for fewer than 100 rows, ValueError for a name that no rules can have."""
    FrameRules(name=name)
    types = {column: kind for column, kind in require_frame(frame).dtypes if not is_hidden(column)}
    columns = {column: Column.model_construct(type=kind) for column, kind in types.items()}
    proposals = propose(frame, "the frame", columns)
    lines = [f"name: {name}", "# key: [the columns that identify a row]"]
    if declared := {column: kind for column, kind in types.items() if _is_declarable(column, kind)}:
        lines += ["columns:", *(f"  {_plain(column)}: {_plain(kind)}" for column, kind in declared.items())]
    lines += ["checks:", *(f"  - {_plain(p.check)}  # {p.because}" for p in proposals)] if proposals else ["checks: []"]
    numbers = [column for column, kind in types.items() if kind.startswith(NUMBERS)][:MOST_FEATURES]
    if numbers:
        lines += ["# drift:", f"#   features: {_plain(numbers)}"]
    return "\n".join(lines) + "\n"


def _is_declarable(column: str, kind: str) -> bool:
    try:
        declared_type(kind)
    except ValueError:
        return False
    return unfit_name(column) is None


def _plain(value: Any) -> str:
    options: Any = {"default_flow_style": True, "sort_keys": False, "width": 10_000, "allow_unicode": True}
    return yaml.safe_dump(value, **options).removesuffix("...\n").strip()
