"""A fake of Google Cloud Storage in memory, of what `obstore`, `deltalake` and `pyarrow` ask of it here; and of S3 for the
first two.

Belongs here: objects by Google's XML API with conditions on their generation; its JSON API as far as listing and reading go.
Does not: multipart uploads, copies, authentication, Spark's connector; what must hold (test_gcs_fake, test_many_writers_on_s3).

It follows Google's documentation: `x-goog-if-generation-match: 0` creates an object once, and each content has a generation of
its own. fake-gcs-server, which is more complete, refuses the XML API's writes. S3 has the same requests, but for the condition
`If-None-Match: *` and the deletion of many objects at once.
"""

import base64
import hashlib
import json
import re
import subprocess
import sys
import threading
from bisect import bisect_left, insort
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape, unescape

from lakehouse_assets_tests.e2e.listeners import QuietHandler, listening


@dataclass(frozen=True)
class StoredObject:
    """``generation``: higher than those of all contents before it."""

    content: bytes
    generation: int
    updated: datetime


@dataclass
class FakeStore:
    """Objects by "bucket/name". ``refused``: how many writes a condition refused. ``authorized``: requests with a token."""

    objects: dict[str, StoredObject] = field(default_factory=dict)
    generation: int = 0
    refused: int = 0
    authorized: int = 0
    _paths: list[str] = field(default_factory=list)
    _changing: threading.Lock = field(default_factory=threading.Lock)

    def put(self, path: str, content: bytes, match: str | None) -> StoredObject | None:
        """Store a content; None if the condition on its generation does not hold. The look and the write are one step."""
        with self._changing:
            stored = self.objects.get(path)
            if match is not None and int(match) != (stored.generation if stored else 0):
                self.refused += 1
                return None
            self.generation += 1
            if stored is None:
                insort(self._paths, path)
            self.objects[path] = StoredObject(content, self.generation, datetime.now(UTC))
            return self.objects[path]

    def delete(self, path: str) -> bool:
        """Return whether it was there."""
        with self._changing:
            if self.objects.pop(path, None) is None:
                return False
            del self._paths[bisect_left(self._paths, path)]
            return True

    def below(self, bucket: str, prefix: str, after: str = "") -> list[tuple[str, StoredObject]]:
        """Return names and objects of a bucket, by name. ``after``: without the names up to this one."""
        first, last = f"{bucket}/{max(prefix, after)}", f"{bucket}/{prefix}\U0010ffff"
        with self._changing:
            paths = self._paths[bisect_left(self._paths, first) : bisect_left(self._paths, last)]
            named = [(path.removeprefix(f"{bucket}/"), self.objects[path]) for path in paths]
        return [(name, each) for name, each in named if not after or name > after]


@contextmanager
def fake_gcs() -> Iterator[tuple[str, FakeStore]]:
    """Yield the address of an empty store in which every bucket is there, and the store."""
    store = FakeStore()

    class Handler(_Handler):
        fake = store

    with listening(Handler) as address:
        yield address, store


_SERVER = """
import sys
from lakehouse_assets_tests.e2e.gcs_fake import fake_gcs
with fake_gcs() as (address, store):
    print(address, flush=True)
    sys.stdin.read()
    print(store.refused, store.authorized, flush=True)
"""


@contextmanager
def fake_in_its_own_process() -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Yield the address of a fake, and its process: a library that keeps Python waiting would keep the fake waiting too. Once
    its input is closed, it prints how many writes were refused, and how many requests had a token.
    """
    command = [sys.executable, "-c", _SERVER]
    with subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout and child.stdin
        yield child.stdout.readline().strip(), child
        child.stdin.close()


class _Handler(QuietHandler):
    fake: FakeStore

    def do_GET(self) -> None:
        self.fake.authorized += "Authorization" in self.headers
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path.startswith("/storage/v1/b/"):
            self._get_json(parts.path.removeprefix("/storage/v1/b/"), query)
        elif "list-type" in query:
            self._send(200, _list_xml(self.fake, unquote(parts.path).strip("/"), query))
        else:
            self._send_object(unquote(parts.path).lstrip("/"))

    do_HEAD = do_GET

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = unquote(urlsplit(self.path).path).lstrip("/")
        is_new = "0" if self.headers.get("If-None-Match") == "*" else None
        stored = self.fake.put(path, content, self.headers.get("x-goog-if-generation-match") or is_new)
        if stored is None:
            self._send(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        else:
            self._send(200, b"", _headers(stored))

    def do_POST(self) -> None:
        """Delete many objects, as S3 does."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        for name in re.findall("<Key>(.*?)</Key>", body):
            self.fake.delete(f"{unquote(urlsplit(self.path).path).strip('/')}/{unescape(name)}")
        self._send(200, b"<DeleteResult></DeleteResult>")

    def do_DELETE(self) -> None:
        self._send(204 if self.fake.delete(unquote(urlsplit(self.path).path).lstrip("/")) else 404)

    def _get_json(self, path: str, query: dict[str, str]) -> None:
        bucket, _, name = (unquote(part) for part in path.partition("/o"))
        if name.strip("/"):
            stored = self.fake.objects.get(f"{bucket}/{name.strip('/')}")
            if query.get("alt") == "media":
                self._send_object(f"{bucket}/{name.strip('/')}")
            elif stored:
                self._send(200, json.dumps(_resource(bucket, name.strip("/"), stored)).encode())
            else:
                self._send(404, json.dumps({"error": {"code": 404, "message": "Not Found"}}).encode())
            return
        named = self.fake.below(bucket, query.get("prefix", ""))
        items = [_resource(bucket, each_name, each) for each_name, each in named]
        self._send(200, json.dumps({"kind": "storage#objects", "items": items}).encode())

    def _send_object(self, path: str) -> None:
        stored = self.fake.objects.get(path)
        if stored is None:
            self._send(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        size, byte_range = len(stored.content), self.headers.get("Range")
        if not byte_range:
            self._send(200, stored.content, _headers(stored))
            return
        first, _, last = byte_range.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(0, size - int(last))
        end = min(size, int(last) + 1) if first and last else size
        headers = {**_headers(stored), "Content-Range": f"bytes {start}-{end - 1}/{size}"}
        self._send(206 if start < size else 416, stored.content[start:end], headers)

    def _send(self, status: int, content: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
        self.wfile.flush()


def _headers(stored: StoredObject) -> dict[str, str]:
    return {
        "ETag": f'"{_etag(stored)}"',
        "x-goog-generation": str(stored.generation),
        "Last-Modified": stored.updated.strftime("%a, %d %b %Y %H:%M:%S GMT"),
    }


def _etag(stored: StoredObject) -> str:
    return f"{hashlib.sha256(stored.content).hexdigest()[:16]}{stored.generation}"


def _list_xml(fake: FakeStore, bucket: str, query: dict[str, str]) -> bytes:
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
    contents, folders = [], {}
    for name, each in fake.below(bucket, prefix, query.get("start-after", "")):
        rest = name.removeprefix(prefix)
        if delimiter and delimiter in rest:
            folders[prefix + rest.partition(delimiter)[0] + delimiter] = None
            continue
        times = each.updated.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        contents.append(
            f"<Contents><Key>{escape(name)}</Key><Size>{len(each.content)}</Size>"
            f"<LastModified>{times}</LastModified><ETag>&quot;{_etag(each)}&quot;</ETag></Contents>"
        )
    prefixes = "".join(f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>" for each in folders)
    return f"<ListBucketResult>{''.join(contents)}{prefixes}<IsTruncated>false</IsTruncated></ListBucketResult>".encode()


def _resource(bucket: str, name: str, stored: StoredObject) -> dict[str, Any]:
    moment = stored.updated.isoformat().replace("+00:00", "Z")
    return {
        "kind": "storage#object",
        "bucket": bucket,
        "name": name,
        "size": str(len(stored.content)),
        "generation": str(stored.generation),
        "metageneration": "1",
        "etag": _etag(stored),
        "md5Hash": base64.b64encode(hashlib.md5(stored.content, usedforsecurity=False).digest()).decode(),
        "timeCreated": moment,
        "updated": moment,
    }
