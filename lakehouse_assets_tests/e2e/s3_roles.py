"""Keys of S3 that are in no variable: a profile's files, and an endpoint that gives a role's keys, as containers have one.

Belongs here: both, for tests. Does not: a server of S3 (servers), or what reads the keys.
"""

import json
import os
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

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
    """``requests``: how many it has answered, by program. ``variables``: those by which the libraries find it."""

    def __init__(self, port: int, token_file: Path) -> None:
        self.requests = Counter[str]()
        self.variables = {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://127.0.0.1:{port}/keys",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token_file),
        }


@contextmanager
def role_endpoint(home: Path) -> Iterator[RoleEndpoint]:
    """Yield an endpoint that gives the keys of a role to whoever shows the token."""
    token_file = home / "token"
    token_file.write_text("may-ask")

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

        def do_GET(self) -> None:
            endpoint.requests[re.split("[/ ]", self.headers.get("User-Agent", ""))[0]] += 1
            is_allowed = self.headers.get("Authorization") == "may-ask"
            expiration = (datetime.now(UTC) + timedelta(hours=6)).strftime("%Y-%m-%dT%H:%M:%SZ")
            body = json.dumps({**_KEYS, "Expiration": expiration} if is_allowed else {"message": "no"}).encode()
            self.send_response(200 if is_allowed else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    endpoint = RoleEndpoint(listener.server_address[1], token_file)
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    try:
        yield endpoint
    finally:
        listener.shutdown()
        listener.server_close()
