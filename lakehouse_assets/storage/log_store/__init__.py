"""The class of Java by which Spark commits to Delta tables that several machines write.

Belongs here: where its source and its jar are, and the properties that turn it on. Does not: leases (storage/leases).
"""

from hashlib import sha256
from pathlib import Path

SOURCE = Path(__file__).with_name("LeasedLogStore.java")
JAR = Path(__file__).with_name("leased-log-store.jar")
SOURCE_DIGEST = "META-INF/source.sha256"
SCHEMES = ("file", "s3a", "gs", "abfs", "abfss")


def digest_source() -> str:
    """Return the source's SHA-256; the jar states that of the source it was made from."""
    return sha256(SOURCE.read_bytes()).hexdigest()


def log_store_properties() -> dict[str, str]:
    """Return Spark's properties by which Delta writes its logs with this class, on every kind of store."""
    return {f"spark.delta.logStore.{scheme}.impl": "lakehouse.LeasedLogStore" for scheme in SCHEMES}
