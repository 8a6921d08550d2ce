"""Peers and clients that do not behave: control messages written field by field, bytes of any kind
on any port, and a good client beside them."""

import random
import socket
import struct
import threading
import time

from support import wire
from support.build import PATIENCE_S

HELLO, HELLO_REFUSED, RESERVE, PREFILL, CANCEL, RESUME, HEARTBEAT = 10, 12, 13, 14, 16, 18, 19
ACCEPTED, COMMIT = wire.ACCEPTED, wire.COMMIT
ROUTER, PREFILL_NODE = 1, 2
VERSION = 2
WORD = 1 << 64


def message(*fields) -> bytes:
    """(number, value): int as varint (two's complement), float as fixed32, bytes as they are;
    (number, value, wire.FIXED64)."""
    out = []
    for number, value, *kind in fields:
        if isinstance(value, float):
            out.append([number, wire.FIXED32, struct.unpack("<I", struct.pack("<f", value))[0]])
        elif isinstance(value, int):
            out.append([number, kind[0] if kind else wire.VARINT, value % WORD])
        else:
            out.append([number, wire.BYTES, value])
    return wire.serialise(out)


def key(request: int = 7) -> bytes:
    return message((1, request, wire.FIXED64), (2, request, wire.FIXED64), (3, 1), (4, 1))


def work(ids=(1, 2, 3), deadline_ms: int = 60_000) -> bytes:
    sampling = message((3, 1.0), (5, 1.0), (9, 8))
    return message(*((1, each) for each in ids), (3, sampling), (4, deadline_ms))


def reserve(request: int, ids=(1, 2, 3), lease_ms: int = 5000, deadline_ms: int = 60_000) -> bytes:
    return message((1, key(request)), (2, work(ids, deadline_ms)), (3, lease_ms))


def prefill(request: int, **options) -> bytes:
    return reserve(request, **options) + message((4, 1))


class Stranger:
    """A control connection made by hand."""

    def __init__(self, address: str, node: str = "stranger"):
        self.socket = connect(address)
        self.node, self.epoch, self.peer_epoch = node, random.getrandbits(62) | 1, 0

    def __enter__(self) -> "Stranger":
        return self

    def __exit__(self, *_) -> None:
        self.socket.close()

    def hello(self, role: int = ROUTER, version: int = VERSION) -> int:
        """Says hello and gives the kind of the answer."""
        self.send(HELLO, message((1, version), (2, role), (3, self.node.encode())))
        envelope = self.receive()
        self.peer_epoch = wire.parse(envelope)[0][2]
        return wire.kind_of(envelope)

    def send(self, kind: int, body: bytes, epoch: int | None = None) -> None:
        self.payload(message((1, epoch or self.epoch, wire.FIXED64),
                             (2, self.peer_epoch, wire.FIXED64), (kind, body)))

    def payload(self, envelope: bytes) -> None:
        self.socket.sendall(struct.pack(">I", len(envelope)) + envelope)

    def receive(self) -> bytes:
        """The next envelope; ConnectionError when the other side closed."""
        (length,) = struct.unpack(">I", self._exactly(4))
        return self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        out = b""
        while len(out) < count:
            got = self.socket.recv(count - len(out))
            if not got:
                raise ConnectionError("closed")
            out += got
        return out


def connect(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), PATIENCE_S)


def closes(connection: socket.socket) -> bool:
    """Does the other side end it, whatever it says before?"""
    deadline = time.monotonic() + PATIENCE_S
    try:
        while (left := deadline - time.monotonic()) > 0:
            connection.settimeout(left)
            if not connection.recv(1 << 16):
                return True
    except TimeoutError:
        return False
    except OSError:
        return True
    return False


def talk(address: str, data: bytes) -> bytes:
    """What is answered until the connection is closed."""
    out = b""
    with connect(address) as connection:
        try:
            connection.sendall(data)
            while got := connection.recv(1 << 16):
                out += got
        except ConnectionError:
            pass
    return out


class GoodClient:
    """Asks the same again and again beside what a test does; every answer has to be right."""

    def __init__(self, cluster):
        self.cluster, self.stop, self.wrong, self.seconds = cluster, threading.Event(), [], []
        self.right = self.ask()
        self.thread = threading.Thread(target=self._run)

    def ask(self) -> str:
        outcome = self.cluster.complete("The capital of France is", max_tokens=6)
        return outcome.text if outcome.status == 200 else f"{outcome.status}: {outcome.error}"

    def __enter__(self) -> "GoodClient":
        self.thread.start()
        return self

    def __exit__(self, kind, *_) -> None:
        self.stop.set()
        self.thread.join()
        if kind is None:
            assert self.seconds, "nothing was answered"
            assert not self.wrong, self.wrong[:3]

    def _run(self) -> None:
        while not self.stop.is_set():
            start = time.monotonic()
            try:
                answer = self.ask()
            except OSError as error:
                answer = repr(error)
            self.seconds.append(time.monotonic() - start)
            if answer != self.right:
                self.wrong.append(answer)
