"""The same story on one machine, and on a Spark cluster with the lake and the landing folder on an object store.

Belongs here: that the tables are the same, row by row, and that nothing stays where it must not. Does not: what the tables
should hold (test_weather), or servers (servers).
"""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from datasketches import kll_doubles_sketch
from pyarrow import fs

from lakehouse_assets.settings import Settings
from lakehouse_assets.storage import delta, logs
from lakehouse_assets.storage.file_systems import open_filesystem
from lakehouse_assets.storage.leases.files import LeaseFiles
from lakehouse_assets_tests.e2e.servers import fetch_jars_of_s3, left_running, s3_server, spark_cluster
from lakehouse_assets_tests.e2e.world import World
from lakehouse_assets_tests.support import PROJECT_ROOT, SHORT_LIVED, as_for_users

sys.path.insert(0, str(PROJECT_ROOT / "scripts"))
from land_example import EXAMPLES, land

pytestmark = pytest.mark.exhaustive(seconds=250)
TABLES = ("weather", "airlines")
GOLD = ("daily_weather",)
# LGA's barometer of 2013-09-09 is wrong until it is corrected; a row of the late day, with 1,048 mph of wind, is held.
EARLY = [*(f"2013-08-{day}" for day in range(17, 32)), *(f"2013-09-0{day}" for day in range(1, 10))]
LATE, CORRECTED = "2013-02-12", "2013-09-09"
RUNS = [
    [*(f"weather/on_time/{day}.csv" for day in EARLY), "airlines/on_time/2013-01.csv"],
    [f"weather/on_time/{LATE}.csv", f"weather/corrections/{CORRECTED}.csv"],
]
SECRET = "a-key-that-nobody-may-see"
# The tables are tiny: fewer tasks tell the same.
SMALL = {"spark.sql.shuffle.partitions": "2", "spark.default.parallelism": "2"}
# `input_tables` has the ids of Delta tables.
OF_THIS_RUN = {"run_id", "decided_at", "applied_at", "input_tables"}


@dataclass
class Deployment:
    """Where the story is run once. ``world``: runs it in this process, on the tests' own Spark."""

    home: Path
    root: str
    landing: str
    master: str = "local[2]"
    conf: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    world: World | None = None
    outputs: list[str] = field(default_factory=list)

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`lakehouse …` in a process of its own, on a Dagster instance of its own."""
        conf = {**SMALL, **self.conf}
        (self.home / "spark.conf").write_text("".join(f"{key} {value}\n" for key, value in conf.items()) + SHORT_LIVED)
        inherited = {name: value for name, value in os.environ.items() if name in ("PATH", "JAVA_HOME", "LANG", "TMPDIR")}
        environment = inherited | {
            "HOME": str(self.home),
            "DAGSTER_HOME": str(self.home),
            "LAKEHOUSE_ROOT": self.root,
            "LAKEHOUSE_LANDING": self.landing,
            "LAKEHOUSE_SPARK_MASTER": self.master,
            "LAKEHOUSE_SPARK_CONF": str(self.home / "spark.conf"),
            **self.environment,
        }
        command = [sys.executable, "-m", "lakehouse_assets.cli", *arguments]
        process = subprocess.run(
            command, env=environment, cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=900, check=False
        )
        self.outputs.append(process.stdout + process.stderr)
        assert process.returncode == 0, self.outputs[-1]
        return process

    def run_story(self) -> dict[str, list[dict[str, Any]]]:
        """The whole story: what arrives, a late day, a corrected day; then the tables and the verdicts."""
        for files in RUNS:
            for file in files:
                self.land(EXAMPLES / file)
            if self.world:
                self.world.run()
            else:
                self.command("run")
        return self.tables()

    def land(self, file: Path) -> None:
        """One file into its table's part of the landing folder."""
        table = file.parent.parent.name
        if "://" not in self.landing:
            (Path(self.landing) / table).mkdir(parents=True, exist_ok=True)
            land(file, Path(self.landing) / table / file.name)
            return
        filesystem, path = open_filesystem(self.landing)
        with filesystem.open_output_stream(f"{path}/{table}/{file.name}") as target:
            target.write(file.read_bytes())

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Rows in an order of their own, and the verdicts without what differs from run to run."""
        settings = Settings(root=self.root, landing=self.landing, dagster_home=self.home)
        layers_and_tables = [(layer, table) for layer in ("silver", "quarantine") for table in TABLES]
        layers_and_tables += [("gold", table) for table in GOLD]
        rows_by_table = {
            f"{layer}_{table}": delta.read_arrow(settings.path(layer, table)).to_pylist() for layer, table in layers_and_tables
        }
        rows_by_table["verdicts"] = [
            {name: value for name, value in asdict(decision).items() if name not in OF_THIS_RUN}
            for decision in logs.decisions(settings, evidence=True)
        ]
        return {name: sorted(map(_settled, rows), key=repr) for name, rows in rows_by_table.items()}


def _settled(value: Any) -> Any:
    """Without what depends on the order in which rows come, which is another one on each machine: the last digits of sums, and
    how a sketch of few values lies in its bytes.
    """
    if isinstance(value, float):
        return round(value, 9)
    if isinstance(value, Mapping):
        return {name: _quantiles(each) if name == "sketch" and each else _settled(each) for name, each in value.items()}
    return [_settled(each) for each in value] if isinstance(value, list | tuple) else value


def _quantiles(sketch: str) -> list[Any]:
    read = kll_doubles_sketch.deserialize(base64.b64decode(sketch))
    return [read.n, *_settled(read.get_quantiles([n / 20 for n in range(21)]))]


def instance(home: Path) -> Path:
    """The project's own dagster.yaml, with its storage in this folder."""
    configuration = yaml.safe_load((PROJECT_ROOT / "dagster.yaml").read_text())
    storage = str(home / "dagster")
    configuration["storage"]["custom"]["config"]["base_dir"] = storage
    configuration["local_artifact_storage"]["config"]["base_dir"] = storage
    configuration["compute_logs"]["config"]["base_dir"] = f"{storage}/compute_logs"
    (home / "dagster.yaml").write_text(yaml.safe_dump(configuration))
    return home


def same(actual: Mapping[str, list[dict[str, Any]]], expected: Mapping[str, list[dict[str, Any]]]) -> None:
    """Row by row; the message names the first table that differs."""
    assert actual.keys() == expected.keys()
    for name, rows in expected.items():
        assert len(actual[name]) == len(rows), name
        for have, want in zip(actual[name], rows, strict=True):
            assert have == want, name


@pytest.fixture(scope="module")
def here(spark, tmp_path_factory) -> dict[str, list[dict[str, Any]]]:
    home = tmp_path_factory.mktemp("here")
    with as_for_users(spark):
        return Deployment(home, str(home / "lake"), str(home / "landing"), world=World(spark, home, TABLES)).run_story()


@pytest.mark.timeout(1200)
def test_1_the_story_covers_every_outcome(here):
    by_kind = {(d["table"], d["verdict"]) for d in here["verdicts"]}
    assert {("weather", "published"), ("weather", "published_with_warnings"), ("gold_daily_weather", "published")} <= by_kind
    assert any(d["superseded_by"] for d in here["verdicts"]), "the corrected day took the place of the first"
    assert [row["outcome"] for row in here["quarantine_weather"]] == ["quarantined"]
    assert len(here["silver_weather"]) > 1_700
    assert len(here["gold_daily_weather"]) == 75
    assert {row["name"] for row in here["silver_airlines"]} > {"United Air Lines Inc."}


@pytest.fixture
def store(tmp_path, monkeypatch) -> Iterator[dict[str, str]]:
    """The environment that an S3 server needs; the jars for it are fetched once, into the environment of the tests."""
    if not all(find_spec(name) for name in ("moto", "flask", "flask_cors")):
        pytest.skip("moto's S3 server is not installed (the extra `dev` has it)")
    fetch_jars_of_s3()
    with s3_server(tmp_path, "lake") as address:
        credentials = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL": address}
        for name, value in credentials.items():
            monkeypatch.setenv(name, value)
        yield credentials


@pytest.mark.timeout(1800)
def test_2_a_cluster_with_an_object_store_gives_the_same_tables(here, store, tmp_path):
    home = instance(tmp_path)
    with spark_cluster(home) as cluster:
        conf = {
            "spark.executor.memory": "700m",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.pyspark.python": "/no/python/is/needed/on/a/worker",
        }
        deployment = Deployment(home, "s3a://lake/some/lake", "s3a://lake/landing", cluster.master, conf, store)
        same(deployment.run_story(), here)
        # Each run had an executor on each worker.
        assert [len(list(folder.glob("app-*/*"))) for folder in cluster.work] == [len(RUNS)] * 2
        # The executors draw the sample; the record goes to the store, the pages to this machine.
        (audit,) = json.loads(deployment.command("audit-silver", "--table", "weather", "--seed", "7", "--json").stdout)[
            "audits"
        ]
    assert left_running(home) == []
    (audit_row,) = delta.read_arrow(
        Settings(root=deployment.root, landing=deployment.landing, dagster_home=home).path("ops", "audits")
    ).to_pylist()
    assert (audit["verdict"], audit["sampled"]) == (audit_row["verdict"], audit_row["total_sampled_records"])
    assert audit_row["total_raw_records"] == len(here["silver_weather"])
    assert list((home / "data" / "audits" / "tables").glob("silver-weather-*.html"))
    # Leases are on the store, and nothing of the lake is on the disk.
    assert LeaseFiles(deployment.root).find_newest("weather") is not None
    assert not [path for name in ("_delta_log", "bronze", "staging") for path in home.rglob(name)]
    assert not (PROJECT_ROOT / "s3a:").exists()
    filesystem, root = open_filesystem(deployment.root)
    staged = filesystem.get_file_info(fs.FileSelector(f"{root}/staging", recursive=True, allow_not_found=True))
    assert not [info.path for info in staged if info.type is fs.FileType.File], "a run's scratch folder is removed"
    # Listings read the log on the store, without a JVM, and end in order.
    for _ in range(3):
        output = deployment.command("verdicts", "--table", "weather")
        assert CORRECTED in output.stdout, output
    # The key is in no file of Dagster's, no message and no object.
    assert not [path for path in home.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert not [text for text in deployment.outputs if SECRET in text]
    objects = filesystem.get_file_info(fs.FileSelector("lake", recursive=True))
    stored_files = [info.path for info in objects if info.type is fs.FileType.File]
    assert len(stored_files) > 100
    assert not [path for path in stored_files if SECRET.encode() in filesystem.open_input_stream(path, compression=None).read()]
