"""Where things are on this machine: the only reader of the environment, passed down as a frozen value.

Belongs here: paths, the Spark master, the addresses of the object store, of Kafka and of databases, secrets by name. Does not:
anything about one table, nor an object store's credentials: its libraries find those by themselves (`AWS_*`), so nothing here
can show them.
"""

import os
import re
from collections.abc import Collection, Mapping
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from lakehouse_assets.errors import ConfigError, EnvironmentMissing

PROJECT_ROOT = Path(__file__).resolve().parent.parent
SECRET_PREFIX = "LAKEHOUSE_SECRET_"  # noqa: S105 (the name of variables, not a secret)
VARIABLE_PREFIX = "LAKEHOUSE_VAR_"
JDBC_PREFIX = "LAKEHOUSE_JDBC_"
AUDIT_PORT = 3070  # where `lakehouse audit-docs` serves the pages, unless it is told another
_JDBC = re.compile(f"{JDBC_PREFIX}(\\w+)_URL")
_SECRET = re.compile(r"\$\{" + SECRET_PREFIX + r"(\w+)\}")


def is_url(place: str) -> bool:
    """Whether a place is on an object store rather than on a disk."""
    return "://" in place


def _count(env: Mapping[str, str], name: str, default: int) -> int:
    """A whole number above 0. Raises EnvironmentMissing for anything else."""
    given = env.get(name) or str(default)
    if not given.isdecimal() or int(given) < 1:
        raise EnvironmentMissing(f"{name} is {given!r}; a whole number of rows above 0 is wanted")
    return int(given)


def is_s3(place: str) -> bool:
    """Whether a place is on S3, in any of the spellings of its scheme."""
    return re.match("s3[an]?://", place) is not None


class ObjectStore(BaseModel):
    """The S3 server, where it is another than Amazon's: a bucket's path alone does not tell. One for the whole process."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoint: str | None = None
    region: str | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> "ObjectStore":
        """Read the variables that Amazon's own tools read: ``AWS_ENDPOINT_URL`` and ``AWS_REGION``."""
        env = os.environ if environ is None else environ
        endpoint = env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL") or None
        region = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or None
        # Requests are signed for a region: a server of one's own has none, but the libraries insist.
        return cls(endpoint=endpoint, region=region or ("us-east-1" if endpoint else None))

    def arrow_uri(self, place: str) -> str:
        """The place as `pyarrow.fs.FileSystem.from_uri` takes it."""
        if not is_url(place):
            return f"file://{place}"
        if not is_s3(place):
            return place
        given = {"region": self.region} if self.region else {}
        if self.endpoint:
            parts = urlsplit(self.endpoint)
            given |= {"scheme": parts.scheme, "endpoint_override": parts.netloc}
        plain = re.sub("^s3[an]?://", "s3://", place)
        return f"{plain}?{urlencode(given)}" if given else plain

    def options(self, place: str) -> dict[str, str] | None:
        """What `deltalake` is told beside the place."""
        if not is_s3(place):
            return None
        given = {"AWS_REGION": self.region, "AWS_ENDPOINT_URL": self.endpoint}
        # An address that says http:// was typed by someone who means it.
        given["AWS_ALLOW_HTTP"] = "true" if self.endpoint and self.endpoint.startswith("http://") else None
        return {name: value for name, value in given.items() if value}

    def hadoop(self) -> dict[str, str]:
        """What Spark is told. Buckets are folders of a server of one's own, and names of hosts at Amazon's."""
        given = {"endpoint": self.endpoint, "endpoint.region": self.region}
        given["path.style.access"] = "true" if self.endpoint else None
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in given.items() if value}


class Connection(BaseModel):
    """How a database is reached. No part of it is ever shown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: SecretStr
    user: SecretStr | None = None
    password: SecretStr | None = None


class Settings(BaseModel):
    """Paths are absolute, or object-store URLs. ``secrets`` holds the ``LAKEHOUSE_SECRET_*`` variables, never shown;
    ``variables`` the ``LAKEHOUSE_VAR_*`` ones, which a table's YAML may name; ``jdbc`` databases by the names it gives them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    project: Path = PROJECT_ROOT
    root: str
    landing: str
    spark_master: str = "local[*]"
    spark_conf: Path | None = None
    dagster_home: Path
    kafka_bootstrap: str | None = None
    kafka_topic: str = "lakehouse.decisions"
    kafka_conf: Path | None = None
    audit_rows: int = Field(default=1000, ge=1)
    audit_pages: Path | None = None
    secrets: Mapping[str, SecretStr] = Field(default={}, repr=False)
    variables: Mapping[str, str] = Field(default={}, repr=False)
    jdbc: Mapping[str, Connection] = Field(default={}, repr=False)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> "Settings":
        """Read ``LAKEHOUSE_*`` and ``DAGSTER_HOME``; relative paths are taken from the project's folder."""
        env = os.environ if environ is None else environ

        def place(name: str, default: str) -> str:
            given = env.get(name) or default
            if is_url(given):
                return re.sub("^s3n?://", "s3a://", given)  # the one scheme that Spark knows
            return str((PROJECT_ROOT / Path(given).expanduser()).resolve())

        def file(name: str) -> Path | None:
            return (PROJECT_ROOT / Path(given).expanduser()).resolve() if (given := env.get(name)) else None

        return cls(
            root=place("LAKEHOUSE_ROOT", "data/lake"),
            landing=place("LAKEHOUSE_LANDING", "data/landing"),
            spark_master=env.get("LAKEHOUSE_SPARK_MASTER") or "local[*]",
            spark_conf=file("LAKEHOUSE_SPARK_CONF"),
            dagster_home=Path(env.get("DAGSTER_HOME") or PROJECT_ROOT).resolve(),
            kafka_bootstrap=env.get("LAKEHOUSE_KAFKA_BOOTSTRAP") or None,
            kafka_topic=env.get("LAKEHOUSE_KAFKA_TOPIC") or "lakehouse.decisions",
            kafka_conf=file("LAKEHOUSE_KAFKA_CONF"),
            audit_rows=_count(env, "AUDIT_TOTAL_ROWS", 1000),
            audit_pages=file("LAKEHOUSE_AUDIT_PAGES"),
            secrets={k.removeprefix(SECRET_PREFIX): SecretStr(v) for k, v in env.items() if k.startswith(SECRET_PREFIX)},
            variables={k.removeprefix(VARIABLE_PREFIX): v for k, v in env.items() if k.startswith(VARIABLE_PREFIX)},
            jdbc={found[1]: _connection(env, found[1]) for k in env if (found := _JDBC.fullmatch(k)) and env[k]},
        )

    def path(self, *parts: str) -> str:
        """A place below the lake's root. Parts are table names that the contracts have checked."""
        return "/".join([self.root.rstrip("/"), *parts])

    @property
    def pages(self) -> Path:
        """Where the audits' pages are written: always on a local disk, a folder of the lake's own."""
        return self.audit_pages or self.dagster_home / "data" / "audits"

    @property
    def on_s3(self) -> bool:
        """Whether the lake or the landing folder is on S3."""
        return is_s3(self.root) or is_s3(self.landing)

    @property
    def locks(self) -> Path:
        """Lock files live on a local disk: beside the lake where it is local, else under DAGSTER_HOME, a folder per lake."""
        if is_url(self.root):
            return self.dagster_home / "data" / "locks" / sha256(self.root.rstrip("/").encode()).hexdigest()[:16]
        return Path(self.root) / "_locks"

    def secret(self, name: str) -> str:
        """The value of ``LAKEHOUSE_SECRET_<name>``. Raises EnvironmentMissing, naming the variable."""
        if name not in self.secrets:
            raise EnvironmentMissing(f"the environment has no {SECRET_PREFIX}{name}; set it, or remove its use from defs.yaml")
        return self.secrets[name].get_secret_value()

    def connection(self, name: str) -> Connection:
        """The database of ``LAKEHOUSE_JDBC_<name>_URL``. Raises EnvironmentMissing, naming the variable."""
        if name not in self.jdbc:
            raise EnvironmentMissing(
                f"the environment has no {JDBC_PREFIX}{name}_URL (nor, where needed, {JDBC_PREFIX}{name}_USER and _PASSWORD)"
            )
        return self.jdbc[name]

    def kafka_properties(self, own: Collection[str]) -> dict[str, str]:
        """What ``LAKEHOUSE_KAFKA_CONF`` (``key=value`` lines) says; ``${LAKEHOUSE_SECRET_<NAME>}`` in a value stands for that
        variable. A file that names one of ``own`` is refused.

        Raises EnvironmentMissing where a file or a variable is not there, ConfigError for a line that is none.
        """
        path = self.kafka_conf
        if path is None:
            return {}
        if not path.is_file():
            raise EnvironmentMissing(f"LAKEHOUSE_KAFKA_CONF names {path}, which is not a file")
        found: dict[str, str] = {}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            key, equals, value = (part.strip() for part in line.partition("="))
            if not equals or not key:
                raise ConfigError(f"{path}:{number}: a property of Kafka's client is written `key=value`")
            if key in own:
                way = "set LAKEHOUSE_KAFKA_BOOTSTRAP" if key == "bootstrap.servers" else "remove the line"
                raise ConfigError(f"{path}:{number}: {key} is the lakehouse's own; {way}")
            found[key] = _SECRET.sub(lambda name: self.secret(name[1]), value)
        return found


def _connection(env: Mapping[str, str], name: str) -> Connection:
    def secret(part: str) -> SecretStr | None:
        return SecretStr(value) if (value := env.get(f"{JDBC_PREFIX}{name}_{part}")) else None

    return Connection(url=SecretStr(env[f"{JDBC_PREFIX}{name}_URL"]), user=secret("USER"), password=secret("PASSWORD"))
