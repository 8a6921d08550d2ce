"""How far llama.cpp is from float32 on files of each weight type: the bar for our fast kernels.
Not part of the tests; its result is committed as data/llamacpp_accuracy.json.

    v/bin/pip install llama-cpp-python gguf
    v/bin/python tests/bench/make_models --source SmolLM2-135M-Instruct.Q4_1.gguf --out DIR \
        --only smollm2 --types Q4_0,Q4_1,Q5_0,Q5_1,Q8_0,F16,BF16
    v/bin/python tests/golden/models/llamacpp_accuracy.py SmolLM2-135M-Instruct.Q4_1.gguf DIR/*.gguf

Float32 is llama.cpp's own on the same weights dequantised, with a cache of float32.
"""

import importlib.machinery
import importlib.util
import json
import pathlib
import sys
import tempfile

import gguf
import llama_cpp
import numpy as np

HERE = pathlib.Path(__file__).parent
DATA = HERE / "data"
GGML_F32 = 0


def load_make_models():
    path = str(HERE.parents[1] / "bench/make_models")
    loader = importlib.machinery.SourceFileLoader("make_models", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("make_models", loader))
    loader.exec_module(module)
    return module


def log_softmax(row):
    shifted = row.astype(np.float64) - row.max()
    return shifted - np.log(np.exp(shifted).sum())


def open_model(path, **options):
    return llama_cpp.Llama(str(path), n_ctx=1024, n_batch=512, n_threads=2, n_threads_batch=2,
                           logits_all=True, verbose=False, **options)


def logits(model, ids):
    model.reset()
    model.eval(ids)
    return model.scores[:len(ids)]


def compare(path, exact_path, sequences):
    model = open_model(path)
    exact = open_model(exact_path, type_k=GGML_F32, type_v=GGML_F32)
    divergences, disagreements = [], []
    for ids in sequences:
        for wanted, got in zip(logits(exact, ids), logits(model, ids)):
            p, q = log_softmax(wanted), log_softmax(got)
            divergences.append(float((np.exp(p) * (p - q)).sum()))
            disagreements.append(int(wanted.argmax() != got.argmax()))
    return dict(positions=len(divergences), mean_kl=float(np.mean(divergences)),
                top1_disagreement=float(np.mean(disagreements)))


def main():
    make_models = load_make_models()
    sequences = [[int(t) for t in line.split()]
                 for line in (DATA / "english.tokens").read_text().splitlines()]
    files = {}
    for path in map(pathlib.Path, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as folder:
            exact = pathlib.Path(folder) / "exact.gguf"
            make_models.requantise(gguf.GGUFReader(path), gguf.GGMLQuantizationType.F32, exact)
            files[path.stem] = compare(path, exact, sequences)
        print(path.stem, files[path.stem], flush=True)
    result = dict(llama_cpp_python=llama_cpp.__version__, files=files)
    (DATA / "llamacpp_accuracy.json").write_text(json.dumps(result, indent=2) + "\n")


main()
