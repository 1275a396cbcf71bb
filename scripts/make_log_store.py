"""Compile the log store of a lake with many writers: `storage/log_store/LeasedLogStore.java` into the jar beside it.

Belongs here: javac, and a jar that is the same whoever makes it. Does not: what the class does. It needs a JDK, 17 or later.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pyspark

from lakehouse_assets.storage.jars import JARS
from lakehouse_assets.storage.log_store import JAR, SOURCE, SOURCE_DIGEST, digest_source

SPARK_JARS = Path(pyspark.__file__).parent / "jars"


def main() -> None:
    """Write the jar. Its digest of the source tells a test that it is not an older one."""
    class_path = [*JARS.glob("*delta-storage*.jar"), *SPARK_JARS.glob("hadoop-client-api-*.jar")]
    with tempfile.TemporaryDirectory() as folder:
        options = ["--release", "17", "-Xlint:all", "-Werror", "-d", folder, "-cp", ":".join(map(str, class_path))]
        subprocess.run(["javac", *options, str(SOURCE)], check=True)
        entries = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(Path(folder).rglob("*.class"))}
    entries[SOURCE_DIGEST] = digest_source().encode()
    with zipfile.ZipFile(JAR, "w", zipfile.ZIP_DEFLATED) as jar:
        for name, content in entries.items():
            jar.writestr(zipfile.ZipInfo(name), content)
    print(f"{JAR.name}: {len(entries)} entries")


if __name__ == "__main__":
    sys.exit(main())
