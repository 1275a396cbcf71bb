"""Pyarrow's file system of a folder or of an object store.

Belongs here: opening one. Does not: addresses and options (object_store), or what is in a file.
"""

import os
import re
from functools import lru_cache
from urllib.parse import unquote

from pyarrow import fs

from lakehouse_assets.object_store import Azure, AzureAddress, ObjectStore, is_azure
from lakehouse_assets.s3_keys import find_keys


def open_filesystem(location: str) -> tuple[fs.FileSystem, str]:
    """Return pyarrow's file system, and the path within it. Raises OSError or ValueError for an address that it refuses,
    and EnvironmentMissing if S3 has no keys.
    """
    store = ObjectStore.from_environment()
    if is_azure(location):
        return _open_azure(store.azure, AzureAddress.from_location(location))
    if store.needs_keys(location):
        bucket, _, path = unquote(re.sub("^s3[an]?://", "", location)).strip("/").partition("/")
        return _open_bucket(store.arrow_uri(f"s3://{bucket}"), repr(store.s3.profile)), f"{bucket}/{path}".rstrip("/")
    return fs.FileSystem.from_uri(store.arrow_uri(location))


@lru_cache(maxsize=8)
def _open_bucket(uri: str, profile: str) -> fs.FileSystem:
    """Return one file system for a bucket: each one asks a role for keys, and renews its own. ``profile``: whose keys. Raises
    EnvironmentMissing without any: it would send requests without a signature.
    """
    find_keys()
    return fs.FileSystem.from_uri(uri)[0]


# The client of a forked process would wait for threads that it does not have.
os.register_at_fork(after_in_child=_open_bucket.cache_clear)


def _open_azure(azure: Azure, address: AzureAddress) -> tuple[fs.FileSystem, str]:
    # Without a key it looks for credentials by itself: a workload's identity, a service principal, a machine's identity.
    key = azure.key.get_secret_value() if azure.key else None
    path = f"{address.container}/{address.path}".rstrip("/")
    if not azure.endpoint:
        return fs.AzureFileSystem(address.account, account_key=key), path
    scheme, _, rest = azure.endpoint.partition("://")
    authority = rest.split("/")[0]
    filesystem = fs.AzureFileSystem(
        address.account,
        account_key=key,
        blob_storage_authority=authority,
        dfs_storage_authority=authority,
        blob_storage_scheme=scheme,
        dfs_storage_scheme=scheme,
    )
    return filesystem, path
