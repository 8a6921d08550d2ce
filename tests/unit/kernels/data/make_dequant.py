"""Writes dequant.bin: random blocks of every GGUF type with the values that the `gguf` package
makes of them. Needs numpy and gguf 0.19.0. Layout, little endian, until the end of the file:
u32 type (our DType's number), u32 values, u32 bytes, the bytes, the float32 values."""

import pathlib
import struct

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T
from gguf.quants import dequantize

TYPES = [T.F32, T.F16, T.BF16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q4_K, T.Q5_K, T.Q6_K]
# Byte offsets of the half-precision scales inside a block.
SCALES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0],
          T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208], T.F16: [0]}

rng = np.random.default_rng(7)
out = b""
for number, dtype in enumerate(TYPES):
    elements, size = GGML_QUANT_SIZES[dtype]
    blocks = 2 if elements == 256 else 4 if elements == 32 else 24
    data = rng.integers(0, 256, (blocks, size), dtype=np.uint8)
    for at in SCALES.get(dtype, []):
        halves = rng.normal(0, 0.05, blocks).astype(np.float16)
        halves[0] = np.float16(6e-8 * (number + 1))  # a denormal half
        data[:, at:at + 2] = halves[:, None].view(np.uint8)
    if dtype in (T.F32, T.BF16):
        data = rng.normal(0, 1, blocks).astype(np.float32).view(np.uint8).reshape(blocks, 4)
        data = data[:, 4 - size:].copy()
    values = dequantize(data.reshape(1, -1), dtype).astype(np.float32).ravel()
    out += struct.pack("<III", number, values.size, data.size) + data.tobytes() + values.tobytes()
pathlib.Path(__file__).with_name("dequant.bin").write_bytes(out)
