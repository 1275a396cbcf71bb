"""What the project tells its libraries of an object store; that the store's keys are no part of it.

Belongs here: settings and properties, without a server. Does not: a lake on a store (e2e/test_past_one_machine).
"""

import json
import re
from pathlib import Path

import pytest

from lakehouse_assets.errors import EnvironmentMissing
from lakehouse_assets.object_store import ObjectStore
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, jars, lock, session
from lakehouse_assets.storage.file_systems import open_filesystem
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets.storage.log_store import JAR

KEYS = {"AWS_ACCESS_KEY_ID": "who-i-am", "AWS_SECRET_ACCESS_KEY": "what-i-know", "AWS_SESSION_TOKEN": "for-an-hour"}
LAKE = "s3a://bucket/lake"
LOCAL_SERVER = {**KEYS, "AWS_ENDPOINT_URL": "http://127.0.0.1:9000"}


def test_amazon_needs_no_address():
    store = ObjectStore.from_environment({**KEYS, "AWS_DEFAULT_REGION": "eu-central-1"})
    assert store.arrow_uri("s3a://bucket/lake") == "s3://bucket/lake?region=eu-central-1"
    assert store.options("s3a://bucket/lake") == {"AWS_REGION": "eu-central-1"}
    assert store.hadoop(LAKE) == {"spark.hadoop.fs.s3a.endpoint.region": "eu-central-1"}
    assert ObjectStore.from_environment(KEYS).hadoop(LAKE) == {}
    assert ObjectStore.from_environment(KEYS).arrow_uri("s3a://bucket/lake") == "s3://bucket/lake"


def test_a_server_of_ones_own():
    store = ObjectStore.from_environment(LOCAL_SERVER)
    expected = "s3://bucket/lake?region=us-east-1&scheme=http&endpoint_override=127.0.0.1%3A9000"
    assert store.arrow_uri("s3a://bucket/lake") == expected
    assert (store.options("s3a://bucket/lake") or {})["allow_http"] == "true"
    assert store.hadoop(LAKE)["spark.hadoop.fs.s3a.path.style.access"] == "true"
    secure = ObjectStore.from_environment({"AWS_ENDPOINT_URL": "https://store.example"})
    assert "allow_http" not in (secure.options("s3a://bucket/lake") or {})


AZURE_LAKE = "abfss://files@account.dfs.core.windows.net/some/lake"
AZURE_KEYS = {"AZURE_STORAGE_ACCOUNT_KEY": "a2V5"}
AZURITE = {**AZURE_KEYS, "AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:10000/account"}


def test_google_needs_no_address():
    store = ObjectStore.from_environment({"GOOGLE_APPLICATION_CREDENTIALS": "/keys/one.json"})
    assert store.arrow_uri("gcs://bucket/lake") == "gs://bucket/lake"
    assert store.options("gs://bucket/lake") is None
    key_file = {name: value for name, value in store.hadoop("gs://bucket/lake").items() if "json" in name}
    assert key_file == {"spark.hadoop.fs.gs.auth.service.account.json.keyfile": "/keys/one.json"}
    assert not [name for name in ObjectStore().hadoop("gs://bucket/lake") if ".auth." in name], "the connector's own chain"


@pytest.mark.parametrize("host", ["127.0.0.1:4443", "http://127.0.0.1:4443"])
def test_an_emulator_of_google(host):
    store = ObjectStore.from_environment({"STORAGE_EMULATOR_HOST": host})
    expected = "gs://anonymous@bucket/lake?scheme=http&endpoint_override=127.0.0.1%3A4443"
    assert store.arrow_uri("gs://bucket/lake") == expected
    options = store.options("gs://bucket/lake") or {}
    assert json.loads(options["GOOGLE_SERVICE_ACCOUNT_KEY"])["gcs_base_url"] == "http://127.0.0.1:4443"
    properties = store.hadoop("gs://bucket/lake")
    assert properties["spark.hadoop.fs.gs.storage.root.url"] == "http://127.0.0.1:4443/"
    assert properties["spark.hadoop.fs.gs.auth.null.enable"] == "true"


def test_azure_s_key_stays_in_the_environment():
    store = ObjectStore.from_environment(AZURE_KEYS)
    assert store.options(AZURE_LAKE) is None, "the libraries read it themselves"
    properties = store.hadoop(AZURE_LAKE)
    name = "spark.hadoop.fs.azure.account.key.account.dfs.core.windows.net"
    assert properties == {name: "${env.AZURE_STORAGE_ACCOUNT_KEY}"}
    assert "a2V5" not in repr(store) + store.model_dump_json()
    redacted = session.spark_properties(Settings(root="/lake", landing="/landing", dagster_home=Path("/home")))
    assert re.search(redacted["spark.redaction.regex"], name)


def test_an_identity_of_azure_reaches_spark():
    identity = {"AZURE_TENANT_ID": "tenant", "AZURE_CLIENT_ID": "client", "AZURE_FEDERATED_TOKEN_FILE": "/token"}
    properties = ObjectStore.from_environment(identity).hadoop(AZURE_LAKE)
    prefix, host = "spark.hadoop.fs.azure.account", "account.dfs.core.windows.net"
    assert properties[f"{prefix}.auth.type.{host}"] == "OAuth"
    assert properties[f"{prefix}.oauth2.token.file.{host}"] == "/token"
    without_token = ObjectStore.from_environment({**identity, "AZURE_FEDERATED_TOKEN_FILE": ""})
    assert without_token.hadoop(AZURE_LAKE) == {}


def test_an_emulator_of_azure():
    store = ObjectStore.from_environment(AZURITE)
    expected = {"AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:10000/account", "allow_http": "true"}
    assert store.options(AZURE_LAKE) == expected
    assert store.hadoop(AZURE_LAKE)["spark.hadoop.fs.azure.abfs.endpoint"] == "127.0.0.1:10000"
    assert ObjectStore.from_environment({**AZURITE, **KEYS}).hadoop("/lake", "s3a://bucket/lake") == {}


@pytest.mark.parametrize(
    "location", ["abfss://account.dfs.core.windows.net/files", "abfss://files@account", "abfs://a:k@b.c/d"]
)
def test_another_form_of_azure_s_address_is_refused(location):
    with pytest.raises(EnvironmentMissing, match="container@account"):
        ObjectStore().hadoop(location)


def test_the_path_within_azure_has_its_container(monkeypatch):
    for name, value in AZURITE.items():
        monkeypatch.setenv(name, value)
    filesystem, path = open_filesystem(AZURE_LAKE)
    assert (filesystem.type_name, path) == ("abfs", "files/some/lake")
    assert open_filesystem("abfss://files@account.dfs.core.windows.net")[1] == "files"


def test_a_local_folder_gets_no_store_properties():
    store = ObjectStore.from_environment(LOCAL_SERVER)
    assert store.options("/lake") is None
    assert store.arrow_uri("/lake") == "file:///lake"


@pytest.mark.parametrize("spelling", ["s3", "s3n", "s3a"])
def test_every_spelling_of_the_scheme_is_spark_s(spelling):
    settings = Settings.from_environment({"LAKEHOUSE_ROOT": f"{spelling}://bucket/lake"})
    assert settings.root == "s3a://bucket/lake"
    assert settings.on_s3


def test_keys_are_in_no_setting_and_no_property(monkeypatch, tmp_path):
    for name, value in LOCAL_SERVER.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "hadoop-aws.jar").touch()
    monkeypatch.setattr(jars, "JARS_FOR_S3", tmp_path)
    settings = Settings.from_environment({**LOCAL_SERVER, "LAKEHOUSE_ROOT": "s3a://bucket/lake"})
    properties = session.spark_properties(settings)
    shown_text = repr(settings) + settings.model_dump_json() + repr(ObjectStore.from_environment()) + repr(properties)
    assert not [value for value in KEYS.values() if value in shown_text]
    assert properties["spark.jars"].split(",")[-2:] == [str(tmp_path / "hadoop-aws.jar"), str(JAR)]


@pytest.mark.parametrize(
    ("root", "folder"),
    [("s3a://bucket/lake", "JARS_FOR_S3"), ("gs://bucket/lake", "JARS_FOR_GCS"), (AZURE_LAKE, "JARS_FOR_AZURE")],
)
def test_without_the_jars_the_message_names_the_fix(monkeypatch, tmp_path, root, folder):
    monkeypatch.setattr(jars, folder, tmp_path / "none")
    settings = Settings(root=root, landing=str(tmp_path), dagster_home=tmp_path)
    with pytest.raises(EnvironmentMissing, match=r"-m lakehouse_assets\.storage\.session|shaded\.jar to "):
        session.spark_properties(settings)
    conf = tmp_path / "spark.conf"
    conf.write_text("spark.jars.packages org.example:their-own:1\n")
    assert session.spark_properties(settings.model_copy(update={"spark_conf": conf}))["spark.jars.packages"]


def test_a_lake_on_disk_has_no_part_of_it(monkeypatch, settings):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    assert not [name for name, value in session.spark_properties(settings).items() if "s3a" in name or "hadoop-aws" in value]


def test_each_lake_on_a_store_has_locks_of_its_own(tmp_path, monkeypatch):
    for name in ("refuse_restoring", "_refuse_others_on_store"):  # they would ask the store
        monkeypatch.setattr(lock, name, lambda _: None)
    one, other = (
        Settings(root=f"s3a://bucket/{name}", landing=str(tmp_path), dagster_home=tmp_path, lock="file")
        for name in ("one", "other")
    )
    assert one.locks.is_relative_to(tmp_path)
    with table_lock(one, "weather"), table_lock(other, "weather", wait_seconds=0):
        assert one.locks != other.locks
    assert one.model_copy(update={"root": "s3a://bucket/one/"}).locks == one.locks


def test_removing_a_folder_returns_whether_it_existed(tmp_path: Path):
    (tmp_path / "staging" / "run").mkdir(parents=True)
    assert delta.remove_folder(str(tmp_path / "staging"))
    assert not delta.remove_folder(str(tmp_path / "staging"))
