"""Whole runs of the project on Azure's emulator: arrivals, a late day, a corrected day and a release end as on a disk.

Belongs here: the story by commands, row by row, and where no key may be. Does not: each library alone, late commits
(test_azure).
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import fs

from lakehouse_assets.storage.file_systems import open_filesystem
from lakehouse_assets.storage.leases.files import LeaseFiles
from lakehouse_assets_tests.e2e.azure_proxy import AzureProxy
from lakehouse_assets_tests.e2e.test_azure import ADDRESS, azure  # noqa: F401 (a fixture)
from lakehouse_assets_tests.e2e.test_past_one_machine import CORRECTED, EXAMPLES, LATE, Deployment, instance, same
from lakehouse_assets_tests.support import PROJECT_ROOT

# A row of the late day, with 1,048 mph of wind, is quarantined, and then released.
ARRIVALS = [*(f"weather/on_time/2013-09-0{day}.csv" for day in (7, 8, 9)), "airlines/on_time/2013-01.csv"]
RUNS = [ARRIVALS, [f"weather/on_time/{LATE}.csv", f"weather/corrections/{CORRECTED}.csv"]]
RELEASE = ("quarantine", "release", "weather", "--window", LATE, "--override", "*", "--because", "the instrument was right")


def play(deployment: Deployment) -> dict[str, list[dict]]:
    for files in RUNS:
        for file in files:
            deployment.land(EXAMPLES / file)
        deployment.command("run")
    deployment.command(*RELEASE, "--by", "someone")
    return deployment.tables()


def deploy(home: Path, address: str, environment: dict[str, str]) -> Deployment:
    home.mkdir()
    return Deployment(instance(home), f"{address}/lake", f"{address}/landing", environment=environment)


@pytest.mark.exhaustive(seconds=290)
@pytest.mark.timeout(900)
def test_runs_and_a_release_on_azure_end_as_on_a_disk(azure, tmp_path):  # noqa: F811
    fetched = subprocess.run(
        [sys.executable, "-m", "lakehouse_assets.storage.session"],
        env={**os.environ, **azure, "LAKEHOUSE_ROOT": ADDRESS},
        cwd=PROJECT_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if fetched.returncode:
        pytest.skip(f"Spark's jars for Azure could not be fetched: {fetched.stderr[-500:]}")
    on_disk = deploy(tmp_path / "here", str(tmp_path), {"LAKEHOUSE_LOCK": "lease"})
    server, _, account = azure["AZURE_STORAGE_ENDPOINT"].removeprefix("http://").partition("/")
    with AzureProxy(f"http://{server}").up() as address:
        on_azure = deploy(tmp_path / "there", ADDRESS, {**azure, "AZURE_STORAGE_ENDPOINT": f"{address}/{account}"})
        tables = play(on_azure)
        assert "nothing to do" in on_azure.command("run").stdout
        on_azure.command("verify")
    assert {row["kind"] for row in tables["verdicts"]} >= {"judged", "released"}
    assert len(tables["silver_weather"]) > 250
    assert tables["gold_daily_weather"]
    same(tables, play(on_disk))
    assert LeaseFiles(on_azure.root).find_newest("weather") is not None
    key = azure["AZURE_STORAGE_ACCOUNT_KEY"]
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]
    assert not [text for text in on_azure.outputs if key in text]
    filesystem, root = open_filesystem(on_azure.root)
    # Spark's connector marks folders by empty objects.
    infos = filesystem.get_file_info(fs.FileSelector(root, recursive=True))
    objects = [each.path for each in infos if each.is_file and each.size]
    assert len(objects) > 100
    assert not [path for path in objects if key.encode() in filesystem.open_input_stream(path, compression=None).read()]
