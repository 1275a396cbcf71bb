"""What the project tells its libraries of an object store; that the store's keys are no part of it.

Belongs here: settings and properties, without a server. Does not: a lake on a store (e2e/test_past_one_machine).
"""

from pathlib import Path

import pytest

from lakehouse_assets.errors import EnvironmentMissing
from lakehouse_assets.settings import ObjectStore, Settings
from lakehouse_assets.storage import delta, session
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets.storage.log_store import JAR

KEYS = {"AWS_ACCESS_KEY_ID": "who-i-am", "AWS_SECRET_ACCESS_KEY": "what-i-know", "AWS_SESSION_TOKEN": "for-an-hour"}
LOCAL_SERVER = {**KEYS, "AWS_ENDPOINT_URL": "http://127.0.0.1:9000"}


def test_amazon_needs_no_address():
    store = ObjectStore.from_environment({**KEYS, "AWS_DEFAULT_REGION": "eu-central-1"})
    assert store.arrow_uri("s3a://bucket/lake") == "s3://bucket/lake?region=eu-central-1"
    assert store.options("s3a://bucket/lake") == {"AWS_REGION": "eu-central-1"}
    assert store.hadoop() == {"spark.hadoop.fs.s3a.endpoint.region": "eu-central-1"}
    assert ObjectStore.from_environment(KEYS).hadoop() == {}
    assert ObjectStore.from_environment(KEYS).arrow_uri("s3a://bucket/lake") == "s3://bucket/lake"


def test_a_server_of_ones_own():
    store = ObjectStore.from_environment(LOCAL_SERVER)
    expected = "s3://bucket/lake?region=us-east-1&scheme=http&endpoint_override=127.0.0.1%3A9000"
    assert store.arrow_uri("s3a://bucket/lake") == expected
    assert (store.options("s3a://bucket/lake") or {})["AWS_ALLOW_HTTP"] == "true"
    assert store.hadoop()["spark.hadoop.fs.s3a.path.style.access"] == "true"
    secure = ObjectStore.from_environment({"AWS_ENDPOINT_URL": "https://store.example"})
    assert "AWS_ALLOW_HTTP" not in (secure.options("s3a://bucket/lake") or {})


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
    monkeypatch.setattr(session, "JARS_FOR_S3", tmp_path)
    settings = Settings.from_environment({**LOCAL_SERVER, "LAKEHOUSE_ROOT": "s3a://bucket/lake"})
    properties = session.spark_properties(settings)
    shown_text = repr(settings) + settings.model_dump_json() + repr(ObjectStore.from_environment()) + repr(properties)
    assert not [value for value in KEYS.values() if value in shown_text]
    assert properties["spark.jars"].split(",")[-2:] == [str(tmp_path / "hadoop-aws.jar"), str(JAR)]


def test_without_the_jars_the_message_names_the_fix(monkeypatch, tmp_path):
    monkeypatch.setattr(session, "JARS_FOR_S3", tmp_path / "none")
    settings = Settings(root="s3a://bucket/lake", landing=str(tmp_path), dagster_home=tmp_path)
    with pytest.raises(EnvironmentMissing, match=r"-m lakehouse_assets\.storage\.session"):
        session.spark_properties(settings)
    conf = tmp_path / "spark.conf"
    conf.write_text("spark.jars.packages org.example:their-own:1\n")
    assert session.spark_properties(settings.model_copy(update={"spark_conf": conf}))["spark.jars.packages"]


def test_a_lake_on_disk_has_no_part_of_it(monkeypatch, settings):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9000")
    assert not [name for name, value in session.spark_properties(settings).items() if "s3a" in name or "hadoop-aws" in value]


def test_each_lake_on_a_store_has_locks_of_its_own(tmp_path):
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
