"""A store that answers slowly, refuses for a moment, loses an answer, or carries out a request that its client gave up: under
leases everything acknowledged is there once, and nothing twice.

Belongs here: two processes of two hosts before such a store. Does not: the faults (store_proxy), or stopped processes.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse_assets.settings import Settings
from lakehouse_assets_tests.chaos import play
from lakehouse_assets_tests.chaos.machine import leased_settings, machines
from lakehouse_assets_tests.e2e.servers import fetch_jars_of_s3
from lakehouse_assets_tests.e2e.store_proxy import FAULTS, StoreProxy, draw_faults, store_behind_proxy
from lakehouse_assets_tests.storage.lease_writer import LOG

SEED = 1
# What an attempt may end with before such a store. Each of them is repeated, and repeating is safe.
OF_A_STORE = ("LeaseLostError", "LockedError", "EnvironmentMissing", "OSError", "CommitFailedError", "DeltaError")


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[StoreProxy]:
    with store_behind_proxy(tmp_path) as store_proxy:
        yield store_proxy


@pytest.mark.exhaustive(seconds=60)
@pytest.mark.timeout(400)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_hosts_append_in_turn_before_a_failing_store(proxy: StoreProxy, tmp_path: Path, seed: int) -> None:
    proxy.choose_fault = draw_faults(seed, 0.3, 0.03)
    environment = {**os.environ, **proxy.variables, "LAKEHOUSE_ROOT": "s3a://lake/lake", "LAKEHOUSE_LEASE_SECONDS": "3"}
    module = "lakehouse_assets_tests.e2e.repeating_writer"
    commands = [[sys.executable, "-m", module, host, "customers", "10", "180"] for host in ("host-a", "host-b")]
    writers = [subprocess.Popen(each, env=environment, stdout=subprocess.PIPE, text=True) for each in commands]
    lines = [line for writer in writers for line in writer.communicate(timeout=300)[0].splitlines()]
    proxy.choose_fault = lambda request: None
    proxy.await_late_requests()
    rows = LOG.read(Settings(root="s3a://lake/lake", landing=str(tmp_path), dagster_home=tmp_path))
    numbers = Counter(row["number"] for row in rows)
    assert numbers == Counter(range(1, len(numbers) + 1)), "a number is there twice or left out"
    acknowledged = [int(line) for line in lines if not line.startswith("!")]
    assert len(acknowledged) == len(set(acknowledged)) == 20
    assert set(acknowledged) <= numbers.keys()
    errors = Counter(line.split(":")[0].rpartition(".")[2] for line in lines if line.startswith("!"))
    assert not errors.keys() - set(OF_A_STORE), errors
    used = Counter(fault for fault, request in proxy.faults if request.method == "PUT")
    assert set(used) == set(FAULTS), f"a kind of fault did not happen: {used}"
    print(f"{len(proxy.requests)} requests, faults {dict(used)}, errors {dict(errors)}")


@pytest.mark.exhaustive(seconds=60)
@pytest.mark.timeout(1800)
def test_runs_with_spark_before_a_failing_store_end_as_on_a_disk(proxy: StoreProxy, tmp_path: Path) -> None:
    fetch_jars_of_s3()
    alone = leased_settings(tmp_path / "alone")
    lake = leased_settings(tmp_path / "lake", "s3a://lake/lake")
    for each in (alone, lake):
        play.land(each, play.steps_of(SEED)[0])
    home = tmp_path / "machines"
    with machines(home, "host-a", "host-b", root=lake.root, variables=proxy.variables) as hosts:
        hosts[0].run("run", alone)
        expected = play.tables(alone)
        proxy.choose_fault = draw_faults(SEED, 0.15, 0.01)
        outcomes: list[str] = []
        while outcomes[-1:] != ["well"] and len(outcomes) < 8:
            machine = hosts[len(outcomes) % 2]
            machine.send("run", lake)
            outcomes.append(machine.receive()["ended"])
        drawn = Counter(fault for fault, _ in proxy.faults)
        proxy.choose_fault = lambda request: None
        proxy.await_late_requests()
        print(f"{outcomes}, {len(proxy.requests)} requests, {drawn}", *proxy.faults, sep="\n")
        assert outcomes[-1] == "well", [machine.log.read_text()[-3000:] for machine in hosts]
        assert play.tables(lake) == expected
        hosts[1].run("run", lake)
        assert play.tables(lake) == expected, "something was left to do"
