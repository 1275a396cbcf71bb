"""Object stores: S3, Google Cloud Storage and Azure, as each library is to reach them.

Belongs here: a location's store, a server's address, the options of each library. Does not: credentials, but for Azure's key,
which only some of the libraries look up by themselves; profiles and roles of S3 (s3_keys); file systems (storage/file_systems).
"""

import json
import os
import re
from collections.abc import Mapping
from typing import Self
from urllib.parse import quote, urlencode, urlsplit

from pydantic import SecretStr

from lakehouse_assets.errors import EnvironmentMissing
from lakehouse_assets.project import FrozenModel
from lakehouse_assets.s3_keys import AwsProfile

# Hadoop's own order, with the chain of Amazon's SDK in the place of variables and a machine's role: it has both, and profiles.
S3A_CHAIN = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,"
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
)
AZURE_KEY = "AZURE_STORAGE_ACCOUNT_KEY"
# Of an ABFS address: abfss://container@account.dfs.core.windows.net/path
_ABFS = re.compile(r"abfss?://(?P<container>[^@/:]+)@(?P<account>[^./@:]+)\.(?P<domain>[^/]+)(?P<path>/.*)?")


def is_url(location: str) -> bool:
    """Whether a location is on an object store rather than on a disk."""
    return "://" in location


def is_s3(location: str) -> bool:
    """Whether a location is on S3, in any spelling of its scheme."""
    return re.match("s3[an]?://", location) is not None


def is_gcs(location: str) -> bool:
    """Whether a location is on Google Cloud Storage."""
    return re.match("gc?s://", location) is not None


def is_azure(location: str) -> bool:
    """Whether a location is on Azure, with TLS (`abfss`) or without."""
    return re.match("abfss?://", location) is not None


def spark_location(location: str) -> str:
    """Return a location with the one scheme of its store that Spark knows."""
    return re.sub("^gcs://", "gs://", re.sub("^s3n?://", "s3a://", location))


class S3(FrozenModel):
    """The S3 server, if it is not Amazon's: a bucket's path does not name it. ``uses_chain``: there are no keys in variables,
    so that each library looks for a profile, and then for a role of the machine.
    """

    endpoint: str | None = None
    region: str | None = None
    uses_chain: bool = False
    profile: AwsProfile = AwsProfile()

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Self:
        """Read the variables of Amazon's own tools."""
        return cls(
            endpoint=env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL") or None,
            region=env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or None,
            uses_chain=not (env.get("AWS_ACCESS_KEY_ID") and env.get("AWS_SECRET_ACCESS_KEY")),
            profile=AwsProfile.from_environment(env),
        )

    def arrow_uri(self, location: str) -> str:
        """Return the location for `pyarrow.fs.FileSystem.from_uri`. Raises EnvironmentMissing for an absent profile."""
        region = self._find_region()
        parameters = {"region": region} if region else {}
        if self.endpoint:
            parts = urlsplit(self.endpoint)
            parameters |= {"scheme": parts.scheme, "endpoint_override": parts.netloc}
        return _with_query(re.sub("^s3[an]?://", "s3://", location), parameters)

    def options(self) -> dict[str, str]:
        """Return the storage options of `deltalake` and `obstore`. Raises EnvironmentMissing for an absent profile."""
        values = {"AWS_REGION": self._find_region(), "AWS_ENDPOINT_URL": self.endpoint}
        return {name: value for name, value in values.items() if value} | _allow_http(self.endpoint)

    def hadoop(self) -> dict[str, str]:
        """Return Spark's properties. A private server has buckets as folders, Amazon as host names. Raises EnvironmentMissing
        for an absent profile, and for one that Spark cannot use.
        """
        if self.uses_chain:
            self.profile.require_for_spark()
        values = {"endpoint": self.endpoint, "endpoint.region": self._find_region()}
        values["path.style.access"] = "true" if self.endpoint else None
        values["aws.credentials.provider"] = S3A_CHAIN if self.uses_chain else None
        return {f"spark.hadoop.fs.s3a.{name}": value for name, value in values.items() if value}

    def _find_region(self) -> str | None:
        if self.uses_chain:
            self.profile.require()
        # Requests are signed for a region: a server of one's own has none, but the libraries insist.
        return self.region or self.profile.region or ("us-east-1" if self.endpoint else None)


class Gcs(FrozenModel):
    """Google Cloud Storage, or the address of an emulator. ``key_file``: of a service account."""

    endpoint: str | None = None
    key_file: str | None = None

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Self:
        """Read ``STORAGE_EMULATOR_HOST`` and ``GOOGLE_APPLICATION_CREDENTIALS``, as Google's own libraries do."""
        host = env.get("STORAGE_EMULATOR_HOST") or None
        endpoint = host if host is None or is_url(host) else f"http://{host}"
        return cls(endpoint=endpoint, key_file=env.get("GOOGLE_APPLICATION_CREDENTIALS") or None)

    def arrow_uri(self, location: str) -> str:
        """Return the location for `pyarrow.fs.FileSystem.from_uri`. An emulator asks for no credentials."""
        plain = re.sub("^gcs?://", "gs://", location)
        if not self.endpoint:
            return plain
        parts = urlsplit(self.endpoint)
        anonymous = plain.replace("gs://", "gs://anonymous@", 1)
        return _with_query(anonymous, {"scheme": parts.scheme, "endpoint_override": parts.netloc})

    def options(self) -> dict[str, str]:
        """Return the storage options of `deltalake` and `obstore`."""
        if not self.endpoint:
            return {}
        # A service account that asks for no token: to skip signatures alone, they ask for one before they write.
        empty = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        account = json.dumps({"gcs_base_url": self.endpoint, "disable_oauth": True, **empty})
        return {"GOOGLE_SERVICE_ACCOUNT_KEY": account, **_allow_http(self.endpoint)}

    def hadoop(self) -> dict[str, str]:
        """Return Spark's properties of Google's connector."""
        properties = {
            "spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
            "spark.hadoop.fs.AbstractFileSystem.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS",
        }
        if self.endpoint:
            properties["spark.hadoop.fs.gs.storage.root.url"] = f"{self.endpoint.rstrip('/')}/"
            properties["spark.hadoop.fs.gs.auth.service.account.enable"] = "false"
            properties["spark.hadoop.fs.gs.auth.null.enable"] = "true"
        elif self.key_file:
            properties["spark.hadoop.fs.gs.auth.service.account.json.keyfile"] = self.key_file
        return properties


class AzureAddress(FrozenModel):
    """The parts of an ABFS location. ``host``: the account with its domain."""

    container: str
    account: str
    host: str
    path: str

    @classmethod
    def from_location(cls, location: str) -> Self:
        """Raises EnvironmentMissing for another form: the libraries read other forms differently."""
        match = _ABFS.fullmatch(location)
        if match is None:
            raise EnvironmentMissing(f"{location}: an address of Azure is abfss://container@account.dfs.core.windows.net/path")
        container, account, domain, path = match.groups()
        return cls(container=container, account=account, host=f"{account}.{domain}", path=(path or "").strip("/"))


class Azure(FrozenModel):
    """Azure's storage. ``endpoint``: of an emulator, with the account as its last part. ``key``: the account's, never shown."""

    endpoint: str | None = None
    key: SecretStr | None = None
    tenant: str | None = None
    client: str | None = None
    token_file: str | None = None

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Self:
        """Read the variables of Azure's own tools."""
        key = env.get(AZURE_KEY)
        return cls(
            endpoint=env.get("AZURE_STORAGE_ENDPOINT") or None,
            key=SecretStr(key) if key else None,
            tenant=env.get("AZURE_TENANT_ID") or None,
            client=env.get("AZURE_CLIENT_ID") or None,
            token_file=env.get("AZURE_FEDERATED_TOKEN_FILE") or None,
        )

    def options(self) -> dict[str, str]:
        """Return the storage options of `deltalake` and `obstore`, which look up credentials by themselves."""
        if not self.endpoint:
            return {}
        return {"AZURE_STORAGE_ENDPOINT": self.endpoint, **_allow_http(self.endpoint)}

    def hadoop(self, location: str) -> dict[str, str]:
        """Return Spark's properties for the location's account. The key stays in the environment: Hadoop reads it there."""
        host = AzureAddress.from_location(location).host
        prefix = "spark.hadoop.fs.azure"
        properties: dict[str, str] = {}
        if self.key:
            properties[f"{prefix}.account.key.{host}"] = f"${{env.{AZURE_KEY}}}"
        elif self.token_file and self.tenant and self.client:
            properties[f"{prefix}.account.auth.type.{host}"] = "OAuth"
            provider = "org.apache.hadoop.fs.azurebfs.oauth2.WorkloadIdentityTokenProvider"
            properties[f"{prefix}.account.oauth.provider.type.{host}"] = provider
            properties[f"{prefix}.account.oauth2.msi.tenant.{host}"] = self.tenant
            properties[f"{prefix}.account.oauth2.client.id.{host}"] = self.client
            properties[f"{prefix}.account.oauth2.token.file.{host}"] = self.token_file
        if self.endpoint:
            # Emulators have no hierarchical namespace.
            properties[f"{prefix}.abfs.endpoint"] = urlsplit(self.endpoint).netloc
            properties[f"{prefix}.account.hns.enabled"] = "false"
            properties[f"{prefix}.fns.account.service.type"] = "BLOB"
            if self.endpoint.startswith("http://"):
                properties[f"{prefix}.always.use.https"] = "false"
        return properties


class ObjectStore(FrozenModel):
    """The three kinds of stores. One server of each for the whole process."""

    s3: S3 = S3()
    gcs: Gcs = Gcs()
    azure: Azure = Azure()

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Read the variables of each store's own tools."""
        env = os.environ if environ is None else environ
        return cls(s3=S3.from_environment(env), gcs=Gcs.from_environment(env), azure=Azure.from_environment(env))

    def arrow_uri(self, location: str) -> str:
        """Return the location for `pyarrow.fs.FileSystem.from_uri`. Azure's file system takes no location
        (storage/file_systems).
        """
        if not is_url(location):
            return f"file://{quote(location)}"
        if is_s3(location):
            return self.s3.arrow_uri(location)
        return self.gcs.arrow_uri(location) if is_gcs(location) else location

    def options(self, location: str) -> dict[str, str] | None:
        """Return the storage options of `deltalake` and `obstore` for the location; None if it needs none."""
        if is_s3(location):
            return self.s3.options()
        if is_gcs(location):
            return self.gcs.options() or None
        return self.azure.options() or None if is_azure(location) else None

    def needs_keys(self, location: str) -> bool:
        """Whether `deltalake` and `obstore` need keys besides the options: they read no profile."""
        return is_s3(location) and self.s3.uses_chain

    def hadoop(self, *locations: str) -> dict[str, str]:
        """Return Spark's properties for the stores of these locations."""
        properties: dict[str, str] = {}
        for location in locations:
            if is_s3(location):
                properties |= self.s3.hadoop()
            elif is_gcs(location):
                properties |= self.gcs.hadoop()
            elif is_azure(location):
                properties |= self.azure.hadoop(location)
        return properties


def _allow_http(endpoint: str | None) -> dict[str, str]:
    # An address that says http:// was typed by someone who means it.
    return {"allow_http": "true"} if endpoint and endpoint.startswith("http://") else {}


def _with_query(uri: str, parameters: Mapping[str, str]) -> str:
    return f"{uri}?{urlencode(parameters)}" if parameters else uri
