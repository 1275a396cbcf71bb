"""Pyarrow's file system of a folder or of an object store.

Belongs here: opening one. Does not: addresses and options (object_store), or what is in a file.
"""

from pyarrow import fs

from lakehouse_assets.object_store import Azure, AzureAddress, ObjectStore, is_azure


def open_filesystem(location: str) -> tuple[fs.FileSystem, str]:
    """Return pyarrow's file system, and the path within it. Raises OSError or ValueError for an address that it refuses."""
    store = ObjectStore.from_environment()
    if is_azure(location):
        return _open_azure(store.azure, AzureAddress.from_location(location))
    return fs.FileSystem.from_uri(store.arrow_uri(location))


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
