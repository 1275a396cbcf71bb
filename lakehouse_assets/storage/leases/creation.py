"""The first version of a table that `deltalake` writes: created once, whichever of several machines is first.

Belongs here: that version. Does not: rows (storage/delta), or the first version of Spark's tables (log_store).

`deltalake` itself is no help: of two processes that create one table, the slower one adds its rows as version 1, unchecked.
"""

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import obstore
import pyarrow as pa
from deltalake import DeltaTable, Transaction
from obstore.exceptions import AlreadyExistsError

from lakehouse_assets.storage.leases.files import LeaseFiles
from lakehouse_assets.storage.leases.guards import PREFIX, number_of

VERSION = f"_delta_log/{0:020d}.json"


def create_once(
    path: str,
    schema: pa.Schema,
    partition_by: Sequence[str],
    configuration: Mapping[str, str | None],
    transactions: Iterable[Transaction],
) -> None:
    """Create an empty table that states these leases' numbers; nothing if another process has created it meanwhile."""
    with tempfile.TemporaryDirectory() as folder:
        DeltaTable.create(folder, schema, partition_by=list(partition_by) or None, configuration=configuration)
        actions = [json.loads(line) for line in (Path(folder) / VERSION).read_text().splitlines()]
    info = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    if (number := number_of(path)) is not None:
        info["lakehouseLease"] = str(number)
    leases = [each for each in transactions if each.app_id.startswith(PREFIX)]
    actions = [
        {"commitInfo": info},
        *(action for action in actions if "commitInfo" not in action),
        *({"txn": {"appId": lease.app_id, "version": lease.version}} for lease in leases),
    ]
    content = "".join(json.dumps(action) + "\n" for action in actions)
    try:
        obstore.put(LeaseFiles(path).store, VERSION, content.encode(), mode="create")
    except AlreadyExistsError:
        return
