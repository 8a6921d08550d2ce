#!/usr/bin/env python3
"""Writes tests/fuzz/gguf: one small valid file and the crafted ones (LDR-01, 02, 03, 05)."""

import pathlib
import struct

OUT = pathlib.Path(__file__).parent / "gguf"
U32, STRING, ARRAY = 4, 8, 9


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def field(key: bytes, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def tensor(name: bytes, dims: list, kind: int, offset: int, n_dims: int = None) -> bytes:
    count = len(dims) if n_dims is None else n_dims
    return (
        text(name)
        + struct.pack("<I", count)
        + b"".join(struct.pack("<Q", d) for d in dims)
        + struct.pack("<IQ", kind, offset)
    )


def file(fields=(), tensors=(), data=b"", n_fields=None, n_tensors=None, version=3) -> bytes:
    head = b"GGUF" + struct.pack(
        "<IQQ",
        version,
        len(tensors) if n_tensors is None else n_tensors,
        len(fields) if n_fields is None else n_fields,
    )
    out = head + b"".join(fields) + b"".join(tensors)
    return out + b"\0" * (-len(out) % 32) + data


def u32(key: bytes, value: int) -> bytes:
    return field(key, U32, struct.pack("<I", value))


CASES = {
    "good_small": file(
        [u32(b"a.count", 2), field(b"a.name", STRING, text(b"x"))],
        [tensor(b"t", [2, 2], 0, 0)],
        struct.pack("<4f", 1, 2, 3, 4),
    ),
    "good_empty": file(),
    "field_count_2_63": file(n_fields=1 << 63),
    "tensor_count_2_63": file(n_tensors=1 << 63),
    "string_length_max": file([field(b"a", STRING, struct.pack("<Q", 2**64 - 1))]),
    "key_length_max": file([struct.pack("<QI", 2**64 - 1, 4)]),
    "n_dims_5": file([], [tensor(b"t", [1] * 5, 0, 0)], b"\0" * 4),
    "n_dims_9": file([], [tensor(b"t", [1] * 9, 0, 0)], b"\0" * 4),
    "n_dims_2_31": file([], [tensor(b"t", [1], 0, 0, n_dims=1 << 31)], b"\0" * 4),
    "tensor_type_255": file([], [tensor(b"t", [1], 255, 0)], b"\0" * 4),
    "value_type_255": file([field(b"a", 255, b"\0" * 8)]),
    "array_of_array": file([field(b"a", ARRAY, struct.pack("<IQIQ", ARRAY, 1, U32, 0))]),
    "array_count_2_62": file([field(b"a", ARRAY, struct.pack("<IQ", U32, 1 << 62))]),
    "zero_dimension": file([], [tensor(b"t", [0], 2, 0)]),
    "empty_key": file([u32(b"", 1)]),
    "dim_2_42_plus_1": file([], [tensor(b"t", [(1 << 42) + 1], 0, 0)], b"\0" * 4),
    "dims_product_wraps": file([], [tensor(b"t", [1 << 32, 1 << 32], 0, 0)], b"\0" * 4),
    "offset_near_2_64": file([], [tensor(b"t", [1], 0, 2**64 - 32)], b"\0" * 4),
    "overlap": file([], [tensor(b"t", [16], 0, 0), tensor(b"u", [4], 0, 32)], b"\0" * 64),
    "truncated_tensor": file([], [tensor(b"t", [4], 0, 0)], b"\0" * 15),
    "alignment_zero": file([u32(b"general.alignment", 0)]),
    "version_1": file(version=1),
    "magic_only": b"GGUF",
}

OUT.mkdir(exist_ok=True)
for name, content in CASES.items():
    (OUT / f"{name}.gguf").write_bytes(content)
