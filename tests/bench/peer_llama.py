"""One cell of llama.cpp or ik_llama.cpp, driven through their low-level bindings.

    VENV/bin/python tests/bench/peer_llama.py MODULE MODEL THREADS CELL STEPS

MODULE is llama_cpp or ik_llama_cpp._ctypes_api; CELL as in `baton bench engine`. Prints tokens per
second. Every cell is one that it can do.
"""

import ctypes
import importlib
import re
import sys
import time

UBATCH = 512


def set_if_there(struct, name, value):
    if any(field[0] == name for field in struct._fields_):
        setattr(struct, name, value)


class Peer:
    def __init__(self, module, path, threads, context, sequences):
        self.lib = importlib.import_module(module)
        lib = self.lib
        if hasattr(lib, "llama_log_set"):
            self.quiet = lib.llama_log_callback(lambda *_: None)
            lib.llama_log_set(self.quiet, ctypes.c_void_p(0))
        lib.llama_backend_init()
        params = lib.llama_model_default_params()
        # ik_llama.cpp: weights in the layout that its kernels want.
        set_if_there(params, "repack_tensors", True)
        if module.startswith("ik_llama_cpp"):
            params.use_mmap = False
        load = getattr(lib, "llama_model_load_from_file", None) or lib.llama_load_model_from_file
        self.model = load(path.encode(), params)
        if not self.model:
            raise SystemExit("the model does not load")
        params = lib.llama_context_default_params()
        params.n_ctx = context
        params.n_batch = UBATCH
        params.n_ubatch = UBATCH
        params.n_seq_max = sequences
        params.n_threads = threads
        params.n_threads_batch = threads
        set_if_there(params, "flash_attn", True)
        set_if_there(params, "flash_attn_type", 1)
        set_if_there(params, "kv_unified", True)
        make = getattr(lib, "llama_init_from_model", None) or lib.llama_new_context_with_model
        self.context = make(self.model, params)
        if not self.context:
            raise SystemExit("no context")
        self.batch = lib.llama_batch_init(UBATCH, 0, sequences)

    def decode(self, rows):
        """rows: (token, position, sequence, logits wanted)."""
        batch = self.batch
        batch.n_tokens = len(rows)
        for i, (token, position, sequence, logits) in enumerate(rows):
            batch.token[i] = token
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = logits
        if self.lib.llama_decode(self.context, batch) != 0:
            raise SystemExit("llama_decode failed")
        # Waits for the results; ik_llama.cpp's are there when it returns.
        getattr(self.lib, "llama_synchronize", lambda _: None)(self.context)

    def forget(self):
        if hasattr(self.lib, "llama_memory_clear"):
            self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
        else:
            self.lib.llama_kv_cache_clear(self.context)

    def prompt(self, ids, sequence):
        for start in range(0, len(ids), UBATCH):
            part = ids[start:start + UBATCH]
            last = start + len(part) == len(ids)
            self.decode([(token, start + i, sequence, last and i + 1 == len(part))
                         for i, token in enumerate(part)])


def ids(count):
    return [(i * 7919) % 40000 + 100 for i in range(count)]


def main():
    module, path, threads, cell, steps = sys.argv[1:6]
    threads, steps = int(threads), int(steps)
    kind, positions, batch = re.fullmatch(r"(prefill|decode)-(\d+)(?:x(\d+))?", cell).groups()
    positions, batch = int(positions), int(batch or 1)
    context = (positions + steps + 64) * batch + 64
    peer = Peer(module, path, threads, context, batch)
    # What is counted is an engine that has been running: the same length once before.
    peer.prompt(ids(positions if kind == "prefill" else 8), 0)
    peer.forget()
    if kind == "prefill":
        start = time.perf_counter()
        peer.prompt(ids(positions), 0)
        print(positions / (time.perf_counter() - start))
        return
    for sequence in range(batch):
        peer.prompt(ids(positions), sequence)
    row = ids(steps + 1)
    peer.decode([(row[0], positions, s, True) for s in range(batch)])
    start = time.perf_counter()
    for step in range(1, steps + 1):
        peer.decode([(row[step], positions + step, s, True) for s in range(batch)])
    print(batch * steps / (time.perf_counter() - start))


if __name__ == "__main__":
    main()
