"""Keys of S3 that are in no variable: a profile's files, and an endpoint that gives a role's keys.

Belongs here: both, for tests. Does not: a server of S3 (servers), or what reads the keys.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs

from lakehouse_assets_tests.e2e.listeners import QuietHandler, listening

PROFILE_KEY, ROLE_KEY = "KEYOFTHEPROFILE", "KEYOFTHEROLE"
SECRET = "a-secret-that-nobody-may-see"
TOKEN = "a-token-that-nobody-may-see"
_KEYS = {"AccessKeyId": ROLE_KEY, "SecretAccessKey": SECRET, "Token": TOKEN}


def without_keys(home: Path) -> dict[str, str]:
    """Return the environment of a process without any key, whose home is this folder."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    # An address of every machine at Amazon: it would be asked for a role.
    return plain | {"HOME": str(home), "AWS_EC2_METADATA_DISABLED": "true"}


def write_profile(home: Path) -> dict[str, str]:
    """Write the files of a profile into this home; return the variable that names it."""
    folder = home / ".aws"
    folder.mkdir(exist_ok=True)
    keys = f"aws_access_key_id = {PROFILE_KEY}\naws_secret_access_key = {SECRET}\n"
    (folder / "credentials").write_text(f"[lakekeeper]\n{keys}")
    (folder / "config").write_text("[profile lakekeeper]\nregion = eu-central-1\n")
    return {"AWS_PROFILE": "lakekeeper"}


class RoleEndpoint:
    """``requests``: how many it has answered, by program. ``variables``: those by which the libraries find it, by kind."""

    def __init__(self, address: str, token_file: Path, requests: Counter[str]) -> None:
        self.requests = requests
        self.of_container = {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{address}/keys",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token_file),
        }
        self.of_machine = {"AWS_EC2_METADATA_DISABLED": "false", "AWS_EC2_METADATA_SERVICE_ENDPOINT": address}
        self.of_web_identity = {
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(token_file),
            "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/lakekeeper",
            "AWS_ROLE_SESSION_NAME": "lakekeeper",
            "AWS_ENDPOINT_URL_STS": address,
            "AWS_REGION": "us-east-1",
        }


_IDENTITY = """<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>{AccessKeyId}</AccessKeyId>
<SecretAccessKey>{SecretAccessKey}</SecretAccessKey><SessionToken>{Token}</SessionToken><Expiration>{Expiration}</Expiration>
</Credentials><AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/lakekeeper/lakekeeper</Arn>
<AssumedRoleId>AROA:lakekeeper</AssumedRoleId></AssumedRoleUser></AssumeRoleWithWebIdentityResult>
<ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></AssumeRoleWithWebIdentityResponse>"""
_NAMES = "/latest/meta-data/iam/security-credentials"


@contextmanager
def role_endpoint(home: Path) -> Iterator[RoleEndpoint]:
    """Yield an endpoint that gives the keys of a role to whoever shows the token: as a container has one, as a machine of EC2
    has one (its metadata), and as Amazon has one for web identities (STS).
    """
    token_file = home / "token"
    token_file.write_text("may-ask")

    class Handler(_Handler):
        requests = Counter[str]()

    with listening(Handler) as address:
        yield RoleEndpoint(address, token_file, Handler.requests)


class _Handler(QuietHandler):
    requests: Counter[str]

    def do_PUT(self) -> None:
        """Give the session's token, which the second version of a machine's metadata asks for."""
        self._send(self.path == "/latest/api/token", b"may-ask", ("X-aws-ec2-metadata-token-ttl-seconds", "21600"))

    def do_POST(self) -> None:
        """Change the token of a web identity into keys."""
        body = parse_qs(self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode())
        is_allowed = body.get("WebIdentityToken") == ["may-ask"] and body.get("Action") == ["AssumeRoleWithWebIdentity"]
        self._send(is_allowed, _IDENTITY.format(**_keys()).encode(), ("Content-Type", "text/xml"))

    def do_GET(self) -> None:
        """Give the keys, or the name of the machine's role."""
        shown = self.headers.get("Authorization") or self.headers.get("X-aws-ec2-metadata-token")
        is_name = self.path.rstrip("/") == _NAMES
        is_known = is_name or self.path in ("/keys", f"{_NAMES}/lakekeeper")
        body = b"lakekeeper" if is_name else json.dumps(_keys()).encode()
        self._send(shown == "may-ask" and is_known, body, ("Content-Type", "application/json"))

    def _send(self, is_allowed: bool, body: bytes, header: tuple[str, str]) -> None:
        self.requests[re.split("[/ ]", self.headers.get("User-Agent", ""))[0]] += 1
        self.send_response(200 if is_allowed else 401)
        self.send_header(*header)
        content = body if is_allowed else b"{}"
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()


def _keys() -> dict[str, str]:
    now = datetime.now(UTC)
    times = {"LastUpdated": now, "Expiration": now + timedelta(hours=6)}
    return {"Code": "Success", **_KEYS, **{name: f"{at:%Y-%m-%dT%H:%M:%SZ}" for name, at in times.items()}}
