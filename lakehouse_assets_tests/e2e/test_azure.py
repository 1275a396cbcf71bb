"""A lake on Azure's emulator: what each library does there, and that a late commit of Spark is refused.

Belongs here: Azurite, which has blobs only. Does not: addresses and options without a server (storage/test_object_store).
"""

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyarrow import fs

from lakehouse_assets.contracts.path_pattern import PathPattern
from lakehouse_assets.contracts.windows import window_at
from lakehouse_assets.object_store import ObjectStore
from lakehouse_assets.operations.backup import ContentCheck, check_contents, make_backup
from lakehouse_assets.operations.restore_backup import restore_lake
from lakehouse_assets.settings import Settings
from lakehouse_assets.sources.landing import Landing
from lakehouse_assets.storage import delta
from lakehouse_assets.storage.audit_log import find_tables
from lakehouse_assets.storage.file_systems import open_filesystem
from lakehouse_assets.storage.leases.files import LeaseFiles
from lakehouse_assets_tests.e2e.servers import azure_server, azurite_program
from lakehouse_assets_tests.e2e.two_appends import append_twice_from_one_version
from lakehouse_assets_tests.support import PROJECT_ROOT

pytestmark = pytest.mark.exhaustive(seconds=40)
ACCOUNT, SECRET = "lakekeeper", b"a-key-that-nobody-may-see"
ADDRESS = f"abfs://lake@{ACCOUNT}.dfs.core.windows.net"


@pytest.fixture(scope="module")
def azure(tmp_path_factory) -> Iterator[dict[str, str]]:
    """The environment of the emulator, with the empty container `lake`."""
    home, key = tmp_path_factory.mktemp("azure"), base64.b64encode(SECRET).decode()
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        try:
            azurite_program()
        except RuntimeError as error:
            pytest.skip(str(error))
        address = stack.enter_context(azure_server(home, ACCOUNT, key))
        variables = {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": key,
            "AZURE_STORAGE_ENDPOINT": address,
        }
        for name, value in variables.items():
            patch.setenv(name, value)
        open_filesystem(ADDRESS)[0].create_dir("lake")
        yield variables


def test_a_lease_file_is_created_once(azure):
    files = LeaseFiles(f"{ADDRESS}/leases")
    assert files.find_newest("weather") is None
    assert files.create("weather", 1, b"mine")
    assert files.create("weather", 1, b"mine"), "the answer to the first request was lost"
    assert not files.create("weather", 1, b"theirs")
    assert files.read("weather", 1) == b"mine"
    files.require_conditions("weather", 1)
    assert (newest := files.find_newest("weather")) is not None
    assert newest.number == 1


def test_two_appends_by_deltalake_from_one_version_are_both_there(azure):
    append_twice_from_one_version(f"{ADDRESS}/lake/log")


def test_files_that_land_on_azure_are_listed_and_read(azure):
    filesystem, path = open_filesystem(f"{ADDRESS}/landing")
    with filesystem.open_output_stream(f"{path}/weather/2024-05-01.csv") as file:
        file.write(b"n\n1\n")
    landing = Landing(f"{ADDRESS}/landing")
    window = window_at(datetime(2024, 5, 1, tzinfo=UTC), "daily")
    [landed] = landing.files(PathPattern("weather/{window:%Y-%m-%d}.csv"), [window])
    assert (landed.path, landed.size, landed.refused) == ("weather/2024-05-01.csv", 4, None)
    assert landing.read_head(landed.path, 10) == b"n\n1\n"
    assert landing.spark_path(landed.path) == f"{ADDRESS}/landing/weather/2024-05-01.csv"


def mark_folders(*paths: str) -> None:
    """Create the empty objects that stand for folders where Hadoop's connector, or one of Azure's tools, has made them. Pyarrow
    creates one only while nothing is below it.
    """
    filesystem, _ = open_filesystem(ADDRESS)
    for path in paths:
        filesystem.open_output_stream(f"lake/{path}", metadata={"hdi_isfolder": "true"}).close()


def test_a_lake_whose_folders_are_objects_is_audited_backed_up_and_restored(azure, tmp_path):
    root, folder = f"{ADDRESS}/marked", f"{ADDRESS}/backups"
    settings = Settings(root=root, landing=str(tmp_path), dagster_home=tmp_path)
    path, options = settings.path("silver", "weather"), ObjectStore.from_environment().options(root)
    folders = [f"marked{below}" for below in ("", "/silver", "/silver/weather", "/silver/weather/_delta_log", "/gold")]
    mark_folders("backups", "backups/contents", *folders)
    for number in range(2):
        write_deltalake(path, pa.table({"n": [number]}), mode="append", storage_options=options)
    assert find_tables(settings, "silver") == ["silver/weather"]
    for minute in range(2):
        report = make_backup(root, folder, lambda minute=minute: datetime(2026, 1, 1, 12, minute, tzinfo=UTC))
        assert [table.path for table in report.manifest.tables] == ["silver/weather"]
        assert not report.manifest.damaged
    assert check_contents(report.manifest, folder) == ContentCheck(files=4, mistakes=())
    assert delta.remove_folder(path)
    assert not delta.remove_folder(path)
    mark_folders(*folders[2:4])
    assert restore_lake(settings, report.manifest, folder).files == 4
    assert sorted(delta.read_arrow(path)["n"].to_pylist()) == [0, 1]


def test_scratch_whose_folders_are_objects_is_removed(azure):
    path = f"{ADDRESS}/scratch/staging/weather"
    filesystem, base = open_filesystem(path)
    mark_folders("scratch/staging/weather", "scratch/staging/empty")
    filesystem.open_output_stream(f"{base}/part").close()
    assert delta.remove_folder(path) and delta.remove_folder(f"{ADDRESS}/scratch/staging/empty")
    left = filesystem.get_file_info(fs.FileSelector("lake/scratch", recursive=True, allow_not_found=True))
    assert {info.path for info in left} <= {"lake/scratch/staging"}, "pyarrow keeps the folder above"


def test_folders_in_the_landing_folder_that_are_objects_are_no_files(azure):
    filesystem, _ = open_filesystem(ADDRESS)
    mark_folders("marked_landing", "marked_landing/weather", "marked_landing/weather/later")
    for day in ("01", "02"):
        filesystem.open_output_stream(f"lake/marked_landing/weather/2024-05-{day}.csv").close()
    landing = Landing(f"{ADDRESS}/marked_landing")
    assert landing.file_names("weather") == ["weather/2024-05-01.csv", "weather/2024-05-02.csv"], "an empty file is one"
    window = window_at(datetime(2024, 5, 1, tzinfo=UTC), "daily")
    assert [each.path for each in landing.files(PathPattern("weather/{window:%Y-%m-%d}*"), [window])] == [
        "weather/2024-05-01.csv"
    ]
    assert landing.names("") == ["weather"]


LATE_COMMIT = """
import sys
from pathlib import Path
from lakehouse_assets.errors import LeaseLostError
from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, delta_writes
from lakehouse_assets.storage.leases.fencing import fence
from lakehouse_assets.storage.leases.files import LeaseFiles
from lakehouse_assets.storage.leases.holding import LeaseHolder
from lakehouse_assets.storage.lock import table_lock
from lakehouse_assets.storage.session import build_session

settings = Settings.from_environment()
spark = build_session(settings)
path = settings.path("silver", "weather")
with table_lock(settings, "weather"):
    delta_writes.append(spark.range(3).withColumnRenamed("id", "n"), path)
    delta_writes.append(spark.range(3).withColumnRenamed("id", "n"), path)
try:
    with table_lock(settings, "weather"):
        files = LeaseFiles(settings.root)
        number = files.find_newest("weather").number + 1
        assert LeaseHolder(files, 60)._claim("weather", number)
        fence(files, "weather", number)
        delta_writes.append(spark.range(9).withColumnRenamed("id", "n"), path)
except LeaseLostError:
    print("REFUSED")
jvm = spark.sparkContext._jvm
conf = spark.sparkContext._jsc.hadoopConfiguration()
store = jvm.lakehouse.LeasedLogStore(conf)
version = jvm.org.apache.hadoop.fs.Path(settings.root + "/own/_delta_log/%020d.json" % 0)
version.getFileSystem(conf).mkdirs(version.getParent())
for text in ("mine", "mine", "theirs"):
    actions = jvm.java.util.ArrayList()
    actions.add('{"commitInfo":{"txnId":"%s"}}' % text)
    try:
        store.write(version, actions.iterator(), False, conf)
        print("WRITTEN", text)
    except Exception as error:
        print("EXISTS" if "FileAlreadyExistsException" in str(error) else str(error), text)
print("ROWS", sorted(delta.read_arrow(path)["n"].to_pylist()), spark.read.format("delta").load(path).count())
"""


@pytest.mark.timeout(600)
def test_a_late_commit_of_spark_is_refused_and_a_version_is_created_once(azure, tmp_path):
    conf = tmp_path / "spark.conf"
    conf.write_text("spark.sql.shuffle.partitions 1\nspark.driver.extraJavaOptions -XX:TieredStopAtLevel=1\n")
    environment = {
        **os.environ,
        **azure,
        "DAGSTER_HOME": str(tmp_path),
        "LAKEHOUSE_ROOT": f"{ADDRESS}/fenced",
        "LAKEHOUSE_SPARK_MASTER": "local[1]",
        "LAKEHOUSE_SPARK_CONF": str(conf),
    }
    fetched = _python(environment, "-m", "lakehouse_assets.storage.session")
    if fetched.returncode:
        pytest.skip(f"Spark's jars for Azure could not be fetched: {fetched.stderr[-500:]}")
    output = _python(environment, "-c", LATE_COMMIT)
    lines = output.stdout.splitlines()
    assert output.returncode == 0, output.stdout + output.stderr[-5000:]
    expected = ["REFUSED", "WRITTEN mine", "WRITTEN mine", "EXISTS theirs", "ROWS [0, 0, 1, 1, 2, 2] 6"]
    assert [line for line in lines if line.split()[0] in ("REFUSED", "WRITTEN", "EXISTS", "ROWS")] == expected, output.stdout
    assert azure["AZURE_STORAGE_ACCOUNT_KEY"] not in output.stdout + output.stderr


def _python(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=500, check=False)
