"""A proxy between a Kafka client and a broker that refuses the first Produce request, as a broker does for a moment after it
has made a topic.

Belongs here: Kafka's frames as far as refusing needs them. Does not: the broker (servers), or what is sent.
"""

import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

PRODUCE = 0
NOT_LEADER_OR_FOLLOWER = 6
# As long as a client that has a second request ready may take to send it.
SECOND_REQUEST_SECONDS = 1.0


@dataclass
class RefusingProxy:
    """``refused``: the request's id, as soon as there was one."""

    broker_port: int
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))
    refused: list[int] = field(default_factory=list)

    @property
    def port(self) -> int:
        """The port for clients, which the broker has to advertise."""
        return self.listener.getsockname()[1]

    @contextmanager
    def up(self) -> Iterator["RefusingProxy"]:
        """The proxy for as long as the block lasts."""
        threading.Thread(target=self._accept, daemon=True).start()
        try:
            yield self
        finally:
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            broker = socket.create_connection(("127.0.0.1", self.broker_port))
            sending = threading.Lock()
            threading.Thread(target=self._requests, args=(client, broker, sending), daemon=True).start()
            threading.Thread(target=self._responses, args=(client, broker, sending), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket, sending: threading.Lock) -> None:
        """Requests of one connection, until one side closes it."""
        for frame in _frames(client, broker):
            if struct.unpack_from(">h", frame)[0] == PRODUCE and not self.refused:
                answer, number = _refusal(frame)
                self.refused.append(number)
                # A second request, if one is in flight, is accepted before the first is sent again.
                select.select([client], [], [], SECOND_REQUEST_SECONDS)
                with sending:
                    _send(client, answer)
            else:
                _send(broker, frame)

    def _responses(self, client: socket.socket, broker: socket.socket, sending: threading.Lock) -> None:
        for frame in _frames(broker, client):
            with sending:
                _send(client, frame)


def _frames(source: socket.socket, other: socket.socket) -> Iterator[bytes]:
    """Frames without their length, until one side closes; then both are closed."""
    try:
        with source.makefile("rb") as stream:
            while len(size := stream.read(4)) == 4:
                yield stream.read(struct.unpack(">i", size)[0])
    except (OSError, ValueError):
        pass
    finally:
        source.close()
        other.close()


def _send(target: socket.socket, frame: bytes) -> None:
    with suppress(OSError):
        target.sendall(struct.pack(">i", len(frame)) + frame)


def _refusal(frame: bytes) -> tuple[bytes, int]:
    """The answer that refuses a Produce request of one batch, and the request's id. Versions 9 to 12 of the protocol:
    https://kafka.apache.org/protocol.html#The_Messages_Produce
    """
    version, number, client = struct.unpack_from(">hih", frame, 2)
    assert 9 <= version <= 12, f"Produce request of version {version}"
    # The client's name, no tags, no transaction, acks and timeout, an array of one topic.
    at = 10 + max(client, 0) + 1 + 1 + 2 + 4
    assert frame[at] == 2, "one topic"
    name = frame[at + 1 : at + 1 + frame[at + 1]]
    at += 1 + len(name)
    assert frame[at] == 2, "one partition"
    partition = struct.unpack_from(">i", frame, at + 1)[0]
    # Without offsets, errors of records and a text.
    response = struct.pack(">ihqqq", partition, NOT_LEADER_OR_FOLLOWER, -1, -1, -1) + b"\x01\x00\x00"
    return struct.pack(">i", number) + b"\x00\x02" + name + b"\x02" + response + b"\x00" + struct.pack(
        ">i", 0
    ) + b"\x00", number
