"""Makes the fixtures of real models in tests/golden/models/data from english.txt (two chapters of
Alice's Adventures in Wonderland, 1865, in the public domain) and the models' GGUF files.

    v/bin/python tests/golden/models/make_real_models.py smollm2 FILE.gguf
    v/bin/python tests/golden/models/make_real_models.py gemma3_270m FILE.gguf

<case>.golden    token ids and slices of the float32 logits of transformers (weights dequantised to
                 float32) after some of them: int32 tokens, first position, positions, values per
                 position; the ids; per position that many (int32 id, float32 logit), the highest
                 and an even sample
english.tokens   (smollm2) two sequences of 1 024 token ids, one a line
"""

import pathlib
import sys

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

DATA = pathlib.Path(__file__).parent / "data"
SEQUENCES, LENGTH = 2, 1024
HIGHEST, SAMPLED = 32, 32
# First position and positions. Gemma's window is 512, so only later positions prove it.
SLICES = {"smollm2": (32, 64), "gemma3_270m": (560, 32)}


def write_golden(case, ids, logits):
    first, positions = SLICES[case]
    with open(DATA / f"{case}.golden", "wb") as file:
        np.array([first + positions, first, positions, HIGHEST + SAMPLED], dtype="<i4").tofile(file)
        np.array(ids[:first + positions], dtype="<i4").tofile(file)
        for row in logits[first:first + positions]:
            highest = np.argsort(-row)[:HIGHEST]
            sampled = np.linspace(0, len(row) - 1, SAMPLED).astype(int)
            entries = np.zeros(HIGHEST + SAMPLED, dtype=[("id", "<i4"), ("logit", "<f4")])
            entries["id"] = np.concatenate([highest, sampled])
            entries["logit"] = row[entries["id"]]
            entries.tofile(file)


def main():
    torch.set_num_threads(1)
    case, path = sys.argv[1], pathlib.Path(sys.argv[2])
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name,
                                                 dtype=torch.float32).eval()

    def logits_of(ids):
        with torch.no_grad():
            return model(input_ids=torch.tensor([ids])).logits[0].numpy()

    ids = tokenizer((DATA / "english.txt").read_text(), add_special_tokens=False)["input_ids"]
    if case == "gemma3_270m":
        # The tokenizer that transformers makes from the file adds no BOS, which gives garbage.
        ids = [2] + ids[:sum(SLICES[case]) - 1]
        write_golden(case, ids, logits_of(ids))
        return
    sequences = [ids[i * LENGTH:(i + 1) * LENGTH] for i in range(SEQUENCES)]
    assert all(len(ids) == LENGTH for ids in sequences)
    (DATA / "english.tokens").write_text(
        "".join(" ".join(map(str, ids)) + "\n" for ids in sequences))
    write_golden(case, sequences[0], logits_of(sequences[0]))


main()
