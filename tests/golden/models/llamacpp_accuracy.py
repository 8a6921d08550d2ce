"""How far llama.cpp on the same file and positions is from float32: the bar for our fast kernels.
Not part of the tests; its result is committed as data/llamacpp_accuracy.json.

    v/bin/python tests/golden/models/make_real_models.py smollm2 MODEL.gguf LOGITS.npy
    v2/bin/pip install llama-cpp-python
    v2/bin/python tests/golden/models/llamacpp_accuracy.py MODEL.gguf LOGITS.npy
"""

import json
import pathlib
import sys

import llama_cpp
import numpy as np

DATA = pathlib.Path(__file__).parent / "data"


def log_softmax(row):
    shifted = row.astype(np.float64) - row.max()
    return shifted - np.log(np.exp(shifted).sum())


def main():
    reference = np.load(sys.argv[2], mmap_mode="r")
    sequences = [[int(t) for t in line.split()]
                 for line in (DATA / "english.tokens").read_text().splitlines()]
    model = llama_cpp.Llama(sys.argv[1], n_ctx=1024, n_batch=512, n_threads=2, n_threads_batch=2,
                            logits_all=True, verbose=False)
    divergences, disagreements = [], []
    for ids, rows in zip(sequences, reference):
        model.reset()
        model.eval(ids)
        for wanted, got in zip(rows, model.scores[:len(ids)]):
            p, q = log_softmax(wanted), log_softmax(got)
            divergences.append(float((np.exp(p) * (p - q)).sum()))
            disagreements.append(int(wanted.argmax() != got.argmax()))
    result = dict(llama_cpp_python=llama_cpp.__version__, positions=len(divergences),
                  mean_kl=float(np.mean(divergences)),
                  top1_disagreement=float(np.mean(disagreements)))
    (DATA / "llamacpp_accuracy.json").write_text(json.dumps(result, indent=2) + "\n")
    print(result)


main()
