"""Keys of S3 that are in no variable: which profile is read, what is said if there is none, and that each library uses them.

Belongs here: files, settings, the libraries without Spark. Does not: whole runs (e2e/test_s3_keys).
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse_assets.errors import EnvironmentMissing
from lakehouse_assets.object_store import S3A_CHAIN, ObjectStore
from lakehouse_assets.s3_keys import find_keys
from lakehouse_assets.storage.file_systems import open_filesystem
from lakehouse_assets_tests.e2e.s3_roles import PROFILE_KEY, ROLE_KEY, SECRET, TOKEN, role_endpoint, without_keys, write_profile
from lakehouse_assets_tests.e2e.store_proxy import StoreProxy, store_behind_proxy
from lakehouse_assets_tests.support import PROJECT_ROOT

LAKE = "s3a://lake/lake"
KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
PROVIDER = "spark.hadoop.fs.s3a.aws.credentials.provider"


def test_a_profile_gives_the_region_and_its_keys_are_read_by_the_libraries(tmp_path):
    store = ObjectStore.from_environment({"HOME": str(tmp_path), **write_profile(tmp_path)})
    assert store.options(LAKE) == {"AWS_REGION": "eu-central-1"}
    assert store.arrow_uri(LAKE) == "s3://lake/lake?region=eu-central-1"
    assert store.hadoop(LAKE) == {"spark.hadoop.fs.s3a.endpoint.region": "eu-central-1", PROVIDER: S3A_CHAIN}
    assert SECRET not in repr(store) + store.model_dump_json()
    assert PROFILE_KEY not in repr(store) + store.model_dump_json()


def test_keys_and_the_region_in_variables_win(tmp_path):
    variables = {"AWS_ACCESS_KEY_ID": "mine", "AWS_SECRET_ACCESS_KEY": "mine too", "AWS_REGION": "eu-west-1"}
    store = ObjectStore.from_environment({"HOME": str(tmp_path), **write_profile(tmp_path), **variables})
    assert store.options(LAKE) == {"AWS_REGION": "eu-west-1"}
    assert PROVIDER not in store.hadoop(LAKE)


def test_files_elsewhere_and_the_default_profile(tmp_path):
    (tmp_path / "settings").write_text("[DEFAULT]\n[default]\nregion = eu-north-1\ns3 =\n    max_queue_size = 1%\n")
    paths = {"AWS_CONFIG_FILE": str(tmp_path / "settings"), "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none")}
    assert ObjectStore.from_environment(paths).options(LAKE) == {"AWS_REGION": "eu-north-1"}
    named = ObjectStore.from_environment({**paths, "AWS_PROFILE": "default"})
    assert named.arrow_uri(LAKE) == "s3://lake/lake?region=eu-north-1"


@pytest.mark.parametrize("location", ["s3a://lake/some/lake", "s3a://lake/some/lake/", "s3://lake", "s3a://lake/a%20b/c"])
def test_a_location_is_the_same_path_with_keys_in_variables_and_without(tmp_path, monkeypatch, location):
    for name, value in {"HOME": str(tmp_path), "AWS_ENDPOINT_URL": "http://127.0.0.1:9", **write_profile(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    paths = []
    for keys in ({"AWS_ACCESS_KEY_ID": "mine", "AWS_SECRET_ACCESS_KEY": "mine too"}, dict.fromkeys(KEYS, "")):
        for name, value in keys.items():
            monkeypatch.setenv(name, value)
        paths.append(open_filesystem(location)[1])
    assert paths[0] == paths[1]
    assert open_filesystem(location)[0] is open_filesystem(location)[0], "each file system would ask a role for keys"


def test_a_profile_with_a_login_is_refused_before_spark_starts(tmp_path):
    """What needs no Spark goes on: the other libraries know logins."""
    variables = {"HOME": str(tmp_path), **write_profile(tmp_path)}
    (tmp_path / ".aws" / "credentials").unlink()
    with (tmp_path / ".aws" / "config").open("a") as file:
        file.write("sso_session = shop\nsso_account_id = 123456789012\nsso_role_name = lakekeeper\n")
    store = ObjectStore.from_environment(variables)
    assert store.options(LAKE) == {"AWS_REGION": "eu-central-1"}
    with pytest.raises(
        EnvironmentMissing, match=r"has a login .* which Spark cannot use: .* --profile lakekeeper --format env"
    ):
        store.hadoop(LAKE)
    assert ObjectStore.from_environment({**variables, **dict.fromkeys(KEYS, "mine")}).hadoop(LAKE)
    write_profile(tmp_path)
    assert ObjectStore.from_environment(variables).hadoop(LAKE), "with keys beside it"


@pytest.mark.parametrize("reader", ["options", "arrow_uri", "hadoop"])
def test_an_absent_profile_is_named_before_any_library_looks_for_it(tmp_path, reader):
    store = ObjectStore.from_environment({"HOME": str(tmp_path), **write_profile(tmp_path), "AWS_PROFILE": "nobody"})
    with pytest.raises(EnvironmentMissing, match=r"the profile nobody, which is in neither .*credentials nor .*config$"):
        getattr(store, reader)(LAKE)
    assert store.options("/lake") is None, "a lake on a disk asks for none"


def test_a_file_that_cannot_be_read_is_named_without_its_content(tmp_path):
    variables = {"HOME": str(tmp_path), **write_profile(tmp_path)}
    (tmp_path / ".aws" / "credentials").write_text(f"aws_secret_access_key = {SECRET}\n")
    with pytest.raises(EnvironmentMissing, match="credentials cannot be read") as raised:
        ObjectStore.from_environment(variables).options(LAKE)
    assert SECRET not in str(raised.value)


def test_without_a_profile_and_a_role_the_error_names_the_variables(tmp_path, monkeypatch):
    for name, value in {**without_keys(tmp_path), "AWS_ACCESS_KEY_ID": ""}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(EnvironmentMissing, match="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"):
        find_keys()


def test_a_role_that_is_refused_is_reported_without_the_answer(tmp_path, monkeypatch):
    monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0)
    with role_endpoint(tmp_path) as role:
        for name, value in {**without_keys(tmp_path), **role.of_container}.items():
            monkeypatch.setenv(name, value)
        (tmp_path / "token").write_text("may-not-ask")
        with pytest.raises(EnvironmentMissing, match=r"cannot be read from the profile or the role: \w+$"):
            find_keys()


def test_the_last_keys_of_a_role_are_used_while_it_does_not_answer(tmp_path, monkeypatch):
    monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0)
    periods = iter(range(0, 10_000, 1_000))
    monkeypatch.setattr("lakehouse_assets.s3_keys.time.monotonic", lambda: next(periods))
    with role_endpoint(tmp_path) as role:
        for name, value in {**without_keys(tmp_path), **role.of_container}.items():
            monkeypatch.setenv(name, value)
        keys = find_keys()
        (tmp_path / "token").write_text("may-not-ask")
        assert find_keys()["access_key_id"] == keys["access_key_id"] == ROLE_KEY
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "other"))
        (tmp_path / "other").write_text("may-not-ask")
        with pytest.raises(EnvironmentMissing):  # of another environment
            find_keys()


def test_a_web_identity_is_changed_into_keys_for_the_libraries_without_a_chain(proxy: StoreProxy, tmp_path, monkeypatch):
    """Of leases and logs. Pyarrow asks Amazon's own address for them, wherever AWS_ENDPOINT_URL_STS leads."""
    with role_endpoint(tmp_path) as role:
        own = {"AWS_ENDPOINT_URL_S3": proxy.variables["AWS_ENDPOINT_URL"], "AWS_ENDPOINT_URL": ""}
        for name, value in {**without_keys(tmp_path), **role.of_web_identity, **own, **dict.fromkeys(KEYS, "")}.items():
            monkeypatch.setenv(name, value)
        keys = find_keys()
        assert (keys["access_key_id"], keys["token"]) == (ROLE_KEY, TOKEN)
        command = [sys.executable, "-c", WITHOUT_PYARROW, "s3a://lake/identity"]
        child = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False)
        assert child.returncode == 0, child.stderr[-3000:]
        assert proxy.signers == {("object_store", ROLE_KEY)}
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "none"))
        with pytest.raises(EnvironmentMissing, match=r"cannot be read from the profile or the role: \w+$"):
            find_keys()


# Each library once, as the project opens it.
EACH_LIBRARY = """
import sys
import pyarrow as pa
from deltalake import write_deltalake
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.file_systems import open_filesystem
from lakehouse_assets.storage.leases.files import LeaseFiles
from lakehouse_assets.storage.table_options import table_options
lake = sys.argv[1]
files = LeaseFiles(lake)
assert files.create("weather", 1, b"mine") and not files.create("weather", 1, b"theirs")
write_deltalake(lake + "/log", pa.table({"n": [1]}), storage_options=table_options(lake))
assert delta.version(lake + "/log") == 0
filesystem, path = open_filesystem(lake + "/file")
filesystem.open_output_stream(path).close()
"""
WITHOUT_PYARROW = EACH_LIBRARY.partition("filesystem, path =")[0]


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[StoreProxy]:
    with store_behind_proxy(tmp_path) as store_proxy:
        yield store_proxy


def test_each_library_uses_the_profile_s_keys_and_the_role_s(proxy: StoreProxy, tmp_path: Path) -> None:
    address = {"AWS_ENDPOINT_URL": proxy.variables["AWS_ENDPOINT_URL"]}
    (tmp_path / "elsewhere").mkdir()
    with role_endpoint(tmp_path) as role:
        profile, plain = {**without_keys(tmp_path), **write_profile(tmp_path)}, without_keys(tmp_path / "elsewhere")
        for number, (variables, key) in enumerate(
            ((profile, PROFILE_KEY), (plain | role.of_container, ROLE_KEY), (plain | role.of_machine, ROLE_KEY))
        ):
            proxy.signers.clear()
            command = [sys.executable, "-c", EACH_LIBRARY, f"s3a://lake/{number}"]
            child = subprocess.run(
                command, env=variables | address, cwd=PROJECT_ROOT, capture_output=True, text=True, check=False
            )
            assert child.returncode == 0, child.stderr[-3000:]
            assert proxy.signers == {("object_store", key), ("aws-sdk-cpp", key)}
            assert not [text for text in (SECRET, TOKEN) if text in child.stdout + child.stderr]
