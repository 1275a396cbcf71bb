"""A schema registry on loopback, as far as a reader needs it, and records in Avro's bytes.

Belongs here: the server and the encoder of the tests. Does not: tests.
"""

import json
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Registry:
    """``schemas``: the answer to each id. ``requests``: the paths asked for. ``status``: of every answer, if set."""

    def __init__(self, user: str | None = None) -> None:
        self.schemas: dict[int, Mapping[str, Any]] = {}
        self.requests: list[str] = []
        self.status: int | None = None
        self.expected = user and f"Basic {b64encode(user.encode()).decode()}"
        self.url = ""

    def add(self, number: int, *fields: Mapping[str, Any], **more: Any) -> str:
        schema = json.dumps({"type": "record", "name": "Order", "fields": list(fields)})
        self.schemas[number] = {"schema": schema} | more
        return schema

    def answer(self, path: str, authorization: str | None) -> tuple[int, Any]:
        self.requests.append(path)
        if self.status is not None:
            return self.status, {"error_code": self.status, "message": "no"}
        if self.expected and authorization != self.expected:
            return 401, {"error_code": 401, "message": "Unauthorized"}
        number = int(path.rpartition("/")[2])
        if number not in self.schemas:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        return 200, self.schemas[number]


@contextmanager
def registry_server(user: str | None = None) -> Iterator[Registry]:
    """Serve a registry for the block. ``user``: `name:password`, which requests must bring."""
    registry = Registry(user)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, answer = registry.answer(self.path, self.headers.get("Authorization"))
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def number(value: int) -> bytes:
    """A zigzag number."""
    rest, content = (value << 1) ^ (value >> 63), bytearray()
    while rest > 0x7F:
        content.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*content, rest])


def binary(value: bytes) -> bytes:
    return number(len(value)) + value


def text(value: str) -> bytes:
    return binary(value.encode())


def optional(value: bytes | None) -> bytes:
    """A value of `["null", …]`."""
    return number(0) if value is None else number(1) + value


def frame(schema: int, record: bytes) -> bytes:
    return b"\0" + schema.to_bytes(4, "big") + record
