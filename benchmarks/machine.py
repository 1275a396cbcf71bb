"""What the figures were measured on: cores, memory, versions. Belongs here: looking. Does not: Spark's settings."""

import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """This machine in a few words, JSON-safe."""
    return {
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "java": _java(),
        **{name: version(name) for name in ("pyspark", "delta-spark", "dagster")},
    }


def _processor() -> str:
    report = Path("/proc/cpuinfo")
    results = re.search(r"model name\s*:\s*(.+)", report.read_text()) if report.is_file() else None
    return results[1].strip() if results else platform.processor()


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    results = re.search(r'version "([^"]+)"', shown)
    return results[1] if results else "unknown"
