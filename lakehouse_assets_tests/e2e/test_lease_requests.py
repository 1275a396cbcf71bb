"""How many requests a lease makes to an S3 server, as docs/leases.md has them: to acquire, to renew, to give back.

Belongs here: leases alone, without Spark. Does not: a whole run (benchmarks/leases).
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakehouse_assets_tests.e2e.store_proxy import StoreProxy, store_behind_proxy

# One step a line, answered by a line when it is done. The lease is so long that nothing renews it in the background.
PROCESS = """
import sys
from lakehouse_assets.storage.leases.files import LeaseFiles
from lakehouse_assets.storage.leases.holding import LeaseHolder
holder, leases = LeaseHolder(LeaseFiles("s3a://lake/lake"), 600), {}
for line in sys.stdin:
    step, name = line.split()
    if step == "acquire":
        leases[name] = holder.enter(name, 0)
    elif step == "renew":
        holder.renew(leases[name])
    else:
        holder.leave(leases[name])
        holder.release(leases[name])
    print("done", flush=True)
"""


class LeaseProcess:
    """A process with leases on the store behind the proxy."""

    def __init__(self, proxy: StoreProxy) -> None:
        self.proxy = proxy
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([sys.executable, "-c", PROCESS], env={**os.environ, **proxy.variables}, **pipes)

    def requests_of(self, step: str, name: str = "weather") -> list[str]:
        """Take one step, and return its requests: `list`, or the method."""
        assert self.process.stdin and self.process.stdout
        before = len(self.proxy.requests)
        self.process.stdin.write(f"{step} {name}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"
        return ["list" if request.is_list else request.method for request in self.proxy.requests[before:]]


@pytest.fixture
def process(tmp_path: Path) -> Iterator[LeaseProcess]:
    with store_behind_proxy(tmp_path) as proxy:
        one = LeaseProcess(proxy)
        try:
            yield one
        finally:
            one.process.kill()
            one.process.wait()


def test_a_lease_makes_as_many_requests_as_the_docs_have(process: LeaseProcess) -> None:
    assert process.requests_of("acquire") == ["list", "PUT", "PUT", "list"], "the first tries conditional requests"
    assert process.requests_of("acquire", "flights") == ["list", "PUT", "list"]
    renewals = [process.requests_of("renew") for _ in range(12)]
    assert sorted(map(len, renewals)) == [1] * 11 + [2], "each tenth lists the files"
    assert process.requests_of("give_back") == ["PUT"]
    assert process.requests_of("give_back", "flights") == ["PUT"]
    assert process.requests_of("acquire") == ["list", "PUT", "list"], "it was given back"
