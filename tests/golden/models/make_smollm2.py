"""Makes the SmolLM2 fixtures in tests/golden/models/data from the model's GGUF file and english.txt
(two chapters of Alice's Adventures in Wonderland, 1865, in the public domain).

    v/bin/python tests/golden/models/make_smollm2.py SmolLM2-135M-Instruct.Q4_1.gguf [LOGITS.npy]

english.tokens   two sequences of 1 024 token ids, one a line
smollm2.golden   the float32 logits of transformers (weights dequantised to float32) after the first
                 tokens of the first sequence: int32 first position, positions, values; then per
                 position that many (int32 id, float32 logit), the highest and an even sample
LOGITS.npy       all logits of both sequences, for llamacpp_accuracy.py; not committed
"""

import pathlib
import sys

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

DATA = pathlib.Path(__file__).parent / "data"
SEQUENCES, LENGTH = 2, 1024
FIRST, POSITIONS, HIGHEST, SAMPLED = 32, 64, 32, 32


def tokens_of(tokenizer):
    ids = tokenizer((DATA / "english.txt").read_text(), add_special_tokens=False)["input_ids"]
    assert len(ids) >= SEQUENCES * LENGTH, len(ids)
    return [ids[i * LENGTH:(i + 1) * LENGTH] for i in range(SEQUENCES)]


def write_golden(logits):
    with open(DATA / "smollm2.golden", "wb") as file:
        np.array([FIRST, POSITIONS, HIGHEST + SAMPLED], dtype="<i4").tofile(file)
        for row in logits[FIRST:FIRST + POSITIONS]:
            highest = np.argsort(-row)[:HIGHEST]
            sampled = np.linspace(0, len(row) - 1, SAMPLED).astype(int)
            entries = np.zeros(HIGHEST + SAMPLED, dtype=[("id", "<i4"), ("logit", "<f4")])
            entries["id"] = np.concatenate([highest, sampled])
            entries["logit"] = row[entries["id"]]
            entries.tofile(file)


def main():
    torch.set_num_threads(1)
    path = pathlib.Path(sys.argv[1])
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name,
                                                 dtype=torch.float32).eval()
    sequences = tokens_of(tokenizer)
    (DATA / "english.tokens").write_text(
        "".join(" ".join(map(str, ids)) + "\n" for ids in sequences))
    with torch.no_grad():
        logits = [model(input_ids=torch.tensor([ids])).logits[0].numpy() for ids in sequences]
    write_golden(logits[0])
    if len(sys.argv) > 2:
        np.save(sys.argv[2], np.stack(logits))


main()
