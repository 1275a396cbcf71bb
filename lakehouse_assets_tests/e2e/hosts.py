"""A host of its own for Dagster's processes: its name, its DAGSTER_HOME with the files of `deploy/`, on loopback.

Belongs here: the processes of `deploy/compose.yaml`, started here without containers, and requests to their web server. Does
not: what must hold (test_two_homes).
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from lakehouse_assets_tests.e2e.servers import free_port
from lakehouse_assets_tests.support import PROJECT_ROOT

DEPLOY = PROJECT_ROOT / "deploy"
SERVICES: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
HOME = "/srv/lakehouse/home"  # in the image
RUN_MONITORING = "poll_interval_seconds: 30"
# What Python imports at its start: another host's name.
OTHER_NAME = "import platform\nplatform.node = lambda: {name!r}\n"
LAUNCH = """
mutation($parameters: ExecutionParams!) {
  launchRun(executionParams: $parameters) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
  }
}
"""


class Host:
    """A folder for one host's files and logs. ``variables``: what its processes share with those of other hosts."""

    def __init__(self, folder: Path, name: str, variables: Mapping[str, str]) -> None:
        self.folder, self.home = folder, folder / "home"
        self.grpc, self.http = free_port(), free_port()
        (folder / "startup").mkdir(parents=True)
        self.home.mkdir()
        (folder / "startup" / "sitecustomize.py").write_text(OTHER_NAME.format(name=name))
        # The file as it is deployed, but for the wait between two looks at the runs.
        text = (DEPLOY / "dagster.yaml").read_text()
        assert RUN_MONITORING in text
        (self.home / "dagster.yaml").write_text(text.replace(RUN_MONITORING, "poll_interval_seconds: 2"))
        text = (DEPLOY / "workspace.yaml").read_text()
        (self.home / "workspace.yaml").write_text(text.replace("host: code", "host: 127.0.0.1").replace("4000", str(self.grpc)))
        self.variables = {
            **os.environ,
            **variables,
            "DAGSTER_HOME": str(self.home),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(folder / "startup"), str(PROJECT_ROOT)]),
        }

    def command(self, line: list[str]) -> list[str]:
        """A service's command on this host: on loopback, with its ports and folders."""
        ports = {"4000": str(self.grpc), "3000": str(self.http), "0.0.0.0": "127.0.0.1"}
        replaced = [ports.get(word, word.replace(HOME, str(self.home))) for word in line]
        return [word.replace(":3000/", f":{self.http}/") for word in replaced]

    def is_healthy(self, service: str) -> bool:
        """Whether the service's health check ends with 0."""
        check = SERVICES[service]["healthcheck"]["test"]
        assert check[0] == "CMD"
        return self.execute(self.command(check[1:])).returncode == 0

    def execute(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        """A command of this host that ends by itself."""
        return subprocess.run(
            command, env=self.variables, cwd=self.home, capture_output=True, text=True, check=False, timeout=200
        )

    @contextmanager
    def start(self, service: str) -> Iterator[subprocess.Popen[bytes]]:
        """A service, healthy, until the block ends: then it and its children are killed."""
        log = self.folder / f"{service}.log"
        with log.open("ab") as file:
            command = self.command(SERVICES[service]["command"])
            child = subprocess.Popen(
                command, env=self.variables, cwd=self.home, stdout=file, stderr=file, start_new_session=True
            )
        try:
            wait_until(lambda: self.is_healthy(service) or child.poll() is not None, 120, lambda: log.read_text()[-3000:])
            assert child.poll() is None, log.read_text()[-3000:]
            yield child
        finally:
            kill(child)

    def request(self, assets: list[str], tags: Mapping[str, str]) -> str:
        """Request a run at this host's web server, and return its id."""
        selector = {
            "repositoryLocationName": "lakehouse_assets",
            "repositoryName": "__repository__",
            "jobName": "__ASSET_JOB",
            "assetSelection": [{"path": [asset]} for asset in assets],
        }
        metadata = {"tags": [{"key": key, "value": value} for key, value in tags.items()]}
        parameters = {"selector": selector, "mode": "default", "runConfigData": {}, "executionMetadata": metadata}
        answer = self.query(LAUNCH, {"parameters": parameters})["launchRun"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return answer["run"]["runId"]

    def query(self, text: str, variables: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Ask the web server in GraphQL."""
        body = json.dumps({"query": text, "variables": dict(variables or {})}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.http}/graphql", body, headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            answer = json.load(response)
        assert "errors" not in answer, answer
        return answer["data"]


def kill(child: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children at once, as the end of its container does."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def wait_until(true: Callable[[], bool], seconds: float, reason: Callable[[], object] = lambda: "") -> None:
    """Wait until it is true. Fails with the reason."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, reason()
        time.sleep(0.2)
