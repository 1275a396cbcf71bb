"""The text of a table, and what loading it says: for tests of mistakes in a `defs.yaml`. The fixture `load` loads it.

Belongs here: what those tests share. Does not: any mistake.
"""

import re

import pytest

from lakehouse_assets.errors import ConfigError

GOOD = """\
type: lakehouse_assets.LakehouseTable

attributes:
  name: readings
  source: {kind: files, path: "readings/{window:%Y-%m-%d}.csv", format: csv}
  extraction: {cadence: daily, start: 2024-01-01, mode: upsert}
  key: [sensor]
  columns:
    sensor: string
    value: double
  checks:
    - {check: not_empty}
    - {check: in_range, column: value, min: 0, max: 10}
"""


def refused(load, text: str | bytes, **files: str) -> str:
    """Return the message of the ConfigError that loading raises."""
    with pytest.raises(ConfigError) as caught:
        load(text, **files)
    assert caught.value.exit_code == 2
    return str(caught.value)


def names(message: str, *lines: int) -> bool:
    """Whether the message names one of these lines of the `defs.yaml`."""
    return any(re.search(rf"tables/readings/defs\.yaml:{line}(?!\d)", message) for line in lines)
