"""The settings of this machine: read from the environment, and passed down as a frozen value.

Belongs here: paths, the Spark master, addresses of Kafka and of databases, secrets by name. Does not: a table's contract, or
how a library reaches an object store (object_store, which reads the variables of the stores' own tools).
"""

import os
import re
from collections.abc import Collection, Mapping
from hashlib import sha256
from pathlib import Path
from typing import get_args

from pydantic import Field, SecretStr

from lakehouse_assets.errors import ConfigError, EnvironmentMissing
from lakehouse_assets.object_store import is_azure, is_gcs, is_s3, is_url, spark_location
from lakehouse_assets.project import FrozenModel, Lock, locate_project, read_config

SECRET_PREFIX = "LAKEHOUSE_SECRET_"  # noqa: S105 (the name of variables, not a secret)
OPENLINEAGE_SECRET = "OPENLINEAGE"  # noqa: S105 (as above)
REGISTRY_PREFIX = "schema.registry."
VARIABLE_PREFIX = "LAKEHOUSE_VAR_"
JDBC_PREFIX = "LAKEHOUSE_JDBC_"
AUDIT_PORT = 3070  # where `lakehouse audit-docs` serves the pages, unless it is told another
_JDBC = re.compile(f"{JDBC_PREFIX}(\\w+)_URL")
_SECRET = re.compile(r"\$\{" + SECRET_PREFIX + r"(\w+)\}")


def project_folder(environ: Mapping[str, str] | None = None, start: Path | None = None) -> Path:
    """Return the project's folder: ``LAKEHOUSE_PROJECT``, else the nearest one from ``start`` (default: the working directory)
    upwards. Raises ProjectMissing.
    """
    env = os.environ if environ is None else environ
    return locate_project(env.get("LAKEHOUSE_PROJECT"), start)


def template_variables(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the values that a table's YAML may name, without ``LAKEHOUSE_VAR_``."""
    env = os.environ if environ is None else environ
    return {name.removeprefix(VARIABLE_PREFIX): value for name, value in env.items() if name.startswith(VARIABLE_PREFIX)}


class Connection(FrozenModel):
    """A database's address and credentials, which are never shown. ``jars``: of a driver that is not fetched."""

    url: SecretStr
    user: SecretStr | None = None
    password: SecretStr | None = None
    jars: tuple[Path, ...] = ()


class Settings(FrozenModel):
    """Paths are absolute, or object-store URLs. ``project``, ``tables``: the folders of the project and of its tables, if any.
    ``secrets``: the ``LAKEHOUSE_SECRET_*`` variables, never shown. ``variables``: the ``LAKEHOUSE_VAR_*`` ones, which a table's
    YAML may name. ``jdbc``: databases by the names of their variables.
    """

    root: str
    landing: str
    project: Path | None = None
    tables: Path | None = None
    audits: Path | None = None
    lock: Lock = "auto"
    lease_seconds: float = Field(default=60, ge=1, le=3600)
    asset_prefix: tuple[str, ...] = ()
    executor: str = "in_process"
    single_step: bool = False
    spark_master: str = "local[*]"
    spark_conf: Path | None = None
    dagster_home: Path
    kafka_bootstrap: str | None = None
    kafka_topic: str = "lakehouse.decisions"
    kafka_conf: Path | None = None
    openlineage_url: SecretStr | None = None
    openlineage_namespace: str = "lakehouse"
    audit_rows: int = Field(default=1000, ge=1)
    audit_pages: Path | None = None
    quality_pages: Path | None = None
    pages_url: str | None = None
    pages_refresh: bool = True
    secrets: Mapping[str, SecretStr] = Field(default={}, repr=False)
    variables: Mapping[str, str] = Field(default={}, repr=False)
    jdbc: Mapping[str, Connection] = Field(default={}, repr=False)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None, start: Path | None = None) -> "Settings":
        """Read ``LAKEHOUSE_*`` and ``DAGSTER_HOME``, and the project's keys; relative paths start at the project's folder.
        ``start``: where the project is searched for upwards (default: the working directory). Raises ProjectMissing.
        """
        env = os.environ if environ is None else environ
        project = project_folder(env, start)
        config = read_config(project)

        def path(value: str) -> Path:
            return (project / Path(value).expanduser()).resolve()

        def location(name: str, default: str) -> str:
            value = env.get(name) or default
            return spark_location(value) if is_url(value) else str(path(value))

        def file(name: str, default: str | None = None) -> Path | None:
            value = env.get(name) or default
            return path(value) if value else None

        rows = env.get("AUDIT_TOTAL_ROWS") or "1000"
        if not rows.isdecimal() or int(rows) < 1:
            raise EnvironmentMissing(f"AUDIT_TOTAL_ROWS is {rows!r}; a whole number of rows above 0 is wanted")
        if (pages_url := env.get("LAKEHOUSE_PAGES_URL") or None) and not re.match("https?://", pages_url):
            raise EnvironmentMissing(f"LAKEHOUSE_PAGES_URL is {pages_url!r}; an address with http:// or https:// is wanted")
        # It may have a password, and is not shown.
        if (lineage_url := env.get("LAKEHOUSE_OPENLINEAGE_URL") or None) and not re.match("https?://[^/]", lineage_url):
            raise EnvironmentMissing("LAKEHOUSE_OPENLINEAGE_URL: an address with http:// or https:// is wanted")
        return cls(
            root=location("LAKEHOUSE_ROOT", config.root),
            landing=location("LAKEHOUSE_LANDING", config.landing),
            project=project,
            tables=path(config.tables),
            audits=path(config.audits) if config.audits else None,
            lock=_lock(env, config.lock),
            lease_seconds=_lease_seconds(env, config.lease_seconds),
            asset_prefix=tuple(config.asset_prefix),
            executor=config.executor,
            single_step=config.single_step,
            spark_master=env.get("LAKEHOUSE_SPARK_MASTER") or config.spark_master,
            spark_conf=file("LAKEHOUSE_SPARK_CONF", config.spark_conf),
            dagster_home=Path(env["DAGSTER_HOME"]).resolve() if env.get("DAGSTER_HOME") else path(config.dagster_home),
            kafka_bootstrap=env.get("LAKEHOUSE_KAFKA_BOOTSTRAP") or None,
            kafka_topic=env.get("LAKEHOUSE_KAFKA_TOPIC") or "lakehouse.decisions",
            kafka_conf=file("LAKEHOUSE_KAFKA_CONF"),
            openlineage_url=SecretStr(lineage_url) if lineage_url else None,
            openlineage_namespace=env.get("LAKEHOUSE_OPENLINEAGE_NAMESPACE") or "lakehouse",
            audit_rows=int(rows),
            audit_pages=file("LAKEHOUSE_AUDIT_PAGES"),
            quality_pages=file("LAKEHOUSE_PAGES"),
            pages_url=pages_url,
            pages_refresh=(env.get("LAKEHOUSE_PAGES_REFRESH") or "on").lower() not in ("off", "false", "no", "0"),
            secrets={k.removeprefix(SECRET_PREFIX): SecretStr(v) for k, v in env.items() if k.startswith(SECRET_PREFIX)},
            variables=template_variables(env),
            jdbc={match[1]: _connection(env, match[1]) for k in env if (match := _JDBC.fullmatch(k)) and env[k]},
        )

    def path(self, *parts: str) -> str:
        """Return a path below the lake's root. Parts are table names that the contracts have checked."""
        return "/".join([self.root.rstrip("/"), *parts])

    @property
    def pages(self) -> Path:
        """The folder of the audits' pages, always on a local disk."""
        return self.audit_pages or self.dagster_home / "data" / "audits"

    @property
    def site(self) -> Path:
        """The folder of the quality pages, always on a local disk."""
        return self.quality_pages or self.dagster_home / "data" / "pages"

    @property
    def on_s3(self) -> bool:
        """Whether the lake or the landing folder is on S3."""
        return is_s3(self.root) or is_s3(self.landing)

    @property
    def on_gcs(self) -> bool:
        """Whether the lake or the landing folder is on Google Cloud Storage."""
        return is_gcs(self.root) or is_gcs(self.landing)

    @property
    def on_azure(self) -> bool:
        """Whether the lake or the landing folder is on Azure."""
        return is_azure(self.root) or is_azure(self.landing)

    @property
    def locks(self) -> Path:
        """The folder of lock files, always on a local disk: beside a local lake, else under DAGSTER_HOME by lake."""
        if is_url(self.root):
            return self.dagster_home / "data" / "locks" / sha256(self.root.rstrip("/").encode()).hexdigest()[:16]
        return Path(self.root) / "_locks"

    @property
    def is_leased(self) -> bool:
        """Whether tables are written under leases, which hold on any number of machines, and not under lock files."""
        return self.lock == "lease" or (self.lock == "auto" and is_url(self.root))

    def secret(self, name: str) -> str:
        """Return ``LAKEHOUSE_SECRET_<name>``. Raises EnvironmentMissing, naming the variable."""
        if name not in self.secrets:
            raise EnvironmentMissing(f"the environment has no {SECRET_PREFIX}{name}; set it, or remove its use from defs.yaml")
        return self.secrets[name].get_secret_value()

    def connection(self, name: str) -> Connection:
        """Return the database of ``LAKEHOUSE_JDBC_<name>_URL``. Raises EnvironmentMissing, naming the variable."""
        if name not in self.jdbc:
            raise EnvironmentMissing(
                f"the environment has no {JDBC_PREFIX}{name}_URL (nor, where needed, {JDBC_PREFIX}{name}_USER and _PASSWORD)"
            )
        return self.jdbc[name]

    def kafka_properties(self, own: Collection[str]) -> dict[str, str]:
        """Return the ``key=value`` lines of ``LAKEHOUSE_KAFKA_CONF``; ``${LAKEHOUSE_SECRET_<NAME>}`` in a value is that
        variable. A file that names one of ``own`` is refused.

        Raises EnvironmentMissing if a file or a variable is missing, ConfigError for an invalid line. Those of a schema
        registry are left out: Kafka's client refuses them.
        """
        return {key: value for key, value in self._kafka_file(own).items() if not key.startswith(REGISTRY_PREFIX)}

    def registry_properties(self) -> dict[str, str]:
        """Return the ``schema.registry.…`` lines of ``LAKEHOUSE_KAFKA_CONF`` without that prefix. Raises the same errors."""
        lines = self._kafka_file(()).items()
        return {key.removeprefix(REGISTRY_PREFIX): value for key, value in lines if key.startswith(REGISTRY_PREFIX)}

    def _kafka_file(self, own: Collection[str]) -> dict[str, str]:
        path = self.kafka_conf
        if path is None:
            return {}
        if not path.is_file():
            raise EnvironmentMissing(f"LAKEHOUSE_KAFKA_CONF names {path}, which is not a file")
        properties: dict[str, str] = {}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            key, equals, value = (part.strip() for part in line.partition("="))
            if not equals or not key:
                raise ConfigError(f"{path}:{number}: a property of Kafka's client is written `key=value`")
            if key in own:
                remedy = "set LAKEHOUSE_KAFKA_BOOTSTRAP" if key == "bootstrap.servers" else "remove the line"
                raise ConfigError(f"{path}:{number}: {key} is the lakehouse's own; {remedy}")
            properties[key] = _SECRET.sub(lambda name: self.secret(name[1]), value)
        return properties


def _lock(env: Mapping[str, str], default: Lock) -> Lock:
    text = env.get("LAKEHOUSE_LOCK") or default
    lock = next((lock for lock in get_args(Lock) if lock == text), None)
    if lock is None:
        raise EnvironmentMissing(f"LAKEHOUSE_LOCK is {text!r}; one of {', '.join(get_args(Lock))} is wanted")
    return lock


def _lease_seconds(env: Mapping[str, str], default: float) -> float:
    text = env.get("LAKEHOUSE_LEASE_SECONDS")
    try:
        value = float(text) if text else default
    except ValueError:
        value = 0.0
    if not 1 <= value <= 3600:
        raise EnvironmentMissing(f"LAKEHOUSE_LEASE_SECONDS is {text!r}; a number of seconds from 1 to 3600 is wanted")
    return value


def _connection(env: Mapping[str, str], name: str) -> Connection:
    def secret(part: str) -> SecretStr | None:
        return SecretStr(value) if (value := env.get(f"{JDBC_PREFIX}{name}_{part}")) else None

    jars = tuple(Path(jar).expanduser() for jar in env.get(f"{JDBC_PREFIX}{name}_JARS", "").split(os.pathsep) if jar)
    url = SecretStr(env[f"{JDBC_PREFIX}{name}_URL"])
    return Connection(url=url, user=secret("USER"), password=secret("PASSWORD"), jars=jars)
