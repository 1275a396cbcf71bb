"""Whole runs with Spark on an S3 server whose keys are in no variable: those of a profile, and those of a role.

Belongs here: `lakehouse run` and commands that read, each library's keys, where no key may be. Does not: the libraries without
Spark, files and messages (storage/test_s3_keys).
"""

from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from pyarrow import fs

from lakehouse_assets.object_store import ObjectStore
from lakehouse_assets.storage.jars import JARS_FOR_S3
from lakehouse_assets_tests.e2e.s3_roles import PROFILE_KEY, ROLE_KEY, SECRET, TOKEN, role_endpoint, without_keys, write_profile
from lakehouse_assets_tests.e2e.servers import fetch_jars_of_s3
from lakehouse_assets_tests.e2e.store_proxy import StoreProxy, store_behind_proxy
from lakehouse_assets_tests.e2e.test_past_one_machine import EXAMPLES, Deployment, instance

DAYS = ("2013-08-17", "2013-08-18")
ENVIRONMENT_OF_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE")
BY_BOTOCORE = {"of_container": "python-urllib3", "of_machine": "Botocore"}
EVERY_LIBRARY = {"object_store", "aws-sdk-cpp", "Hadoop"}


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[StoreProxy]:
    fetch_jars_of_s3()
    with store_behind_proxy(tmp_path) as store_proxy:
        yield store_proxy


def deploy(home: Path, proxy: StoreProxy, variables: dict[str, str]) -> Deployment:
    """A lake and a landing folder on the server; commands have these variables and no key in another."""
    home.mkdir(exist_ok=True)
    environment = {**without_keys(home), **variables, "AWS_ENDPOINT_URL": proxy.variables["AWS_ENDPOINT_URL"]}
    return Deployment(instance(home), "s3a://lake/lake", "s3a://lake/landing", environment=environment)


def play(deployment: Deployment, proxy: StoreProxy, key: str) -> None:
    """Two days arrive, one after the other; each is ingested, and listed."""
    for day in DAYS:
        deployment.land(EXAMPLES / "weather" / "on_time" / f"{day}.csv")
        proxy.signers.clear()
        deployment.command("run", "--table", "weather")
        assert proxy.signers == {(library, key) for library in EVERY_LIBRARY}
    listed = deployment.command("verdicts", "--table", "weather").stdout
    assert [day for day in DAYS if day in listed] == list(DAYS)
    filesystem, _ = fs.FileSystem.from_uri(ObjectStore.from_environment().arrow_uri("s3a://lake/lake"))
    objects = [info.path for info in filesystem.get_file_info(fs.FileSelector("lake", recursive=True)) if info.is_file]
    texts = [filesystem.open_input_stream(path, compression=None).read() for path in objects]
    texts += [path.read_bytes() for path in deployment.home.rglob("*") if path.is_file() and ".aws" not in path.parts]
    texts += [output.encode() for output in deployment.outputs]
    assert len(texts) > 50
    assert not [text for text in texts for secret in (SECRET, TOKEN, key) if secret.encode() in text]


@pytest.mark.exhaustive(seconds=90)
@pytest.mark.timeout(600)
def test_runs_with_the_keys_of_a_profile(proxy: StoreProxy, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    deployment = deploy(home, proxy, write_profile(home))
    play(deployment, proxy, PROFILE_KEY)
    for arguments in (["run"], ["verdicts"], ["verify"]):
        wrong = Deployment(home, deployment.root, deployment.landing, environment=dict(deployment.environment))
        wrong.environment |= {"AWS_PROFILE": "nobody"}
        with pytest.raises(AssertionError, match=r"(?s)AWS_PROFILE names the profile nobody.*assert 3 == 0"):
            wrong.command(*arguments)
        assert "Traceback" not in wrong.outputs[-1]


@pytest.mark.exhaustive(seconds=90)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["of_container", "of_machine"])
def test_runs_with_the_keys_of_a_role(proxy: StoreProxy, tmp_path: Path, kind: str) -> None:
    with role_endpoint(tmp_path) as role:
        play(deploy(tmp_path / "home", proxy, getattr(role, kind)), proxy, ROLE_KEY)
        print(f"requests for keys: {dict(role.requests)}")
        assert set(role.requests) == {"aws-sdk-cpp", "aws-sdk-java", BY_BOTOCORE[kind]}, "pyarrow, Spark, and this project"
        assert role.requests.total() < 120, "each process asks a few times"


@pytest.mark.exhaustive(seconds=20)
@pytest.mark.parametrize("kind", ["of_container", "of_machine", "of_web_identity"])
def test_spark_s_jars_have_the_parts_for_each_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """The chain that Spark is given, in a Java with these jars. A whole run with a web identity needs Amazon's own address."""
    fetch_jars_of_s3()
    jars = Path(pyspark.__file__).parent / "jars"
    with role_endpoint(tmp_path) as role:
        for name in (*ENVIRONMENT_OF_KEYS, *getattr(role, kind)):
            monkeypatch.delenv(name, raising=False)
        for name, value in {"AWS_EC2_METADATA_DISABLED": "true", **getattr(role, kind)}.items():
            monkeypatch.setenv(name, value)
        options = [f"-Duser.home={tmp_path}"]
        [py4j] = map(str, jars.glob("py4j-*.jar"))
        port = launch_gateway(jarpath=py4j, classpath=f"{JARS_FOR_S3}/*:{jars}/*", javaopts=options, die_on_exit=True)
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
        try:
            chain = gateway.jvm.software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider.create()  # type: ignore[attr-defined]
            assert chain.resolveCredentials().accessKeyId() == ROLE_KEY
        finally:
            gateway.shutdown()
    assert set(role.requests) == {"aws-sdk-java"}
