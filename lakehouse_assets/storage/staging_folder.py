"""Where a run stages rows: below `staging/<table>`, and under a lease in a folder of that lease.

Belongs here: the path. Does not: writing or removing what is there.
"""

from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.leases.guards import lease_of


def staging_path(settings: Settings, table: str, *parts: str) -> str:
    """Return a path of this run's staged rows, within the table's lock. A process that has lost its lease without noticing then
    neither reads nor removes those of the next holder.
    """
    lease = lease_of(settings, table)
    return settings.path("staging", table, *([f"lease-{lease.number}"] if lease else []), *parts)
