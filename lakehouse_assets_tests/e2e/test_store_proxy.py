"""The proxy before an S3 server. Belongs here: HTTP between it and a client. Does not: what clients do when a request fails."""

import socket
from pathlib import Path

from lakehouse_assets_tests.e2e.store_proxy import store_behind_proxy

HEAD = b"PUT /lake/object HTTP/1.1\r\nHost: lake\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n"


def test_the_proxy_asks_for_the_content_of_a_request_at_once(tmp_path: Path) -> None:
    """Hadoop's client waits for that: without it, each of its writes takes three seconds."""
    with store_behind_proxy(tmp_path) as proxy:
        host, _, port = proxy.variables["AWS_ENDPOINT_URL"].removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port)), timeout=20) as client:
            client.sendall(HEAD)
            assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.sendall(b"ab")
            assert client.recv(1000).startswith(b"HTTP/1.1 200 OK")
