"""Looks into and alters control messages on their way, on the level of Protobuf's wire format:
field numbers as in proto/baton.proto, no generated code. A path is the field numbers from the
envelope down to a field, e.g. (33, 3) for the length of a Commit."""

import socket
import struct
import threading

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
HELLO_ACK, GRANTED, COMMIT, ACCEPTED, COMMIT_REFUSED = 11, 23, 33, 34, 35
TO_EPOCH = (2,)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 0x80:
            return value, at


def _to_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def parse(data: bytes) -> list[list]:
    """[field number, kind, value]: an int, or bytes for what has a length."""
    out, at = [], 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == VARINT:
            value, at = _varint(data, at)
        elif kind == BYTES:
            length, at = _varint(data, at)
            value, at = data[at:at + length], at + length
        else:
            size = 8 if kind == FIXED64 else 4
            value, at = int.from_bytes(data[at:at + size], "little"), at + size
        out.append([tag >> 3, kind, value])
    return out


def serialise(fields: list[list]) -> bytes:
    out = b""
    for number, kind, value in fields:
        out += _to_varint(number << 3 | kind)
        if kind == VARINT:
            out += _to_varint(value)
        elif kind == BYTES:
            out += _to_varint(len(value)) + value
        else:
            out += value.to_bytes(8 if kind == FIXED64 else 4, "little")
    return out


def edit(data: bytes, path: tuple, change) -> bytes:
    """The message with change(value) at the first field that the path leads to; a number that is
    absent (zero) can be given a value if it is a varint."""
    fields = parse(data)
    for each in fields:
        if each[0] == path[0]:
            each[2] = change(each[2]) if len(path) == 1 else edit(each[2], path[1:], change)
            return serialise(fields)
    if len(path) > 1:
        raise KeyError(path)
    return serialise([*fields, [path[0], VARINT, change(0)]])


def kind_of(envelope: bytes) -> int:
    """Number of the message in the envelope's oneof."""
    return max((number for number, _, _ in parse(envelope) if number >= 10), default=0)


class Proxy:
    """Stands in front of a worker's control port. `tamper(kind, envelope)` sees every frame, both
    ways, and gives the frames to pass on: [envelope] as a rule. The worker's address in its
    HelloAck becomes the proxy's, so that peers come here too."""

    def __init__(self):
        self.target = None
        self.tamper = lambda kind, envelope: [envelope]
        self.seen = []  # kinds, in order of arrival
        self.sockets = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for each in [self.listener, *self.sockets]:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
                host, port = self.target.rsplit(":", 1)
                server = socket.create_connection((host, int(port)), 5)
                server.settimeout(None)
            except OSError:
                return
            self.sockets += [client, server]
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            with source.makefile("rb") as frames:
                while len(head := frames.read(4)) == 4:
                    envelope = frames.read(struct.unpack(">I", head)[0])
                    for out in self._changed(envelope):
                        sink.sendall(struct.pack(">I", len(out)) + out)
        except OSError:
            pass
        finally:
            for each in (source, sink):
                try:
                    each.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def _changed(self, envelope: bytes) -> list[bytes]:
        kind = kind_of(envelope)
        self.seen.append(kind)
        if kind == HELLO_ACK:
            envelope = edit(envelope, (HELLO_ACK, 6, 7), lambda _: self.address.encode())
        return self.tamper(kind, envelope)
