"""A local file that is there as a whole or not at all: a reader, or a watcher, never sees half of it.

Belongs here: writing one. Does not: what is in it.
"""

import os
import tempfile
from pathlib import Path


def write_whole(target: Path, content: bytes) -> None:
    """Write beside the target, in a folder that is there, and put it in the target's place."""
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
