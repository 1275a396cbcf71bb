"""Take the README's pictures of the UI: run the browser test, which takes them in a lake of its own. Some minutes.

Belongs here: the pictures' folder. Does not: what they show (`lakehouse_assets_tests/browser/test_ui.py`).
"""

import os
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
TEST = PROJECT / "lakehouse_assets_tests" / "browser"
IMAGES = PROJECT / "docs" / "images"


def main() -> int:
    """Return the test's exit code."""
    environment = {**os.environ, "CI": "true", "LAKEHOUSE_PICTURES": str(IMAGES)}
    return subprocess.run([sys.executable, "-m", "pytest", str(TEST)], cwd=PROJECT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
