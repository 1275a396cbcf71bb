"""A local file that exists whole or not at all: no reader and no sensor sees half of it.

Belongs here: writing one. Does not: its content.
"""

import os
import tempfile
from pathlib import Path


def write_atomically(target: Path, content: bytes) -> None:
    """Write beside the target, in an existing folder, and move it into place."""
    # Another suffix and a leading dot: no pattern of a source matches it.
    handle, temporary = tempfile.mkstemp(prefix=".writing-", suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
