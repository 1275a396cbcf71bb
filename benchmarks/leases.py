"""`python -m benchmarks.leases`: what a lease costs a run of one table with one new window, on an S3 server and on a disk.

Belongs here: requests for the files of leases and before commits of Spark, seconds on a disk. Does not: moto and
its proxy (lakehouse_assets_tests/e2e/store_proxy).
"""

import json
import re
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from lakehouse_assets.storage.leases.files import LeaseFiles
from lakehouse_assets.storage.leases.holding import LeaseHolder
from lakehouse_assets_tests.e2e.store_proxy import StoreRequest, store_behind_proxy
from lakehouse_assets_tests.e2e.test_past_one_machine import Deployment, instance
from lakehouse_assets_tests.support import PROJECT_ROOT

DAYS = PROJECT_ROOT / "data" / "examples" / "weather" / "on_time"
COMMIT = re.compile(r"/(bronze|silver|quarantine|gold)/[^/]+/_delta_log/\d+\.json$")


def main(
    runs: Annotated[int, typer.Option(help="Runs that count, after one that makes the tables.")] = 2,
    leases: Annotated[int, typer.Option(help="Leases on a disk.")] = 50,
) -> None:
    """Requests of `lakehouse run --table weather` for leases, and seconds of a lease on a disk, as JSON."""
    with tempfile.TemporaryDirectory(prefix="lakehouse-leases-") as name:
        home = Path(name)
        summary = {"on S3": _requests_of_runs(home, runs), "on a disk": _seconds_on_disk(home / "disk", leases)}
    typer.echo(json.dumps(summary, indent=1))


def _requests_of_runs(home: Path, runs: int) -> list[dict[str, Any]]:
    results = []
    with store_behind_proxy(home) as proxy:
        deployment = Deployment(instance(home), "s3a://lake/lake", str(home / "landing"), environment=proxy.variables)
        for day in sorted(DAYS.glob("2013-09-*.csv"))[: runs + 1]:
            deployment.land(day)
            before, began = len(proxy.requests), time.monotonic()
            deployment.command("run", "--table", "weather")
            summary = _summary(proxy.requests[before:])
            results.append({"seconds": round(time.monotonic() - began, 1), **summary})
    return results[1:]


def _summary(requests: list[StoreRequest]) -> dict[str, Any]:
    """Return the requests by lease, and one for each commit of Spark: it reads the version before."""
    of_leases = Counter(request.path.split("/")[2] for request in requests if "/_leases/" in request.path)
    commits = [request for request in requests if request.method == "PUT" and COMMIT.search(request.path)]
    return {"requests": len(requests), "of leases": dict(of_leases), "before commits of Spark": len(commits)}


def _seconds_on_disk(home: Path, count: int) -> dict[str, float]:
    """Return the seconds to acquire, to renew and to give back a lease, the medians."""
    home.mkdir()
    holder = LeaseHolder(LeaseFiles(str(home)), 60)
    spent: dict[str, list[float]] = {"acquired": [], "renewed": [], "given back": []}
    for _ in range(count):
        moments = [time.perf_counter()]
        lease = holder.enter("weather", 0)
        moments.append(time.perf_counter())
        holder.renew(lease)
        moments.append(time.perf_counter())
        holder.leave(lease)
        holder.release(lease)
        moments.append(time.perf_counter())
        for name, start, end in zip(spent, moments, moments[1:], strict=False):
            spent[name].append(end - start)
    return {name: round(sorted(seconds)[count // 2], 4) for name, seconds in spent.items()}


if __name__ == "__main__":
    typer.run(main)
