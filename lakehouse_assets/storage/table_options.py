"""Storage options with which `deltalake` opens a table.

Belongs here: keys of S3 that are in no variable. Does not: addresses (object_store), or where such keys come from (s3_keys).

By itself `deltalake` asks a role for its keys each time that it opens a table, which is some hundred times in a run. So it gets
those that this process has asked for. They stay valid for minutes at least, which is longer than a table is kept open.
"""

from lakehouse_assets.object_store import ObjectStore
from lakehouse_assets.s3_keys import find_keys


def table_options(path: str) -> dict[str, str] | None:
    """Return the options for a table's path; None if it needs none. Raises EnvironmentMissing if S3 has no keys."""
    store = ObjectStore.from_environment()
    options = store.options(path)
    if not store.needs_keys(path):
        return options
    keys = find_keys()
    named = {"AWS_ACCESS_KEY_ID": keys["access_key_id"], "AWS_SECRET_ACCESS_KEY": keys["secret_access_key"]}
    token = {"AWS_SESSION_TOKEN": keys["token"]} if keys["token"] else {}
    return {**(options or {}), **named, **token}
