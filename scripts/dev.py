"""Start `dagster dev` on port 3000 with everything on. On a fresh clone, land the example first.

Belongs here: what Dagster needs before it starts. Does not: anything that runs in it.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from script_exit import exit_with

from lakehouse_assets.settings import Settings
from lakehouse_assets.storage.java import require_java


def free(port: int) -> bool:
    """Whether nobody listens there: with its port taken Dagster would stay up without a UI."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def main() -> int:
    """Replace this process by Dagster's."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--port", type=int, default=3000, help="the UI's port on 127.0.0.1 (default: 3000)")
    port = parser.parse_args().port
    require_java()
    settings = Settings.from_environment(start=Path(__file__).parent)
    if not free(port):
        print(
            f"port {port} is taken; stop what listens there, or: .venv/bin/python scripts/dev.py --port {port + 1}",
            file=sys.stderr,
        )
        return 3
    land = Path(__file__).with_name("land_example.py")
    # A project that has removed the example has nothing to land.
    if land.exists() and "://" not in settings.landing and not Path(settings.landing).exists():
        subprocess.run([sys.executable, str(land)], check=True)
    if settings.project is not None:
        os.chdir(settings.project)
    dagster = Path(sys.executable).parent / "dagster"
    environment = {**os.environ, "DAGSTER_HOME": str(settings.dagster_home)}
    # In a script's background SIGINT is ignored, and Dagster would then ignore SIGTERM as well: it could not be ended.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    print(f"Dagster on http://127.0.0.1:{port} (Ctrl-C ends it)", flush=True)
    os.execve(dagster, [str(dagster), "dev", "-h", "127.0.0.1", "-p", str(port)], environment)


if __name__ == "__main__":
    exit_with(main)
