"""Edits the metadata of a GGUF v3 file, for tests that need a real model with something odd.

Format: github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import struct
from pathlib import Path

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
U32, STRING, ARRAY = 4, 8, 9
ALIGNMENT = 32


class _Reader:
    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def number(self, form: str):
        (value,) = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def string(self) -> bytes:
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size:self.at]

    def skip_value(self, kind: int) -> None:
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            of, count = self.number("I"), self.number("Q")
            if of in SIZES:
                self.at += SIZES[of] * count
            else:
                for _ in range(count):
                    self.skip_value(of)
        else:
            self.at += SIZES[kind]


def string_value(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<IQ", STRING, len(raw)) + raw


def number_value(number: int) -> bytes:
    return struct.pack("<II", U32, number)


def edited(source: Path, target: Path, change) -> Path:
    """A copy whose fields went through change(name, type and value as they are in the file), which
    gives the new bytes, or None for a field that is left out."""
    data = source.read_bytes()
    reader = _Reader(data)
    magic, version = reader.number("I"), reader.number("I")
    tensors, fields = reader.number("Q"), reader.number("Q")
    kept = []
    for _ in range(fields):
        name = reader.string()
        begin = reader.at
        reader.skip_value(reader.number("I"))
        value = change(name.decode(), data[begin:reader.at])
        if value is not None:
            kept.append(struct.pack("<Q", len(name)) + name + value)
    infos = reader.at
    for _ in range(tensors):
        reader.string()
        dimensions = reader.number("I")
        reader.at += 8 * dimensions + 4 + 8
    head = struct.pack("<IIQQ", magic, version, tensors, len(kept)) + b"".join(kept)
    head += data[infos:reader.at]
    payload = -(-reader.at // ALIGNMENT) * ALIGNMENT
    target.write_bytes(head + bytes(-len(head) % ALIGNMENT) + data[payload:])
    return target
