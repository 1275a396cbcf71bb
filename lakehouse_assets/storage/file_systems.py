"""Pyarrow's file system of a folder or of an object store.

Belongs here: opening one, and what is a folder there. Does not: addresses and options (object_store), or what is in a file.
"""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
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


def is_folder(filesystem: fs.FileSystem, path: str) -> bool:
    """Whether a folder is there."""
    info = filesystem.get_file_info(path)
    return info.type is fs.FileType.Directory or _is_marker(filesystem, info)


def delete_folder(filesystem: fs.FileSystem, path: str) -> None:
    """Delete a folder that is there, and the object that stands for it on Azure."""
    with suppress(FileNotFoundError):  # an object stands for an empty folder
        filesystem.delete_dir(path)
    if filesystem.get_file_info(path).type is fs.FileType.File:
        filesystem.delete_file(path)


def without_markers(filesystem: fs.FileSystem, infos: Iterable[fs.FileInfo]) -> list[fs.FileInfo]:
    """Return these entries of a listing without empty objects of Azure that stand for folders."""
    return [info for info in infos if not _is_marker(filesystem, info)]


def _is_marker(filesystem: fs.FileSystem, info: fs.FileInfo) -> bool:
    """Whether an entry is an empty object that stands for a folder, as Hadoop's connector and Azure's tools create one where an
    account has no folders of its own. Pyarrow lists it as a file, and does not open it.
    """
    if info.type is not fs.FileType.File or info.size or filesystem.type_name != "abfs":
        return False
    try:
        filesystem.open_input_stream(info.path).close()
    except FileNotFoundError:
        return False
    except OSError as error:
        return "Not a regular file" in str(error)
    return False


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
