"""Leases: which of several machines writes a table, and what keeps a former holder's late commits out.

Belongs here: the files of leases, holding and renewing one, taking over, fencing. Does not: choosing between a lease and a lock
file (storage/lock).
"""

# Delta's name of the commit by which a new holder refuses those of the former one. It changes no row.
FENCE = "LEASE TAKEOVER"
