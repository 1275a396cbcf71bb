"""The peers' environments: where they are, what is in them, and how one is made.

Belongs here: folders and packages. Does not: running a peer. Nothing of it is installed with the project.
"""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

# Peers that run on the Spark that the project runs on get the same; Deequ has no jar for it.
SPARK = "pyspark==4.1.*"


@dataclass(frozen=True)
class Peer:
    """``module``: of `benchmarks.peers`, which speaks for it. ``at_most``: what our time is to be of its time, no more."""

    name: str
    title: str
    module: str
    packages: tuple[str, ...]
    at_most: float

    @property
    def home(self) -> Path:
        """Its environment; `LAKEHOUSE_PEERS` says in which folder, otherwise the user's cache."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return Path(os.environ.get("LAKEHOUSE_PEERS") or cache / "lakehouse-peers") / self.name

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.home / "bin" / "python"

    @property
    def ready(self) -> bool:
        """Whether it was made to the end, of these packages."""
        mark = self.home / ".ready"
        return mark.is_file() and mark.read_text().split() == list(self.packages)

    def set_up(self) -> None:
        """Make it anew. What is fetched while running (Deequ's jar) is fetched now."""
        shutil.rmtree(self.home, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", self.home], check=True)
        subprocess.run(
            [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *self.packages], check=True
        )
        root = Path(__file__).parents[2]
        subprocess.run([self.python, "-m", f"benchmarks.peers.{self.module}", "--try"], check=True, cwd=root)
        (self.home / ".ready").write_text("\n".join(self.packages))


PEERS = {
    peer.name: peer
    for peer in (
        # 1.1: level, but for what two runs of one thing differ by.
        Peer("deequ", "Deequ", "deequ", ("pydeequ==1.4.0", "pyspark==3.5.*", "pandas==2.*", "numpy==1.*", "setuptools"), 1.1),
        Peer("gx", "Great Expectations", "gx", ("great_expectations==1.24.1", SPARK), 1 / 3),
        Peer("dqx", "DQX", "dqx", ("databricks-labs-dqx==0.17.0", "pandas==2.*", "pyarrow", SPARK), 1 / 3),
    )
}
